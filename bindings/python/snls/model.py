"""model.py: networks that denoise video, for NumPy arrays and PyTorch tensors: opened from files of weights, run on clips.

    net = snls.Model("stan")                    # the network that comes with snls, or a file of weights
    clean = net(noisy, sigma=20)                # (T,H,W,3), 0..255
    for frame in net.stream(frames, sigma=20):  # a clip of any length, a few frames in memory
        show(frame)

Frames are (H,W,3), red, green, blue, or (3,H,W) with layout "CHW"; 0..255, neither clipped nor rounded.
"""
import ctypes
import os
import sys
import threading

import numpy as np

from . import _context, _lib
from ._denoise import _plain, noise_estimate
from ._frames import _is_torch, as_array, channels_first, lend, ref

NETWORKS = {"stan": "stan-s", "stan-s": "stan-s", "dvdnet": None, "fastdvdnet": None}  # method: the file that comes with snls
CHUNK, SAMPLE = 4, 5  # frames of one run; frames that an estimate of the noise looks at, at most (as snls denoise)
_DTYPES = {"auto": -1, "float32": _lib.F32, "bfloat16": _lib.BF16}
_FLOWS = ("farneback", "tvl1", "dis")


class _Params(ctypes.Structure):
    """SnlsModelParams of model.h."""
    _fields_ = [("dtype", ctypes.c_int32), ("flow", ctypes.c_int32), ("reserved", ctypes.c_int32 * 14)]


class _Info(ctypes.Structure):
    """SnlsModelInfo of model.h."""
    _fields_ = [("architecture", ctypes.c_char * 32), ("parameters", ctypes.c_int64), ("radius", ctypes.c_int32),
                ("dtype", ctypes.c_int32)]


class _Run(ctypes.Structure):
    """SnlsModelRun of model.h."""
    _fields_ = [("frames", _lib.Tensor), ("out", _lib.Tensor), ("first", ctypes.c_int64), ("count", ctypes.c_int64),
                ("sigma", ctypes.c_double)]


_P = _lib._pointer
_open = _lib.function("snls_model_open", _lib._int, _P, _P, _lib._text, _P)
_close = _lib.function("snls_model_close", None, _P)
_info = _lib.function("snls_model_info", _lib._int, _P, _P)
_run = _lib.function("snls_model_run", _lib._int, _P, _P)


# ---- weights ----

def _folders():
    """Where weights that come with snls may be: inside the package (a wheel has them), beside the library, in its tree."""
    here = os.path.dirname(os.path.abspath(__file__))
    yield os.path.join(here, "weights")
    yield os.path.join(here, "..", "..", "..", "weights")
    library = os.path.dirname(os.path.abspath(_lib.path)) if os.path.dirname(_lib.path) else None
    for base in (library, os.path.join(sys.prefix, "lib"), "/usr/local/lib", "/usr/lib"):
        if base:
            yield os.path.join(base, "..", "share", "snls", "weights")
            yield os.path.join(base, "..", "weights")


def find(method):
    """The file of the weights of "stan", in the folder that the environment variable SNLS_WEIGHTS names, or else where snls is
    installed."""
    if method not in NETWORKS:
        raise ValueError("model: there is no network %r; there are %s" % (method, ", ".join(NETWORKS)))
    if NETWORKS[method] is None:
        raise ValueError("model: no weights of %s come with snls: give their file or folder" % method)
    name, told = NETWORKS[method] + ".safetensors", os.environ.get("SNLS_WEIGHTS")
    for folder in (told,) if told else _folders():
        path = os.path.normpath(os.path.join(folder, name))
        if os.access(path, os.R_OK):
            return path
    raise FileNotFoundError("model: %s is not %s" % (name, "in %s, which SNLS_WEIGHTS names" % told if told else
                                                     "where snls is installed; give the file, or its folder in SNLS_WEIGHTS"))


# ---- the network ----

def _open_context(device, threads):
    name, _, number = device.partition(":")
    if name not in ("cpu", "cuda") or (number and not number.isdigit()) or (name == "cpu" and number not in ("", "0")):
        raise ValueError("model: device is %r, must be cpu, cuda or cuda:N" % device)
    return _context.Context(name, int(number or 0), threads=_context.threads_for(threads))


def _choice(name, value, names):
    if value not in names:
        raise ValueError("model: %s is %r, must be one of %s" % (name, value, ", ".join(names)))
    return value


class Model:
    """A network, from a file of weights: "stan", the one that comes with snls; or the path of a .safetensors file, or of the
    folder of an architecture that has several (dvdnet).

    device   where it computes, "cpu", "cuda" or "cuda:1"; frames may lie anywhere
    dtype    of values between layers: "float32", "bfloat16", or "auto", bfloat16 where that is faster
    flow     method of optical flow where an architecture asks for it (dvdnet, stan): "dis", "farneback" or "tvl1"
    threads  of the CPU, 0: as snls.set_num_threads says
    Has architecture, parameters (how many numbers), radius (frames on either side that a frame's result depends on), dtype.
    May be used by several threads, one after the other."""

    def __init__(self, weights="stan", *, device="cpu", dtype="auto", flow="dis", threads=0):
        self._handle, self._lock = ctypes.c_void_p(), threading.Lock()
        params = _Params(_DTYPES[_choice("dtype", dtype, _DTYPES)], _FLOWS.index(_choice("flow", flow, _FLOWS)))
        self.path = find(weights) if weights in NETWORKS else os.fspath(weights)
        self._context = _open_context(str(device), threads)
        self._context.check(_open(ref(self._handle), self._context.handle, os.fsencode(self.path), ref(params)))
        info = _Info()
        self._context.check(_info(self._handle, ref(info)))
        self.architecture, self.parameters, self.radius = info.architecture.decode(), info.parameters, info.radius
        self.dtype = {_lib.F32: "float32", _lib.BF16: "bfloat16"}.get(info.dtype)

    def __repr__(self):
        return "snls.Model(%r): %s, %d parameters, %s" % (self.path, self.architecture, self.parameters, self.dtype)

    def close(self):
        """Gives its memory back; also at the end of a with block."""
        if getattr(self, "_handle", None) and self._context.pid == os.getpid():
            _close(ref(self._handle))
            self._context.close()
        self._handle = None

    __del__ = close

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.close()

    def _denoise(self, window, first, count, sigma):
        """Frames first to first+count-1 of a list of arrays (H,W,3)."""
        frames = np.stack(window)
        out = np.empty((count, *frames.shape[1:]), np.float32)
        run = _Run(lend("frames", frames), lend("out", out), first, count, sigma)
        with self._lock:
            if not self._handle:
                raise ValueError("Model: is closed")
            self._context.check(_run(self._handle, ref(run)))
        return out

    def stream(self, frames, sigma=None, *, cuts=(), layout="HWC"):
        """A generator: takes any iterable of frames, gives the denoised ones in order, CHUNK + radius frames later.

        frames  (H,W,3), or (3,H,W) with layout "CHW"; NumPy arrays or PyTorch tensors, on any device; what comes out is
                of the same kind and on the same device, float32
        sigma   standard deviation of the noise, 0..255, one number, or one for each channel, of which the mean counts;
                None: estimated from the first frames
        cuts    numbers of frames that begin a new scene: nothing is looked for across one"""
        first, window, done, noise = channels_first(layout), [], 0, [None if sigma is None else float(np.mean(sigma))]
        like = None
        for t, frame in enumerate(frames):
            if t in cuts:
                yield from self._rest(window, done, noise, like, first)
                window, done = [], 0
            like = frame
            window.append(_frame("stream: frame", frame, first))
            if len(window) - done >= CHUNK + self.radius:
                yield from self._chunk(window, done, CHUNK, noise, like, first)
                done += CHUNK
                drop = max(0, done - self.radius)
                window, done = window[drop:], done - drop
        yield from self._rest(window, done, noise, like, first)

    def _rest(self, window, done, noise, like, first):
        while done < len(window):
            count = min(CHUNK, len(window) - done)
            yield from self._chunk(window, done, count, noise, like, first)
            done += count
            drop = max(0, done - self.radius)
            window, done = window[drop:], done - drop

    def _chunk(self, window, done, count, noise, like, first):
        if noise[0] is None:
            noise[0] = float(np.mean(noise_estimate(np.stack(window[:SAMPLE]))))
        for frame in self._denoise(window, done, count, noise[0]):
            frame = np.moveaxis(frame, -1, -3) if first else frame
            yield sys.modules["torch"].from_numpy(frame).to(like.device) if _is_torch(like) else frame

    def __call__(self, video, sigma=None, *, cuts=(), layout="HWC"):
        """Denoises a clip (T,H,W,3), or (T,3,H,W) with layout "CHW": NumPy array or PyTorch tensor, on any device; the same
        shape back, float32. sigma and cuts as stream."""
        video = as_array("model: video", video)
        if video.ndim != 4:
            raise ValueError("model: video has %d axes, must have 4" % video.ndim)
        done = list(self.stream(video, sigma, cuts=cuts, layout=layout))
        if not done:
            return video
        return sys.modules["torch"].stack(done) if _is_torch(video) else np.stack(done)


def _frame(what, frame, first):
    """(H,W,3), C-ordered float32, in CPU memory."""
    frame = as_array(what, frame)
    frame = _plain(what, frame.cpu() if _is_torch(frame) else frame, first, 3)
    if frame.shape[2] != 3:
        raise ValueError("%s has %d channels, must have 3: networks take colour" % (what, frame.shape[2]))
    return frame
