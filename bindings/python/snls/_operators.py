"""_operators.py: the operators' tensors and shapes: one row each. What they compute is docs/operators.md.

Logical shapes are those of ops.h, with channels last. A tensor that is marked spatial has its channel (or x,y) axis third
from the end in a call with channels_first: (B,T,C,H,W), flow (B,T,S,2,nH,nW).
"""
from . import _lib

VIDEO_LIKE = frozenset("query key value flow fflow bflow out total".split())  # spatial: have a channel axis
PARAM_BYTES = {"search": 128, "search_all": 128, "refine": 128, "flow_compose": 64, "weights": 64, "gather": 64,
               "gather_add": 64, "scatter_add": 64}


class Operator:
    """params: as the functions take them. inputs, outputs: in the order of the C struct. grads: outputs whose gradients
    come in, in the order of the C struct; the gradients that go out are those of inputs. saved: outputs that backward
    reads. matches: a search, whose last output, index, may be left out."""

    def __init__(self, name, params, inputs, outputs, grads, shapes, optional=(), saved=()):
        self.name, self.inputs, self.outputs, self.grads = name, inputs, outputs, grads
        self.shapes, self.optional, self.saved = shapes, optional, saved
        self.matches = outputs[-1] == "index"
        rows = {row.name: row for row in _lib.options(name)}
        self.params = tuple(rows.pop(n) for n in params.split())
        self.other_params = tuple(rows.values())  # of a newer library: they keep their defaults
        self.param_bytes = PARAM_BYTES[name]
        self.names = tuple(row.name for row in self.params)
        self.defaults = tuple(row.default for row in self.params) + (False,)  # channels_first comes last
        self.at = {n: i for i, n in enumerate(self.names)}
        short = "snls_" + name
        self.shape = _lib.function(short + "_shape", _lib._int, _lib._pointer, _lib._pointer)  # checks without data
        self.forward = _lib.function(short + "_forward", _lib._int, _lib._pointer, _lib._pointer)
        self.backward = _lib.function(short + "_backward", _lib._int, _lib._pointer, _lib._pointer, _lib._pointer)


def _grid(n, stride):
    return (n - 1) // stride + 1


def _video_shape(shape, first):
    """(B,T,H,W,C) of a video's shape."""
    b, t, x, y, z = shape
    return (b, t, y, z, x) if first else (b, t, x, y, z)


def _with_channels(lead, h, w, c, first):
    return (*lead, c, h, w) if first else (*lead, h, w, c)


def _match_outputs(lead, kept):
    return (*lead, kept), (*lead, kept, 3), (*lead, kept)


def _search_shapes(op, shapes, p):
    b, t, h, w, _ = _video_shape(shapes[0], p[-1])
    slots, at = 2 * p[op.at["wt"]] + 1, op.at
    kept = slots * p[at["ws"]] ** 2 if op.name == "search_all" else p[at["k"]] * (slots if p[at["topk"]] == "each" else 1)
    stride = p[at["stride0"]]
    return _match_outputs((b, p[at["heads"]], t, _grid(h, stride), _grid(w, stride)), kept)


def _refine_shapes(op, shapes, p):
    b, t, h, w, _ = _video_shape(shapes[0], p[-1])
    stride = p[op.at["stride0"]]
    return _match_outputs((b, p[op.at["heads"]], t, _grid(h, stride), _grid(w, stride)), p[op.at["k"]])


def _compose_shapes(op, shapes, p):
    b, t, h, w, _ = _video_shape(shapes[0], p[-1])
    stride = p[op.at["stride0"]]
    return (_with_channels((b, t, 2 * p[op.at["wt"]]), _grid(h, stride), _grid(w, stride), 2, p[-1]),)


def _weights_shapes(op, shapes, p):
    return (tuple(shapes[0]),)


def _gather_add_shapes(op, shapes, p):
    return (tuple(shapes[0]),)


def _gather_shapes(op, shapes, p):
    b, t, h, w, c = _video_shape(shapes[0], p[-1])
    heads, kept = shapes[1][1], shapes[1][5]
    return (_with_channels((b, heads, kept, t), h, w, c // max(heads, 1), p[-1]),)  # no heads: refused by the library


def _scatter_add_shapes(op, shapes, p):
    b, t, h, w, _ = _video_shape(shapes[0], p[-1])
    return tuple(shapes[0]), _with_channels((b, t), h, w, shapes[1][1], p[-1])


_SEARCH = "ws wt ps k heads stride0 stride1 dilation dist interp border window anchor exclude topk"
_REFINE = "wr ps k heads stride0 stride1 dilation dist interp border window"
_GATHER = "ps stride0 dilation heads interp border"
_VIDEOS, _MATCH, _DIST, _INDEX = ("query", "key"), ("dist", "offset", "index"), ("dist", "offset"), ("index",)
_PLACES, _FLOW = ("value", "weight", "offset"), ("flow",)
OPERATORS = {op.name: op for op in (
    Operator("search", _SEARCH, _VIDEOS + _FLOW, _MATCH, _DIST, _search_shapes, _FLOW, _INDEX),
    Operator("search_all", _SEARCH, _VIDEOS + _FLOW, _MATCH, _DIST, _search_shapes, _FLOW, _INDEX),
    Operator("refine", _REFINE, _VIDEOS + ("centre",), _MATCH, _DIST, _refine_shapes, (), _INDEX),
    Operator("flow_compose", "wt stride0", ("fflow", "bflow"), _FLOW, _FLOW, _compose_shapes),
    Operator("weights", "scale dist", ("dist",), ("weight",), ("weight",), _weights_shapes, (), ("weight",)),
    Operator("gather", _GATHER, _PLACES, ("out",), ("out",), _gather_shapes),
    Operator("gather_add", _GATHER, _PLACES, ("out",), ("out",), _gather_add_shapes),
    Operator("scatter_add", _GATHER, _PLACES, ("out", "total"), ("out", "total"), _scatter_add_shapes),
)}

NDIM = {"query": (5,), "key": (5,), "value": (5,), "flow": (6, 7), "fflow": (5,), "bflow": (5,), "centre": (7,),
        "dist": (6,), "weight": (6,), "offset": (7,)}


def check_ndim(op, shapes):
    """The number of axes of each input; the rest is the library's to check."""
    for name, shape in zip(op.inputs, shapes):
        if shape is not None and len(shape) not in NDIM[name]:
            raise ValueError("%s: %s has %d axes, must have %s" % (op.name, name, len(shape),
                                                                   " or ".join(map(str, NDIM[name]))))


def number_dtype(dtype):
    """Element type of distances, offsets, weights and flow beside videos of this type."""
    return _lib.F64 if dtype == _lib.F64 else _lib.F32


def output_dtypes(op, dtype):
    """Element types of the outputs, from that of the first input."""
    numbers = number_dtype(dtype)
    return tuple(_lib.I32 if name == "index" else dtype if name == "out" else numbers for name in op.outputs)
