"""_flow.py: optical flow, warping and alignment of frames, for NumPy arrays and PyTorch tensors in CPU memory.

Frames are on the 0..255 scale, float or uint8, with any strides: (H,W) or (H,W,C), or (C,H,W) with layout "CHW". Flow is
(x, y) in pixels, (H,W,2) or (2,H,W): what one frame shows at (x, y) the other has at (x + flow_x, y + flow_y).
"""
from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from . import _lib, functional
from ._frames import FLOAT_TYPES, FLOW_TYPES, _is_torch, as_array, channels_first, context, lend, logical, new, ref, to_float32, type_of
from ._hints import AnyArray, FlowMethod, FrameLayout, Interp, Option

METHODS = ("farneback", "tvl1", "dis")


class _Params(ctypes.Structure):
    """SnlsFlowParams of flow.h; the methods' own structs as room that the option tables lead into."""
    _fields_ = [("method", ctypes.c_int32), ("reserved", ctypes.c_int32 * 15), ("farneback", ctypes.c_double * 10),
                ("tvl1", ctypes.c_double * 12), ("dis", ctypes.c_double * 8)]


class _Three(ctypes.Structure):
    """SnlsFlowPair (from, to, flow) and SnlsFlowClip (video, forward, backward)."""
    _fields_ = [("a", _lib.Tensor), ("b", _lib.Tensor), ("c", _lib.Tensor)]


_P = _lib._pointer
_defaults = _lib.function("snls_flow_defaults", None, _P)
_pair = _lib.function("snls_flow", _lib._int, _P, _P, _P)
_clip = _lib.function("snls_flow_clip", _lib._int, _P, _P, _P)
_resize = _lib.function("snls_flow_resize", _lib._int, _P, _P, _P)
_consistency = _lib.function("snls_flow_consistency", _lib._int, _P, _P, _P, _P, _P)
_warp = _lib.function("snls_flow_warp", _lib._int, _P, _P, _P, _P)
_error = _lib.function("snls_flow_error", _lib._int, _P, _P, _P, _P)
_color = _lib.function("snls_flow_color", _lib._int, _P, _P, ctypes.c_double, _P)


def _params(method, options):
    if method not in METHODS:
        raise ValueError("flow: method is %r, must be one of %s" % (method, ", ".join(METHODS)))
    params = _Params()
    _defaults(ref(params))
    params.method = METHODS.index(method)
    _lib.store_options("flow", _lib.flow_options(method), params, getattr(_Params, method).offset, options, method + " has")
    return params


def flow(frame0: AnyArray, frame1: AnyArray, method: FlowMethod = "farneback", layout: FrameLayout = "HWC",
         **options: Option) -> Any:
    """Optical flow from frame0 to frame1: (H,W,2), (x, y) in pixels, float32; (2,H,W) with layout "CHW".

    frame0, frame1  (H,W) or (H,W,C); with "CHW" (H,W) or (C,H,W); 0..255, float or uint8
    method          "farneback", "tvl1" or "dis" (the fast one); options are the method's own (docs/options.md), such as
                    winsize=5 and pyr_scale=0.6 of farneback (_ in place of -) or lambda_=0.1 of tvl1"""
    frame0, frame1, first = as_array("flow: frame0", frame0), as_array("flow: frame1", frame1), channels_first(layout)
    params = _params(method, options)
    pair = _Three(lend("flow: frame0", frame0, first, (2, 3)), lend("flow: frame1", frame1, first, (2, 3)))
    out, pair.c = new(frame0, (*logical(frame0, first)[:2], 2), first)
    ctx = context(frame0)
    ctx.call(_pair, ctx.handle, ref(pair), ref(params))
    return out


def flow_clip(video: AnyArray, method: FlowMethod = "farneback", layout: FrameLayout = "HWC",
              **options: Option) -> tuple[Any, Any]:
    """Flow of a clip, as flow_compose takes it: forward[t] leads from frame t to t+1, backward[t] to t-1; 0 where there is
    no such frame. video (T,H,W,C), or (T,C,H,W) with layout "CHW"; returns two arrays (T,H,W,2) or (T,2,H,W), (x, y)."""
    video, first = as_array("flow_clip: video", video), channels_first(layout)
    params = _params(method, options)
    clip = _Three(lend("flow_clip: video", video, first, (4,)))
    shape = (*logical(video, first)[:3], 2)
    (forward, clip.b), (backward, clip.c) = new(video, shape, first), new(video, shape, first)
    ctx = context(video)
    ctx.call(_clip, ctx.handle, ref(clip), ref(params))
    return forward, backward


def warp(image: AnyArray, flow: AnyArray, layout: FrameLayout = "HWC") -> Any:
    """image (H,W,C) read at x + flow(x), bilinear, clamped to the border: frame1 moved onto frame0 by the flow from 0 to 1.
    layout "CHW": image (C,H,W), flow (2,H,W). float32."""
    image, flow, first = as_array("warp: image", image), as_array("warp: flow", flow), channels_first(layout)
    given, field = lend("warp: image", image, first, (3,)), lend("warp: flow", flow, first, (3,), FLOW_TYPES)
    out, result = new(image, logical(image, first), first)
    ctx = context(image)
    ctx.call(_warp, ctx.handle, ref(given), ref(field), ref(result))
    return out


def flow_resize(flow: AnyArray, height: int, width: int, layout: FrameLayout = "HWC") -> Any:
    """A flow at another resolution: resampled, and its vectors scaled. (H,W,2) to (height,width,2); "CHW": (2,H,W)."""
    flow, first = as_array("flow_resize: flow", flow), channels_first(layout)
    given = lend("flow_resize: flow", flow, first, (3,), FLOW_TYPES)
    height, width = (_lib.whole("flow_resize: " + name, n, 1, 2**63 - 1) for name, n in (("height", height), ("width", width)))
    out, result = new(flow, (height, width, 2), first)
    ctx = context(flow)
    ctx.call(_resize, ctx.handle, ref(given), ref(result))
    return out


def flow_consistency(forward: AnyArray, backward: AnyArray, layout: FrameLayout = "HWC") -> tuple[Any, Any]:
    """Where a flow and the flow back agree: error (H,W), |forward(x) + backward(x + forward(x))|, and mask (H,W), uint8, 1
    where they do (Sundaram, Brox, Keutzer, 2010). forward, backward (H,W,2), or (2,H,W) with layout "CHW"."""
    forward, backward = as_array("flow_consistency: forward", forward), as_array("flow_consistency: backward", backward)
    first = channels_first(layout)
    there = lend("flow_consistency: forward", forward, first, (3,), FLOW_TYPES)
    back = lend("flow_consistency: backward", backward, first, (3,), FLOW_TYPES)
    shape = logical(forward, first)[:2]
    (error, e), (mask, m) = new(forward, shape), new(forward, shape, dtype=_lib.U8)
    ctx = context(forward)
    ctx.call(_consistency, ctx.handle, ref(there), ref(back), ref(e), ref(m))
    return error, mask


def flow_error(flow: AnyArray, truth: AnyArray, layout: FrameLayout = "HWC") -> float:
    """Mean end-point error in pixels over the pixels where truth is known (components below 1e9). (H,W,2) or (2,H,W)."""
    flow, truth, first = as_array("flow_error: flow", flow), as_array("flow_error: truth", truth), channels_first(layout)
    a, b = (lend("flow_error: " + name, field, first, (3,), FLOW_TYPES) for name, field in (("flow", flow), ("truth", truth)))
    ctx, out = context(flow), ctypes.c_double()
    ctx.call(_error, ctx.handle, ref(a), ref(b), ref(out))
    return out.value


def flow_color(flow: AnyArray, largest: float = 0.0, layout: FrameLayout = "HWC") -> Any:
    """A flow as a picture, uint8 (H,W,3), or (3,H,W) with layout "CHW": hue is direction, saturation length beside largest
    (0: the longest vector)."""
    flow, first = as_array("flow_color: flow", flow), channels_first(layout)
    given = lend("flow_color: flow", flow, first, (3,), FLOW_TYPES)
    out, result = new(flow, (*logical(flow, first)[:2], 3), first, _lib.U8)
    ctx = context(flow)
    ctx.call(_color, ctx.handle, ref(given), _lib.real("flow_color: largest", largest), ref(result))
    return out


def _given_flow(reference, frame, flow_or_method, layout, options):
    if isinstance(flow_or_method, str):
        return flow(reference, frame, flow_or_method, layout, **options)
    if options:
        raise TypeError("align: options of a flow method (%s) are given, but flow is no method" % ", ".join(options))
    return flow_or_method


def _as_search_takes(frame, reference, field):
    """The three in element types that a search takes. Half floats stay where both frames have one kind of them, and so do
    tensors that are float64 throughout, for checks of gradients; anything else becomes float32."""
    types = type_of("align: frame", frame), type_of("align: reference", reference)
    flow_type = None if field is None else type_of("align: flow", field, FLOAT_TYPES)  # of autocast's type too
    if _is_torch(frame) and types == ("float64", "float64") and flow_type in (None, "float64"):
        return frame, reference, field
    if types not in (("float16", "float16"), ("bfloat16", "bfloat16")):
        frame, reference = to_float32(frame), to_float32(reference)
    return frame, reference, None if field is None else to_float32(field)


def _of_queries(field, first, stride0):
    """A frame's flow as that of a search: where the queries are, one slot of one frame."""
    if field.ndim != 3:
        raise ValueError("align: flow has %d axes, must have 3" % field.ndim)
    step = (slice(None),) * first + (slice(None, None, stride0),) * 2
    return field[step][None, None, None]


def _ones(dist):
    """1 for each distance, in the graph that it is in. An infinite one times 0 would be NaN: no place was found (offset 0, so the pixel's
    own is taken), or all that are there differ by more than float32 can say."""
    return (dist * 0).nan_to_num() + 1 if _is_torch(dist) else np.ones_like(dist)


def align(frame: AnyArray, reference: AnyArray, flow: AnyArray | FlowMethod | None = "farneback", ws: int = 11, ps: int = 3,
          stride0: int = 1, stride1: float = 1.0, interp: Interp = "bilinear", *, layout: FrameLayout = "HWC",
          with_offset: bool = False, **options: Option) -> Any:
    """frame moved onto reference by a shifted search: around where the flow points, the best of ws x ws places is taken for
    every pixel, and its patch moved.

    frame, reference  (H,W,C), or (C,H,W) with layout "CHW"; float or uint8
    flow              a method ("farneback", "tvl1", "dis") with its options, a flow from reference to frame, (x, y), (H,W,2)
                      or (2,H,W), or None: search around the pixel's own place. A method works in CPU memory; with a
                      flow or None the tensors may be on a GPU and gradients pass. Where a flow is not finite a pixel stays
    returns           shaped as frame, float32; float16 or bfloat16 where both frames are, float64 where these and the flow are
                      such PyTorch tensors. with_offset: also where each pixel came from, (nH,nW,2), (dy, dx)"""
    frame, reference, first = as_array("align: frame", frame), as_array("align: reference", reference), channels_first(layout)
    if frame.ndim != 3:
        raise ValueError("align: frame has %d axes, must have 3" % frame.ndim)
    videos, stride0 = "BTCHW" if first else "BTHWC", _lib.whole("align: stride0", stride0, 1, 2**31 - 1)
    field = _given_flow(reference, frame, flow, layout, options)
    if field is not None:
        field = _of_queries(as_array("align: flow", field), first, stride0)
    frame, reference, field = _as_search_takes(frame, reference, field)
    dist, offset = functional.search(reference[None, None], frame[None, None], field, ws=ws, ps=ps, stride0=stride0,
                                     stride1=stride1, interp=interp, layout=videos)
    moved = functional.gather_add(frame[None, None], _ones(dist), offset, ps=ps, stride0=stride0, interp=interp, layout=videos)
    return (moved[0, 0], offset[0, 0, 0, :, :, 0, 1:]) if with_offset else moved[0, 0]
