"""model.py: networks that denoise video, for NumPy arrays and PyTorch tensors: opened from files of weights, run on clips.

    net = snls.Model("stan")                    # the network that comes with snls, or a file of weights
    clean = net(noisy, sigma=20)                # (T,H,W,3), 0..255
    for frame in net.stream(frames, sigma=20):  # a clip of any length, a few frames in memory
        show(frame)

Frames are (H,W,3), red, green, blue, or (3,H,W) with layout "CHW"; grey ones have one channel; 0..255, not rounded. dvdnet and
fastdvdnet clamp what they give to 0..255, as their authors' programs do; stan does not.
"""
from __future__ import annotations

import collections
import ctypes
import math
import os
import sys
import threading
from typing import Any, Iterable, Iterator

import numpy as np

from . import _context, _lib
from ._denoise import _plain, as_float32, check_sigma_count, cut_numbers, noise_level, sigma_values
from ._frames import _is_torch, as_array, channels_first, ref
from ._hints import AnyArray, Cuts, Device, FlowMethod, FrameLayout, NetworkType, Path, Sigma

NETWORKS = {"stan": "stan-s", "stan-s": "stan-s", "dvdnet": None, "fastdvdnet": None}  # method: the file that comes with snls
SAMPLE, PERIOD = 5, 8  # frames that an estimate of the noise looks at, at most; frames of a scene it is for: as snls denoise does
NO_NOISE = 0.1  # SNLS_NO_NOISE of denoise.h
MOST_SIGMA = 255  # that networks are told
_DTYPES = {"auto": -1, "float32": _lib.F32, "bfloat16": _lib.BF16}
_FLOWS = ("farneback", "tvl1", "dis")


class _Params(ctypes.Structure):
    """SnlsModelParams of model.h."""
    _fields_ = [("dtype", ctypes.c_int32), ("flow", ctypes.c_int32), ("reserved", ctypes.c_int32 * 14)]


class _Info(ctypes.Structure):
    """SnlsModelInfo of model.h."""
    _fields_ = [("architecture", ctypes.c_char * 32), ("parameters", ctypes.c_int64), ("radius", ctypes.c_int32),
                ("dtype", ctypes.c_int32), ("reserved", ctypes.c_int32 * 8)]


class _StreamParams(ctypes.Structure):
    """SnlsModelStreamParams of model.h."""
    _fields_ = [("height", ctypes.c_int64), ("width", ctypes.c_int64), ("lean", ctypes.c_int32), ("reserved", ctypes.c_int32 * 11)]


_P = _lib._pointer
_open = _lib.function("snls_model_open", _lib._int, _P, _P, _lib._text, _P)
_close = _lib.function("snls_model_close", None, _P)
_info = _lib.function("snls_model_info", _lib._int, _P, _P)
_stream_open = _lib.function("snls_model_stream_open", _lib._int, _P, _P, _P)
_stream_close = _lib.function("snls_model_stream_close", None, _P)
_stream_push = _lib.function("snls_model_stream_push", _lib._int, _P, _P, ctypes.c_double)
_stream_pull = _lib.function("snls_model_stream_pull", _lib._int, _P, _P)
_stream_delay = _lib.function("snls_model_stream_delay", ctypes.c_int64, _P)
_stream_finish = _lib.function("snls_model_stream_finish", _lib._int, _P)


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


def find(method: str) -> str:
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
    number = _lib.whole("model: the number of the device", int(number or 0), 0, 2**31 - 1)
    return _context.Context(name, number, threads=_context.threads_for(_lib.whole("model: threads", threads, 0, _context.MOST_THREADS)))


def _choice(name, value, names):
    if value not in tuple(names):
        raise ValueError("model: %s is %r, must be one of %s" % (name, value, ", ".join(names)))
    return value


class Model:
    """A network, from a file of weights: "stan", the one that comes with snls; or the path of a .safetensors file, or of the
    folder of an architecture that has several (dvdnet).

    device   where it computes, "cpu", "cuda", "cuda:1" or a torch.device; frames may lie anywhere
    dtype    of values between layers: "float32", "bfloat16", or "auto", bfloat16 where that is faster
    flow     method of optical flow where an architecture asks for it (dvdnet, stan): "dis", "farneback" or "tvl1"
    threads  of the CPU, 0: as snls.set_num_threads says
    Has architecture, parameters (how many numbers training has found), radius (most frames on either side that a frame's result
    depends on: 10 of "stan-s", eight or at a scene's ends ten to one side; of "stan" those it searches), dtype, delay.
    May be used by several threads, one after the other. Copies, pickled ones and forked children open the file anew; a stream
    ends with the process that began it."""

    path: str
    architecture: str
    parameters: int
    radius: int
    dtype: str | None

    def __init__(self, weights: Path = "stan", *, device: Device = "cpu", dtype: NetworkType = "auto", flow: FlowMethod = "dis",
                 threads: int = 0) -> None:
        self._handle, self._lock, self._streams = ctypes.c_void_p(), threading.RLock(), set()
        self._how = dict(device=str(device), dtype=dtype, flow=flow, threads=threads)
        params = _Params(_DTYPES[_choice("dtype", dtype, _DTYPES)], _FLOWS.index(_choice("flow", flow, _FLOWS)))
        self.path = find(weights) if isinstance(weights, str) and weights in NETWORKS else os.fspath(weights)
        name = _lib.path_bytes(self.path)
        self._context = _open_context(str(device), threads)
        with _lib.reading(self.path):
            self._context.call(_open, ref(self._handle), self._context.handle, name, ref(params))
        info = _Info()
        self._context.call(_info, self._handle, ref(info))
        self.architecture, self.parameters, self.radius = info.architecture.decode(), info.parameters, info.radius
        if flow != "dis" and self.architecture not in ("stan", "dvdnet"):
            self.close()
            raise ValueError("model: flow is %r, but %s looks for no motion" % (flow, self.architecture))
        self.dtype = {_lib.F32: "float32", _lib.BF16: "bfloat16"}.get(info.dtype)

    def __repr__(self):
        return "snls.Model(%r): %s, %d parameters, %s" % (self.path, self.architecture, self.parameters, self.dtype)

    def __reduce__(self):
        return _opened, (self.path, self._how)

    def _own(self):
        """A forked child must not touch what its parent opened: OpenMP's threads do not survive a fork."""
        with _reopening:
            if self._handle and self._context.pid != os.getpid():
                own = Model(self.path, **self._how)
                if self._context.pid != os.getpid():  # a signal handler may have come first
                    self.__dict__.update(own.__dict__)
                    own._handle = None

    def close(self) -> None:
        """Gives its memory back; also at the end of a with block."""
        if not (os and ref and _close):  # gone where Python is about to end, which gives the memory back
            return
        if getattr(self, "_handle", None) and self._context.pid == os.getpid():
            with self._lock:
                for stream in list(self._streams):
                    stream.close()
                if self._handle:  # nobody has come first
                    _close(ref(self._handle))
                    self._context.close()
        self._handle = None

    __del__ = close

    def __enter__(self) -> Model:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    @property
    def delay(self) -> int:
        """Most frames that stream takes before it gives the first of them, and four more where it has to estimate the noise; the
        same for frames of any size."""
        with _Stream(self, 0) as stream:
            stream._open((16, 16, 3))
            return _stream_delay(stream.handle)

    def stream(self, frames: Iterable[AnyArray], sigma: Sigma | None = None, *, cuts: Cuts = (),
               layout: FrameLayout = "HWC") -> Iterator[Any]:
        """A generator: takes any iterable of frames, gives the denoised ones in order, up to `delay` frames later (11 of
        "stan"). A frame is computed once, and memory does not grow with the clip.

        frames  (H,W,3), or (3,H,W) with layout "CHW", or grey with one channel; NumPy arrays or PyTorch tensors, on any device; what comes out is
                of the same kind and on the same device, float32
        sigma   standard deviation of the noise, 0..255, one number, or of colour one for each channel, of which the mean counts;
                None: estimated anew for every eight frames of a scene, from their first (snls.noise_level). Frames come out as
                they came where sigma is 0 or an estimate says less than 0.1
        cuts    numbers of frames that begin a new scene: nothing is looked for across one. A list, a set or anything else that
                answers `t in cuts`, which is asked when frame t has come, so that it may be filled meanwhile; or an iterator"""
        first, kind, cuts = channels_first(layout), None, cut_numbers("stream", cuts)
        with _Stream(self, sigma) as stream:
            for t, frame in enumerate(frames):
                if t in cuts:
                    yield from (kind(done) for done in stream.finish())
                kind = _same_kind(frame, first)
                yield from (kind(done) for done in stream.push(_frame("stream: frame", frame, first)))
            yield from (kind(done) for done in stream.finish())

    def __call__(self, video: AnyArray, sigma: Sigma | None = None, *, cuts: Cuts = (),
                 layout: FrameLayout = "HWC") -> Any:
        """Denoises a clip (T,H,W,3), or (T,3,H,W) with layout "CHW", or grey with one channel: NumPy array or PyTorch tensor, on any device; the same
        shape back, float32. sigma and cuts as stream."""
        video = as_array("model: video", video)
        if video.ndim != 4:
            raise ValueError("model: video has %d axes, must have 4" % video.ndim)
        done = list(self.stream(video, sigma, cuts=cuts, layout=layout))
        if not done:
            return as_float32(video)
        return sys.modules["torch"].stack(done) if _is_torch(video) else np.stack(done)


def _opened(path, how):
    return Model(path, **how)


def _after_fork():
    global _reopening
    _reopening = threading.RLock()  # the old one may have been held; a signal handler may ask while this one is


_after_fork()
os.register_at_fork(after_in_child=_after_fork)


class _Stream:
    """Frames of one size through a network, one after the other; push and finish are generators of those that are ready."""

    def __init__(self, model, sigma):
        self.model, self.given = model, None if sigma is None else sigma_values("model", sigma, MOST_SIGMA)
        self.sigma = None if sigma is None else float(np.mean(self.given))
        self.estimates, self.copies = sigma is None, self.sigma == 0
        self.number = 0  # of frames of this scene
        self.pid = os.getpid()
        model._own()
        self.handle, self.shape, self.early = ctypes.c_void_p(), None, []  # early: before the noise is known
        self.kept = collections.deque()  # for each frame that the network holds: a copy where it has no noise, else None

    def __enter__(self):
        return self

    def __exit__(self, *error):
        if self.pid == os.getpid():  # in a forked child a thread that is not there may hold the lock, and there is nothing to close
            with self.model._lock:
                self.close()

    def close(self):
        """By a caller that has the lock."""
        self.model._streams.discard(self)
        if os and ref and _stream_close and self.handle and self.pid == os.getpid():  # gone as in Model.close
            _stream_close(ref(self.handle))
        self.handle = None

    def _check(self):
        if not self.model._handle:
            raise ValueError("Model: is closed")
        if self.pid != os.getpid():
            raise RuntimeError("stream: was begun before a fork, a child begins its own")

    def _call(self, function, *arguments):
        self._check()  # a forked child before it waits for the lock
        with self.model._lock:
            self._check()
            return self.model._context.call(function, *arguments)

    def _open(self, shape):
        params = _StreamParams(*shape[:2])
        self._call(_stream_open, ref(self.handle), self.model._handle, ref(params))
        self.shape = shape
        self.model._streams.add(self)

    def push(self, frame):
        self._check()
        if self.shape is None and self.given:
            check_sigma_count("model", self.given, frame.shape[2])
        if self.copies:
            self.shape = self.shape or frame.shape
        elif self.shape is None:
            self._open(frame.shape)
        if frame.shape != self.shape:
            raise ValueError("stream: a frame has %d rows and %d columns, the first had %d and %d" % (*frame.shape[:2], *self.shape[:2]) if frame.shape[:2] != self.shape[:2] else
                             "stream: a frame has %d channels, the first had %d" % (frame.shape[2], self.shape[2]))
        if self.copies:
            yield frame.copy()
            return
        self.early.append(frame if self.sigma is not None else frame.copy())  # whose memory may be the next one's too
        yield from self._take(False)

    def _take(self, ending):
        """Frames whose noise is known go to the network; ending: no more of this scene are to come."""
        while self.early and (self.sigma is not None or ending or len(self.early) == SAMPLE):
            if self.sigma is None:
                self.sigma = min(noise_level(np.stack(self.early[:SAMPLE])), MOST_SIGMA)
            self._push(self.early[0])
            self.kept.append(self.early[0].copy() if self._finds_none() else None)
            del self.early[0]
            self.number += 1
            self._forget()
            yield from self._ready()

    def _finds_none(self):
        return self.estimates and self.sigma is not None and self.sigma < NO_NOISE

    def _forget(self):
        """Frames without noise tell nothing of those behind them either."""
        if self.estimates and (self.number % PERIOD == 0 or self._finds_none()):
            self.sigma = None

    def _push(self, frame):
        sigma = 0 if self._finds_none() else self.sigma
        if self.shape[2] == 1:  # three equal channels: their mean has the noise of channels that have sqrt(3) times as much each
            frame, sigma = np.repeat(frame, 3, axis=2), min(math.sqrt(3) * sigma, MOST_SIGMA)
        self._call(_stream_push, self.handle, frame.ctypes.data, sigma)

    def finish(self):
        """The end of a scene; the next push begins another."""
        yield from self._take(True)
        self.number = 0
        self._forget()
        if self.shape is not None and not self.copies:
            self._call(_stream_finish, self.handle)
            yield from self._ready()

    def _ready(self):
        while True:
            out = np.empty((*self.shape[:2], 3), np.float32)
            if self._call(_stream_pull, self.handle, out.ctypes.data) == _lib.END:
                return
            kept = self.kept.popleft()
            yield kept if kept is not None else out if self.shape[2] == 3 else out.mean(axis=2, keepdims=True)


def _same_kind(like, first):
    """Makes of an array (H,W,3) one of the kind, on the device and of the layout of a frame."""
    order = (lambda frame: np.moveaxis(frame, -1, 0)) if first else (lambda frame: frame)
    if not _is_torch(like):
        return order
    torch, device = sys.modules["torch"], like.device
    return lambda frame: torch.from_numpy(order(frame)).to(device)


def _frame(what, frame, first):
    """(H,W,3) or (H,W,1), C-ordered float32, in CPU memory."""
    frame = as_array(what, frame)
    frame = _plain(what, frame.cpu() if _is_torch(frame) else frame, first, 3)
    if frame.shape[2] not in (1, 3):
        raise ValueError("%s has %d channels, must have 3, or 1 for grey" % (what, frame.shape[2]))
    return frame
