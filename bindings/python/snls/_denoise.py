"""_denoise.py: the video denoiser and its noise, for NumPy arrays and PyTorch tensors in CPU memory.

Frames are (H,W,C), or (C,H,W) with layout "CHW"; C is 1 or 3 (red, green, blue); 0..255, neither clipped nor rounded.
"""
from __future__ import annotations

import ctypes
import os
import threading
from typing import Any

import numpy as np

from . import _context, _lib
from ._frames import _is_torch, as_array, channels_first, ref
from ._hints import AnyArray, Cuts, Device, FrameLayout, Option, Path, Sigma


class _Params(ctypes.Structure):
    """SnlsDenoiseParams of denoise.h: sigma, and room that the option table leads into."""
    _fields_ = [("sigma", ctypes.c_double * 3), ("others", ctypes.c_double * 27)]


_P, _i64, _int = _lib._pointer, ctypes.c_int64, _lib._int
_defaults = _lib.function("snls_denoise_defaults", None, _P)
_open = _lib.function("snls_denoiser_open", _int, _P, _P, _P, _i64, _i64, _i64)
_push = _lib.function("snls_denoiser_push", _int, _P, _P, _int)
_pull = _lib.function("snls_denoiser_pull", _int, _P, _P)
_finish = _lib.function("snls_denoiser_finish", _int, _P)
_close = _lib.function("snls_denoiser_close", None, _P)
_memory = _lib.function("snls_denoiser_memory", _i64, _P, _i64, _i64, _i64, _int)
_sigma = _lib.function("snls_denoiser_sigma", _int, _P, _P)
_estimate = _lib.function("snls_noise_estimate", _int, _P, _P, _i64, _i64, _i64, _i64, _P)
_level = _lib.function("snls_noise_level", _int, _P, _P, _i64, _i64, _i64, _i64, _P)
_add = _lib.function("snls_noise_add", _int, _P, _P, _i64, _i64, ctypes.c_double, ctypes.c_uint64)
OPTIONS = {row.name: row for row in _lib._rows(_lib.function("snls_denoise_options", ctypes.POINTER(_lib.Option))())}


MOST_SIGMA = 1000  # that the denoiser takes


def sigma_values(what, sigma, most):
    """One number, or one for each of three channels, from 0 to most each, as a list."""
    try:
        values = [_lib.real(what, s) for s in ((sigma,) if np.ndim(sigma) == 0 else sigma)]
    except (TypeError, ValueError):
        raise ValueError("%s: sigma is %r, must be one number, or one for each of 1 or 3 channels" % (what, sigma)) from None
    if len(values) not in (1, 3):
        raise ValueError("%s: sigma has %d values, must be one number, or one for each of 1 or 3 channels" % (what, len(values)))
    if not all(0 <= s <= most for s in values):
        raise ValueError("%s: sigma is %s, must be 0 to %g, or None: estimated" % (what, sigma, most))
    return values


def check_sigma_count(what, values, channels):
    """Three numbers for a grey clip say nothing that is sure: its noise may be the first, or their mean."""
    if len(values) not in (1, channels):
        raise ValueError("%s: sigma has %d values, but frames have %d channel%s: must be one number, or one for each channel"
                         % (what, len(values), channels, "s" * (channels != 1)))


def _iterator(thing):
    try:
        return iter(thing)
    except TypeError:
        return None


def _refuse_mask(what):
    """A truth value for each frame: to `t in`, True is frame 1 and False frame 0."""
    raise TypeError("%s: cuts holds truth values, must hold numbers of frames, such as (1,)" % what)


def _cut_number(what, n):
    if isinstance(n, (bool, np.bool_)):
        _refuse_mask(what)
    return _lib.whole(what + ": a number of cuts", n, 0, 2**63 - 1)


def cut_numbers(what, cuts):
    """What `t in` asks for each frame: a container itself, which may be filled while frames come; of an iterator its numbers."""
    whole, text = lambda n: _cut_number(what, n), isinstance(cuts, (str, bytes))
    if str(getattr(cuts, "dtype", "")) in ("bool", "torch.bool"):
        _refuse_mask(what)
    if hasattr(cuts, "__contains__") and not text:
        if type(cuts) in (tuple, list, set, frozenset):
            list(map(whole, tuple(cuts)))  # of a copy: another thread may fill it
        return cuts
    numbers = None if text else _iterator(cuts)
    if numbers is None:
        raise TypeError("%s: cuts is %r, must be numbers of frames, such as (1,)" % (what, cuts))
    return set(map(whole, numbers))


def as_float32(video):
    """A clip without frames as what a denoised one would be."""
    return video.detach().float() if _is_torch(video) else video.astype(np.float32)


def _params(sigma, channels, options):
    params = _Params()
    _defaults(ref(params))
    values = [-1.0] if sigma is None else sigma_values("denoise", sigma, MOST_SIGMA)
    check_sigma_count("denoise", values, channels)
    params.sigma = (ctypes.c_double * 3)(*(values * 3)[:3])
    _lib.store_options("denoise", OPTIONS.values(), params, 0, options, "there is")
    return params


def _sizes(*given):
    return tuple(_lib.whole("denoise: " + name, n, 1, 2**63 - 1) for name, n in zip(("height", "width", "channels"), given))


def _threads(threads):
    return _lib.whole("denoise: threads", threads, 0, _context.MOST_THREADS)


def _require_real(what, array):
    if array.is_complex() if _is_torch(array) else array.dtype.kind not in "fiub" and array.dtype.name != "bfloat16":
        raise TypeError("%s is %s, must be real numbers" % (what, array.dtype))


def _plain(what, frame, first, axes):
    """The frame as a C-ordered float32 NumPy array, channels last: a copy unless it is one already (frames are small beside
    what the denoiser holds)."""
    frame = as_array(what, frame)
    _require_real(what, frame)
    if _is_torch(frame):
        if frame.device.type != "cpu":
            raise RuntimeError("%s is on %s, but this works in CPU memory" % (what, frame.device))
        frame = frame.detach().float().numpy()
    if frame.ndim != axes:
        raise ValueError("%s has %d axes, must have %d" % (what, frame.ndim, axes))
    return np.ascontiguousarray(np.moveaxis(frame, -3, -1) if first else frame, dtype=np.float32)


class Denoiser:
    """A denoiser that streams: frames go in by push, and come out of it a few later; memory does not grow with the clip.

        with snls.Denoiser(480, 854, sigma=20) as denoiser:
            for frame in frames:                       # (H,W,3), 0..255
                for done in denoiser.push(frame):
                    show(done)
            for done in denoiser.finish():
                show(done)

    sigma: the noise's standard deviation on the 0..255 scale, one number or one for each channel; None: estimated.
    options: method ("vnlb", "nlm"), preset ("fast", "medium", "slow"), flow and the rest of snls help denoise.
    May be used by several threads, one after the other; a forked child makes its own.
    layout "CHW": frames are (C,H,W). Frames are NumPy arrays or PyTorch tensors; what comes out is of the kind of the last
    frame pushed, float32."""

    def __init__(self, height: int, width: int, channels: int = 3, sigma: Sigma | None = None, *, layout: FrameLayout = "HWC",
                 threads: int = 0, **options: Option) -> None:
        self._handle, self._first = ctypes.c_void_p(), channels_first(layout)
        self._shape, self._torch, self._lock = _sizes(height, width, channels), None, threading.RLock()
        self._context = _context.Context("cpu", threads=_context.threads_for(_threads(threads)))
        params = _params(sigma, self._shape[2], options)
        self._context.call(_open, ref(self._handle), self._context.handle, ref(params), *self._shape)

    def _ready(self):
        out = []
        while self._handle:
            frame = np.empty(self._shape, np.float32)
            if self._context.call(_pull, self._handle, frame.ctypes.data) == _lib.END:
                break
            out.append(self._given(frame))
        return out

    def _given(self, frame):
        frame = np.moveaxis(frame, -1, -3) if self._first else frame
        return self._torch.from_numpy(frame) if self._torch else frame

    def push(self, frame: AnyArray, cut: bool = False) -> list[Any]:
        """Takes one frame, returns a list of the frames that are done, in order. cut: this frame begins a new scene."""
        self._torch = __import__("torch") if _is_torch(frame) else None
        data = _plain("push: frame", frame, self._first, 3)
        if data.shape != self._shape:
            raise ValueError("push: frame has the shape %s with channels last, must have %s" % (data.shape, self._shape))
        with self._locked():
            self._open_or_raise()
            self._context.call(_push, self._handle, data.ctypes.data, bool(cut))
            return self._ready()

    def finish(self) -> list[Any]:
        """No more frames: returns the rest."""
        with self._locked():
            self._open_or_raise()
            self._context.call(_finish, self._handle)
            return self._ready()

    def __reduce__(self):
        raise TypeError("Denoiser: cannot be copied or pickled, it holds frames that are under way: make one where it is used")

    def _locked(self):
        """The lock, for those who may wait for it: in a forked child it may be held by a thread that is not there, and a call would wait for
        OpenMP's threads, which are not there either."""
        if self._context.pid != os.getpid():
            raise RuntimeError("Denoiser: was made before a fork, a child makes its own")
        return self._lock

    def _open_or_raise(self):
        if not self._handle:
            raise ValueError("Denoiser: is closed")

    @property
    def sigma(self) -> tuple[float, ...] | None:
        """The noise in use, for each channel: of the last frame that came out where it is estimated; None before one did."""
        values = (ctypes.c_double * 3)()
        with self._locked():
            self._open_or_raise()
            return None if self._context.call(_sigma, self._handle, values) == _lib.END else tuple(values)[:self._shape[2]]

    def close(self) -> None:
        if not (os and ref and _close):  # gone where Python is about to end, which gives the memory back
            return
        if getattr(self, "_handle", None) and self._context.pid == os.getpid():
            with self._lock:
                if self._handle:  # nobody has come first
                    _close(ref(self._handle))
                    self._context.close()
        self._handle = None

    __del__ = close

    def __enter__(self) -> Denoiser:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def _is_network(method):
    from . import model  # which needs this file
    return method in model.NETWORKS or str(method).endswith(".safetensors")


def _network_denoise(video, sigma, cuts, layout, method, device, options):
    from . import model
    if options:
        raise TypeError("denoise: method %r is a network and takes no option %s" % (method, ", ".join(map(repr, options))))
    if device is None:
        device = str(video.device) if _is_torch(video) and video.device.type == "cuda" else "cpu"
    with model.Model(method, device=device) as network:
        return network(video, sigma, cuts=cuts, layout=layout)


def denoise(video: AnyArray, sigma: Sigma | None = None, *, cuts: Cuts = (), layout: FrameLayout = "HWC",
            method: Path | None = None, device: Device | None = None, **options: Option) -> Any:
    """Denoises a clip: (T,H,W,C), or (T,C,H,W) with layout "CHW"; C 1 or 3; 0..255. The same shape back, float32.

    sigma   standard deviation of the noise on the 0..255 scale, one number or one for each channel; None: estimated
    cuts    numbers of frames that begin a new scene: a list, a set or anything else that answers `t in cuts`, or an iterator
    method  "vnlb" or "nlm", with options preset="fast", "medium" or "slow", flow="dis" and others of docs/denoising.md; or a
            network: "stan", or the path of a file of weights (.safetensors)
    device  of a network: "cpu", "cuda", "cuda:1" or a torch.device; None: where a PyTorch tensor lies, otherwise the CPU
    For clips that do not fit in memory: Denoiser, or snls.Model and its stream."""
    first = channels_first(layout)
    video = as_array("denoise: video", video)
    if method is not None and not isinstance(method, (str, os.PathLike)):
        raise TypeError("denoise: method is %r, must be a name, or the path of a file of weights" % (method,))
    if method is not None and _is_network(method):
        return _network_denoise(video, sigma, cuts, layout, method, device, options)
    if device is not None and str(device) not in ("cpu", "cpu:0"):
        raise ValueError("denoise: device is %r, but only networks run anywhere else than on the CPU" % (device,))
    if method is not None:
        if method not in OPTIONS["method"].names:
            raise ValueError("denoise: method is %r, must be %s, stan or a file of weights (.safetensors)"
                             % (method, ", ".join(OPTIONS["method"].names)))
        options["method"] = method
    if video.ndim != 4:
        raise ValueError("denoise: video has %d axes, must have 4" % video.ndim)
    channels, height, width = video.shape[1:] if first else (video.shape[3], *video.shape[1:3])
    cuts = cut_numbers("denoise", cuts)
    if not len(video):
        _params(sigma, channels, options)  # refuses what a clip with frames would hear of
        return as_float32(video)
    with Denoiser(height, width, channels, sigma, layout=layout, **options) as denoiser:
        frames = [done for t, frame in enumerate(video) for done in denoiser.push(frame, t in cuts)] + denoiser.finish()
    return denoiser._torch.stack(frames) if _is_torch(video) else np.stack(frames)


def denoise_memory(height: int, width: int, channels: int = 3, sigma: Sigma | None = None, threads: int = 0,
                   **options: Option) -> int:
    """Most bytes that a denoiser of such frames will hold, known before anything is allocated."""
    shape = _sizes(height, width, channels)
    found = _memory(ref(_params(sigma, shape[2], options)), *shape, _threads(threads))
    if found < 0:
        raise ValueError("denoise_memory: a denoiser would refuse these sizes or options")
    return found


def noise_estimate(video: AnyArray, layout: FrameLayout = "HWC") -> tuple[float, ...]:
    """Standard deviation of white noise in each channel of (T,H,W,C), or (T,C,H,W) with layout "CHW", on the 0..255 scale."""
    data, values = _plain("noise_estimate: video", video, channels_first(layout), 4), (ctypes.c_double * 3)()
    ctx = _context.get("cpu")
    ctx.call(_estimate, ctx.handle, data.ctypes.data, *data.shape, values)
    return tuple(values)[:data.shape[3]]


def noise_level(video: AnyArray, layout: FrameLayout = "HWC") -> float:
    """The noise of (T,H,W,C), or (T,C,H,W) with layout "CHW", on the 0..255 scale, as the one number that networks are told: of colour that
    of brightness or of a channel of colour, whichever is strongest; white noise of sigma in red, green and blue gives sigma."""
    data, value = _plain("noise_level: video", video, channels_first(layout), 4), ctypes.c_double()
    ctx = _context.get("cpu")
    ctx.call(_level, ctx.handle, data.ctypes.data, *data.shape, ref(value))
    return value.value


def noise_add(array: AnyArray, sigma: float, seed: int = 0) -> Any:
    """A float32 copy of array with noise: sigma * N(0,1), not clipped; the same on every machine. Any shape."""
    array, seed = as_array("noise_add: array", array), _lib.whole("noise_add: seed", seed, 0, 2**64 - 1)
    _require_real("noise_add: array", array)
    torch_array = _is_torch(array)
    out = np.array(array.detach().cpu().float().numpy() if torch_array else array, dtype=np.float32, order="C")
    ctx = _context.get("cpu")
    ctx.call(_add, ctx.handle, out.ctypes.data, out.size, 0, _lib.real("noise_add: sigma", sigma), seed)
    return __import__("torch").from_numpy(out) if torch_array else out
