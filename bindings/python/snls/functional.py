"""functional.py: the operators as functions of NumPy arrays, PyTorch tensors, or anything with __dlpack__.

Arrays may have any strides, and the results belong to the caller's array library. A float32 video whose channels lie side by
side is read in place; half floats, and channels apart ("BTCHW" in memory), are packed first, in each call, into 4 bytes an
element of scratch memory, which a thread keeps until snls.release(). Axes are named B batch, T frames, H rows, W columns,
C channels (head h owns channels h*F to h*F+F-1, C = heads*F), S = 2*wt or 2*wt+1 slots of flow,
nH = ceil(H/stride0), nW = ceil(W/stride0), K neighbours.

layout says where channels are, in every video and every flow of a call:
    "BTHWC"   video (B,T,H,W,C), flow (B,T,S,nH,nW,2), frame flow (B,T,H,W,2)      the default of these functions
    "BTCHW"   video (B,T,C,H,W), flow (B,T,S,2,nH,nW), frame flow (B,T,2,H,W)      PyTorch's habit
Flow is (x, y) in pixels. Offsets are (dt, dy, dx) in pixels, relative to the query's own place, in both layouts.

Videos are float32, float16 or bfloat16; distances, offsets, weights and flow are float32. float64 (all inputs of a call)
runs on the reference backend: slow, for checks of gradients.
"""
from __future__ import annotations

from typing import Any

from . import _numpy
from ._hints import Anchor, AnyArray, Border, Dist, Exclude, Interp, Topk, VideoLayout, Window
from ._operators import OPERATORS

_LAYOUTS = {"BTHWC": False, "BTCHW": True}
_torch_call = None  # of _torch.py, where torch is there
_Tensor, _traced = (), ()  # its tensors; those, and what stands for them


def use_torch(tensor_class: type, traced: tuple[type, ...], call: Any) -> None:
    """From now on tensors of this class, and what may stand for them, go to this function."""
    global _torch_call, _Tensor, _traced
    _torch_call, _Tensor, _traced = call, tensor_class, traced
    _numpy.torch_used = True


def _first(layout):
    if not isinstance(layout, str) or layout not in _LAYOUTS:
        raise ValueError("layout is %r, must be BTHWC or BTCHW" % (layout,))
    return _LAYOUTS[layout]


def _call(name, arrays, params, with_index=True):
    """The operator's output, or a tuple of its outputs. with_index False: a search may leave the candidates' numbers out."""
    try:
        if isinstance(arrays[0], _traced):
            return _torch_call(name, arrays, params, with_index)
        return _numpy.call(name, arrays, params, with_index)
    except TypeError:
        for row, value in zip(OPERATORS[name].params, params):
            row.refuse_unhashable(name, value)
        raise


def search(query: AnyArray, key: AnyArray, flow: AnyArray | None = None, ws: int = 9, wt: int = 0, ps: int = 1, k: int = 1,
           heads: int = 1, stride0: int = 1, stride1: float = 1.0, dilation: int = 1, dist: Dist = "l2",
           interp: Interp = "bilinear", border: Border = "reflect", window: Window = "slide", anchor: Anchor = "none",
           exclude: Exclude = "none", topk: Topk = "all", *, layout: VideoLayout = "BTHWC",
           with_index: bool = False) -> tuple[Any, ...]:
    """The k best matches of every query pixel, in 2*wt+1 frames, around where the flow says it went.

    query, key  (B,T,H,W,C), or (B,T,C,H,W) with layout "BTCHW"
    flow        (B,T,S,nH,nW,2) or (B,heads,T,S,nH,nW,2); with "BTCHW" (B,T,S,2,nH,nW) or (B,heads,T,S,2,nH,nW).
                (x, y) in pixels; S = 2*wt (the query's own frame is not shifted) or 2*wt+1. None: no shift
    returns     dist (B,heads,T,nH,nW,K) and offset (B,heads,T,nH,nW,K,3), (dt, dy, dx); best first; K = k, or
                (2*wt+1)*k with topk "each". with_index: also the candidates' numbers, int32, -1 = none; without it
                they are neither computed nor stored, unless a gradient is to be had, which needs them

    ws window side, wt temporal radius, ps patch side, stride0 and stride1 pixels between queries and candidates
    (stride1 0.5: half-pixel search), dist "l2" (smaller is better) or "prod" (larger is better); the others are in
    docs/options.md. A neighbour that does not exist has an infinite distance.
    PyTorch: gradients to query, key and flow (through dist, and through offset to flow)."""
    found = _call("search", (query, key, flow),
                  (ws, wt, ps, k, heads, stride0, stride1, dilation, dist, interp, border, window, anchor, exclude, topk,
                   _first(layout)), bool(with_index))
    return found if with_index else found[:2]


def search_all(query: AnyArray, key: AnyArray, flow: AnyArray | None = None, ws: int = 9, wt: int = 0, ps: int = 1,
               heads: int = 1, stride0: int = 1, stride1: float = 1.0, dilation: int = 1, dist: Dist = "l2",
               interp: Interp = "bilinear", border: Border = "reflect", window: Window = "slide", exclude: Exclude = "none", *,
               layout: VideoLayout = "BTHWC", with_index: bool = False) -> tuple[Any, ...]:
    """Every candidate of a search in raster order (slot, row, column), for study: K = (2*wt+1)*ws*ws. As search otherwise:

    query, key (B,T,H,W,C) or (B,T,C,H,W); flow (B,T,S,nH,nW,2) or (B,T,S,2,nH,nW), (x, y);
    returns dist (B,heads,T,nH,nW,K), offset (B,heads,T,nH,nW,K,3), (dt, dy, dx)."""
    found = _call("search_all", (query, key, flow),
                  (ws, wt, ps, 1, heads, stride0, stride1, dilation, dist, interp, border, window, "none", exclude, "all",
                   _first(layout)), bool(with_index))
    return found if with_index else found[:2]


def refine(query: AnyArray, key: AnyArray, centre: AnyArray, wr: int = 1, ps: int = 1, k: int = 1, heads: int = 1,
           stride0: int = 1, stride1: float = 1.0, dilation: int = 1, dist: Dist = "l2", interp: Interp = "bilinear",
           border: Border = "reflect", window: Window = "slide", *, layout: VideoLayout = "BTHWC",
           with_index: bool = False) -> tuple[Any, ...]:
    """Searches again in windows of wr x wr around given places; wr 1 ranks the places themselves anew.

    query, key  (B,T,H,W,C), or (B,T,C,H,W) with layout "BTCHW"
    centre      (B,heads,T,nH,nW,Kin,3), (dt, dy, dx) as search returns offsets
    returns     dist (B,heads,T,nH,nW,k) and offset (B,heads,T,nH,nW,k,3), as search
    PyTorch: gradients to query, key and centre (dy, dx)."""
    found = _call("refine", (query, key, centre), (wr, ps, k, heads, stride0, stride1, dilation, dist, interp, border, window,
                                                   _first(layout)), bool(with_index))
    return found if with_index else found[:2]


def flow_compose(fflow: AnyArray, bflow: AnyArray, wt: int = 0, stride0: int = 1, *, layout: VideoLayout = "BTHWC") -> Any:
    """Frame-to-frame flow to the flow of every slot of a search with temporal radius wt.

    fflow, bflow  (B,T,H,W,2), or (B,T,2,H,W) with layout "BTCHW"; (x, y): motion from frame t to t+1, and to t-1
    returns       (B,T,2*wt,nH,nW,2), or (B,T,2*wt,2,nH,nW)
    PyTorch: gradients to both."""
    return _call("flow_compose", (fflow, bflow), (wt, stride0, _first(layout)))


def weights(dists: AnyArray, scale: float = 10.0, dist: Dist = "l2") -> Any:
    """softmax(-scale*dists) for dist "l2", softmax(scale*dists) for "prod", over the last axis.

    dists (B,heads,T,nH,nW,K) as search returns them. A neighbour that does not exist gets 0, and a query without any gets 0
    everywhere (a plain softmax would give NaN)."""
    return _call("weights", (dists,), (scale, dist, False))


def gather_add(value: AnyArray, weight: AnyArray, offset: AnyArray, ps: int = 1, stride0: int = 1, dilation: int = 1,
               heads: int = 0, interp: Interp = "bilinear", border: Border = "reflect", *, layout: VideoLayout = "BTHWC") -> Any:
    """Weighted sum of the neighbours' patches, divided by the number of query patches over each pixel.

    value   (B,T,H,W,C), or (B,T,C,H,W) with layout "BTCHW"
    weight  (B,heads,T,nH,nW,K); offset (B,heads,T,nH,nW,K,3), (dt, dy, dx)
    returns shaped and typed as value. heads 0: those of weight
    PyTorch: gradients to value, weight and offset (dy, dx)."""
    return _call("gather_add", (value, weight, offset), (ps, stride0, dilation, heads, interp, border, _first(layout)))


def gather(value: AnyArray, weight: AnyArray, offset: AnyArray, ps: int = 1, stride0: int = 1, dilation: int = 1, heads: int = 0,
           interp: Interp = "bilinear", border: Border = "reflect", *, layout: VideoLayout = "BTHWC") -> Any:
    """As gather_add, but the K neighbours are not summed: a stack, for a learned reduction.

    value   (B,T,H,W,C), or (B,T,C,H,W) with layout "BTCHW"
    weight  (B,heads,T,nH,nW,K); offset (B,heads,T,nH,nW,K,3), (dt, dy, dx)
    returns (B,heads,K,T,H,W,F), or (B,heads,K,T,F,H,W) with layout "BTCHW"; F = C/heads
    PyTorch: gradients to value, weight and offset (dy, dx)."""
    return _call("gather", (value, weight, offset), (ps, stride0, dilation, heads, interp, border, _first(layout)))


def scatter_add(value: AnyArray, weight: AnyArray, offset: AnyArray, ps: int = 1, stride0: int = 1, dilation: int = 1,
                heads: int = 0, interp: Interp = "bilinear", border: Border = "reflect", *,
                layout: VideoLayout = "BTHWC") -> tuple[Any, Any]:
    """The adjoint of gather_add before its division: query patches pushed to the neighbours' places and summed there.

    value   (B,T,H,W,C), or (B,T,C,H,W) with layout "BTCHW": what the query patches are cut from
    weight  (B,heads,T,nH,nW,K); offset (B,heads,T,nH,nW,K,3), (dt, dy, dx)
    returns out, shaped as value, and total (B,T,H,W,heads) or (B,T,heads,H,W): the weight that arrived at each pixel
    PyTorch: gradients to value, weight and offset (dy, dx)."""
    return _call("scatter_add", (value, weight, offset), (ps, stride0, dilation, heads, interp, border, _first(layout)))
