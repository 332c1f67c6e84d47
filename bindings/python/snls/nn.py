"""nn.py: the operators as torch.nn.Modules, under the names that users of stnls know. Needs PyTorch.

Videos are (B,T,C,H,W), flows (B,T,S,2,nH,nW) and frame flows (B,T,2,H,W), (x, y) in pixels; layout="BTHWC" puts channels
last instead: (B,T,H,W,C), (B,T,S,nH,nW,2), (B,T,H,W,2). Distances are (B,heads,T,nH,nW,K), offsets
(B,heads,T,nH,nW,K,3) as (dt, dy, dx), in both. Names, order and defaults of the arguments are those of stnls; what an
argument cannot do here is refused with a sentence. Modules have no parameters; they may be copied, pickled and compiled.
"""
from __future__ import annotations

import operator

import torch
from torch import Tensor

from . import _lib, functional
from ._hints import Dist, Itype, SelfAction, Topk, VideoLayout
from ._operators import OPERATORS

_SELF = {None: ("none", "none"), "none": ("none", "none"), "anchor": ("self", "none"), "anchor_self": ("self", "none"),
         "anchor_each": ("each", "none"), "remove": ("none", "self"), "remove_ref_frame": ("none", "frame")}
_INTERP = {"float": "bilinear", "int": "nearest", "bilinear": "bilinear", "nearest": "nearest", "2d": "bilinear"}


def _choose(module, name, value, table):
    if not isinstance(value, (str, type(None))) or value not in table:
        raise ValueError("%s: %s is %r, must be one of %s"
                         % (module, name, value, ", ".join(map(repr, table))))
    return table[value]


def _only(module, **given):
    """Refuses arguments of stnls that have no meaning here. given: name=(value, the value that is allowed)."""
    for name, (value, allowed) in given.items():
        if value != allowed:
            raise ValueError("%s: %s is %r, only %r is supported (see the table in docs/python.md)"
                             % (module, name, value, allowed))


_THEIRS = {"heads": "nheads", "dist": "dist_type", "topk": "topk_mode"}  # as stnls calls them


def _plain_options(module, op, options):
    """options as ints, floats and strings. Refuses when a module is made what its operator would refuse when it is called."""
    rows = {row.name: row for row in OPERATORS[op].params}
    return {name: rows[name].plain(module, value, _THEIRS.get(name)) for name, value in options.items()}


class _Module(torch.nn.Module):
    """Keeps the keyword arguments of one function, those of an operator; shows them."""

    def __init__(self, name, op, layout, **options):
        super().__init__()
        functional._first(layout)
        self.layout, self.options = layout, _plain_options(name, op, options)

    def extra_repr(self) -> str:
        return ", ".join("%s=%r" % item for item in {**self.options, **self._beside(), "layout": self.layout}.items())

    def _beside(self):
        """What the module was made with and its function is not told."""
        return {}

    def apply_to(self, function, *tensors):
        return function(*tensors, **self.options, layout=self.layout)


def _kept(module, k, anchor, topk):
    """Options of a search for its k best; none where k <= 0 asks for all."""
    k = _lib.whole(module + ": k", k, -2**31, 2**31 - 1)
    if k > 0:
        return dict(k=k, anchor=anchor, topk=topk)
    if anchor != "none":
        raise ValueError("%s: k is %d (all candidates), so self_action must not anchor" % (module, k))
    return {}


class NonLocalSearch(_Module):
    """search as a module: the k best matches of every query in 2*wt+1 frames, around where the flow points.

    forward(query, key), forward(query, key, flow) or forward(query, key, fflow, bflow), which composes the flow first; flows
    also by these names.
    query, key (B,T,C,H,W), C = nheads*F; flow (B,T,S,2,nH,nW) or (B,heads,T,S,2,nH,nW), (x, y), S = 2*wt or 2*wt+1;
    fflow, bflow (B,T,2,H,W). layout "BTHWC": channels and (x, y) last.
    Returns dists (B,heads,T,nH,nW,K) and offsets (B,heads,T,nH,nW,K,3), (dt, dy, dx), best first.

    k <= 0 returns all candidates, in raster order. self_action: None, "anchor" (the query itself is kept, first),
    "anchor_each" (in every frame the flow's target is kept first), "remove" (the query itself is dropped),
    "remove_ref_frame". itype "float" (bilinear) or "int" (whole pixels). full_ws: windows slide inside the frame;
    otherwise they are cut. reflect_bounds: patch pixels outside are mirrored; otherwise dropped."""

    def __init__(self, ws: int, wt: int, ps: int, k: int, nheads: int = 1, stride0: int = 4, stride1: float = 1,
                 dist_type: Dist = "l2", dilation: int = 1, pt: int = 1, self_action: SelfAction | None = None,
                 topk_mode: Topk = "all", ws_interior: int = 0, reflect_bounds: bool = True, full_ws: bool = True,
                 use_adj: bool = False, normalize_bwd: bool = False, k_agg: int = -1, off_Hq: int = 0, off_Wq: int = 0,
                 strideQ: int | None = None, itype: Itype = "float", *, layout: VideoLayout = "BTCHW") -> None:
        _only("NonLocalSearch", pt=(pt, 1), ws_interior=(ws_interior, 0), use_adj=(use_adj, False),
              normalize_bwd=(normalize_bwd, False), k_agg=(k_agg, -1), off_Hq=(off_Hq, 0), off_Wq=(off_Wq, 0),
              strideQ=(strideQ, None))
        anchor, exclude = _choose("NonLocalSearch", "self_action", self_action, _SELF)
        options = dict(ws=ws, wt=wt, ps=ps, heads=nheads, stride0=stride0, stride1=_lib.real("NonLocalSearch: stride1", stride1),
                       dilation=dilation, dist=dist_type, interp=_choose("NonLocalSearch", "itype", itype, _INTERP),
                       border="reflect" if reflect_bounds else "drop", window="slide" if full_ws else "cut", exclude=exclude)
        kept = _kept("NonLocalSearch", k, anchor, topk_mode)
        super().__init__("NonLocalSearch", "search", layout, **options, **kept)
        self.all = not kept

    def _beside(self):
        return {"k": -1} if self.all else {}

    def forward(self, query: Tensor, key: Tensor, flow: Tensor | None = None, bflow: Tensor | None = None, *,
                fflow: Tensor | None = None) -> tuple[Tensor, Tensor]:
        if fflow is not None and (flow is not None or bflow is None) or bflow is not None and flow is None and fflow is None:
            raise TypeError("NonLocalSearch: give flow, or fflow and bflow")
        if bflow is not None:
            flow = functional.flow_compose(flow if fflow is None else fflow, bflow, wt=self.options["wt"],
                                           stride0=self.options["stride0"], layout=self.layout)
        return self.apply_to(functional.search_all if self.all else functional.search, query, key, flow)


class PairedSearch(_Module):
    """Search of each frame of one video in the frame of the same number of another, around where the flow points.

    forward(query, key) or forward(query, key, flow): query, key (B,C,H,W) with flow (B,2,nH,nW), or (B,T,C,H,W) with flow
    (B,T,2,nH,nW); (x, y). layout "BTHWC": channels and (x, y) last.
    Returns dists (B,heads,T,nH,nW,k) and offsets (B,heads,T,nH,nW,k,3), (dt, dy, dx), dt = 0; T = 1 for (B,C,H,W).
    k <= 0 returns all candidates, in raster order."""

    def __init__(self, ws: int, ps: int, k: int, nheads: int = 1, dist_type: Dist = "l2", stride0: int = 4, stride1: float = 1,
                 dilation: int = 1, pt: int = 1, reflect_bounds: bool = True, full_ws: bool = True,
                 self_action: SelfAction | None = None, use_adj: bool = False, normalize_bwd: bool = False, k_agg: int = -1,
                 off_Hq: int = 0, off_Wq: int = 0, itype: Itype = "float", *, layout: VideoLayout = "BTCHW") -> None:
        _only("PairedSearch", pt=(pt, 1), use_adj=(use_adj, False), normalize_bwd=(normalize_bwd, False), k_agg=(k_agg, -1),
              off_Hq=(off_Hq, 0), off_Wq=(off_Wq, 0))
        anchor, exclude = _choose("PairedSearch", "self_action", self_action, _SELF)
        kept = _kept("PairedSearch", k, anchor, "all")
        super().__init__("PairedSearch", "search", layout, ws=ws, wt=0, ps=ps, heads=nheads, stride0=stride0, stride1=_lib.real("PairedSearch: stride1", stride1),
                         dilation=dilation, dist=dist_type, interp=_choose("PairedSearch", "itype", itype, _INTERP),
                         border="reflect" if reflect_bounds else "drop", window="slide" if full_ws else "cut",
                         exclude=exclude, **kept)
        self.all = not kept

    def _beside(self):
        return {"k": -1} if self.all else {}

    @staticmethod
    def _check_axes(query, key, flow):
        """Said before axes are added, so that a sentence counts those that were given."""
        axes = lambda t: getattr(t, "ndim", 0)
        same = (axes(query),), "%s as query" % axes(query)  # of what torch.fx traces no number is known, which it says itself
        for name, t, (allowed, words) in (("query", query, ((4, 5), "4 or 5")), ("key", key, same), ("flow", flow, same)):
            if t is None and name != "flow":
                raise TypeError("PairedSearch: %s is missing" % name)
            if t is not None and axes(t) not in allowed:
                raise ValueError("PairedSearch: %s has %d axes, must have %s" % (name, axes(t), words))

    def forward(self, query: Tensor, key: Tensor, flow: Tensor | None = None) -> tuple[Tensor, Tensor]:
        self._check_axes(query, key, flow)
        if query.ndim == 4:
            query, key, flow = query[:, None], key[:, None], None if flow is None else flow[:, None]
        return self.apply_to(functional.search_all if self.all else functional.search, query, key,
                             None if flow is None else flow[:, :, None])


def _share(kr):
    """kr of RefineSearch: an int, how many, or a float, what share of them."""
    try:
        return int(operator.index(_lib.held(kr)))
    except TypeError:
        pass
    share = _lib.real("RefineSearch: kr", kr)
    if not share <= 1:
        raise ValueError("RefineSearch: kr is %r, must be a whole number, or a share of at most 1.0" % (kr,))
    return share


class RefineSearch(_Module):
    """refine as a module: searches again in wr x wr windows around given places; wr 1 ranks the places anew.

    forward(query, key, offsets): query, key (B,T,C,H,W), or (B,T,H,W,C) with layout "BTHWC"; offsets
    (B,heads,T,nH,nW,Kin,3), (dt, dy, dx) as a search returned them. Returns dists (B,heads,T,nH,nW,k) and offsets.
    kr: how many of the given places are used, a whole number (8), a share as a float (0.5), or -1 or 1.0 for all. ws and wt are accepted
    for the sake of stnls and not looked at. k <= 0: all Kin*wr*wr candidates, best first."""

    def __init__(self, ws: int, wt: int, wr: int, k: int, kr: float, ps: int, nheads: int = 1, stride0: int = 4,
                 stride1: float = 1, strideQ: int | None = None, dilation: int = 1, pt: int = 1, dist_type: Dist = "l2",
                 restricted_radius: bool = False, reflect_bounds: bool = True, full_ws: bool = True, topk_mode: Topk = "all",
                 self_action: SelfAction | None = None, use_adj: bool = False, normalize_bwd: bool = False, k_agg: int = -1,
                 off_Hq: int = 0, off_Wq: int = 0, itype: Itype = "float", *, layout: VideoLayout = "BTCHW") -> None:
        _only("RefineSearch", pt=(pt, 1), use_adj=(use_adj, False), normalize_bwd=(normalize_bwd, False),
              k_agg=(k_agg, -1), off_Hq=(off_Hq, 0), off_Wq=(off_Wq, 0), strideQ=(strideQ, None),
              restricted_radius=(restricted_radius, False), topk_mode=(topk_mode, "all"), self_action=(self_action, None))
        k = _lib.whole("RefineSearch: k", k, -2**31, 2**31 - 1)
        super().__init__("RefineSearch", "refine", layout, wr=wr, ps=ps, k=max(k, 1), heads=nheads, stride0=stride0, stride1=_lib.real("RefineSearch: stride1", stride1),
                         dilation=dilation, dist=dist_type, interp=_choose("RefineSearch", "itype", itype, _INTERP),
                         border="reflect" if reflect_bounds else "drop", window="slide" if full_ws else "cut")
        self.kr, self.options["k"] = _share(kr), k  # not above 0: as many as there are

    def _beside(self):
        return {"kr": self.kr}

    def _used(self, given):
        if self.kr <= 0:
            return given
        return max(1, int(self.kr * given)) if isinstance(self.kr, float) else min(given, self.kr)

    def forward(self, query: Tensor, key: Tensor, offsets: Tensor) -> tuple[Tensor, Tensor]:
        offsets = offsets[..., :self._used(offsets.shape[-2]), :]
        options = dict(self.options)
        if options["k"] <= 0:
            options["k"] = offsets.shape[-2] * options["wr"] ** 2
        return functional.refine(query, key, offsets, **options, layout=self.layout)


class _Aggregate(_Module):
    def __init__(self, name, op, ps, stride0, dilation, pt, reflect_bounds, use_adj, itype, layout):
        _only(name, pt=(pt, 1), use_adj=(use_adj, False))
        super().__init__(name, op, layout, ps=ps, stride0=stride0, dilation=dilation, interp=_choose(name, "itype", itype, _INTERP),
                         border="reflect" if reflect_bounds else "drop")


class NonLocalGather(_Aggregate):
    """gather as a module: the neighbours' patches, weighted, as a stack over K (for a learned reduction).

    forward(value, weights, offsets): value (B,T,C,H,W); weights (B,heads,T,nH,nW,K); offsets (B,heads,T,nH,nW,K,3),
    (dt, dy, dx). Returns (B,heads,K,T,F,H,W), F = C/heads. layout "BTHWC": value (B,T,H,W,C), result
    (B,heads,K,T,H,W,F)."""

    def __init__(self, ps: int, stride0: int, pt: int = 1, dilation: int = 1, reflect_bounds: bool = True, use_adj: bool = False,
                 itype: Itype = "float", *, layout: VideoLayout = "BTCHW") -> None:
        super().__init__("NonLocalGather", "gather", ps, stride0, dilation, pt, reflect_bounds, use_adj, itype, layout)

    def forward(self, value: Tensor, weights: Tensor, offsets: Tensor) -> Tensor:
        return self.apply_to(functional.gather, value, weights, offsets)


class WeightedPatchSum(_Aggregate):
    """gather_add as a module: the weighted sum of the neighbours' patches, divided by the number of patches over each pixel.

    forward(value, weights, offsets): value (B,T,C,H,W); weights (B,heads,T,nH,nW,K); offsets (B,heads,T,nH,nW,K,3),
    (dt, dy, dx). Returns (B,T,C,H,W). layout "BTHWC": value and result (B,T,H,W,C)."""

    def __init__(self, ps: int, stride0: int, pt: int = 1, dilation: int = 1, reflect_bounds: bool = True, use_adj: bool = False,
                 itype: Itype = "float", *, layout: VideoLayout = "BTCHW") -> None:
        super().__init__("WeightedPatchSum", "gather_add", ps, stride0, dilation, pt, reflect_bounds, use_adj, itype, layout)

    def forward(self, value: Tensor, weights: Tensor, offsets: Tensor) -> Tensor:
        return self.apply_to(functional.gather_add, value, weights, offsets)


def _one_stride(name, strideIn, strideOut, outH, outW):
    if strideOut not in (None, strideIn) or outH or outW:
        raise ValueError("%s: strideOut must equal strideIn (%r), and outH and outW be 0: the result has the size of the "
                         "video" % (name, strideIn))


class NonLocalGatherAdd(_Aggregate):
    """WeightedPatchSum under its later name. Returns (B,T,C,H,W), heads one after the other in C; layout "BTHWC":
    (B,T,H,W,C). value (B,T,C,H,W), weights (B,heads,T,nH,nW,K), offsets (B,heads,T,nH,nW,K,3), (dt, dy, dx)."""

    def __init__(self, ps: int, strideIn: int, strideOut: int | None = None, outH: int = 0, outW: int = 0, pt: int = 1,
                 dilation: int = 1, reflect_bounds: bool = True, use_adj: bool = False, itype: Itype = "float", *,
                 layout: VideoLayout = "BTCHW") -> None:
        _one_stride("NonLocalGatherAdd", strideIn, strideOut, outH, outW)
        super().__init__("NonLocalGatherAdd", "gather_add", ps, strideIn, dilation, pt, reflect_bounds, use_adj, itype, layout)

    def forward(self, value: Tensor, weights: Tensor, offsets: Tensor) -> Tensor:
        return self.apply_to(functional.gather_add, value, weights, offsets)


class NonLocalScatterAdd(_Aggregate):
    """scatter_add as a module: query patches pushed to the neighbours' places and summed there.

    forward(value, weights, offsets) as NonLocalGatherAdd. Returns out (B,T,C,H,W) and total (B,T,heads,H,W), the weight
    that arrived at each pixel; layout "BTHWC": (B,T,H,W,C) and (B,T,H,W,heads)."""

    def __init__(self, ps: int, strideIn: int, strideOut: int | None = None, outH: int = 0, outW: int = 0, pt: int = 1,
                 dilation: int = 1, reflect_bounds: bool = True, use_adj: bool = False, itype: Itype = "float", *,
                 layout: VideoLayout = "BTCHW") -> None:
        _one_stride("NonLocalScatterAdd", strideIn, strideOut, outH, outW)
        super().__init__("NonLocalScatterAdd", "scatter_add", ps, strideIn, dilation, pt, reflect_bounds, use_adj, itype, layout)

    def forward(self, value: Tensor, weights: Tensor, offsets: Tensor) -> tuple[Tensor, Tensor]:
        return self.apply_to(functional.scatter_add, value, weights, offsets)


class SoftmaxWeights(torch.nn.Module):
    """weights as a module: softmax over K of -scale*dists ("l2") or scale*dists ("prod").

    forward(dists): (B,heads,T,nH,nW,K); the same shape back. A neighbour that does not exist weighs 0."""

    def __init__(self, scale: float = 10.0, dist_type: Dist = "l2") -> None:
        super().__init__()
        options = dict(scale=_lib.real("SoftmaxWeights: scale", scale), dist=dist_type)
        self.scale, self.dist_type = _plain_options("SoftmaxWeights", "weights", options).values()

    def extra_repr(self) -> str:
        return "scale=%r, dist_type=%r" % (self.scale, self.dist_type)

    def forward(self, dists: Tensor) -> Tensor:
        return functional.weights(dists, self.scale, self.dist_type)


def search_flow(fflow: Tensor, bflow: Tensor, wt: int, stride0: int = 1, *, layout: VideoLayout = "BTCHW") -> Tensor:
    """Frame-to-frame flow to the flow of every slot of a search; flow_compose in stnls's order of axes.

    fflow, bflow (B,T,2,H,W), (x, y): motion from frame t to t+1, and to t-1. Returns (B,T,2*wt,2,nH,nW). layout "BTHWC":
    (B,T,H,W,2) and (B,T,2*wt,nH,nW,2)."""
    return functional.flow_compose(fflow, bflow, wt, stride0, layout=layout)


NonLocalStack = NonLocalGather  # its earlier name
