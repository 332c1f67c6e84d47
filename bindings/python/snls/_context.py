"""_context.py: contexts of the library. One for each thread and backend, device, stream and mode; made when first used.

A context may not be used by two threads at once, so the caches are thread-local, and a stream of its own for each context
means that scratch memory is never shared by two streams. A forked child (a DataLoader worker) must not touch what its
parent opened: it starts anew, with one thread, since OpenMP's threads do not survive a fork.
"""
from __future__ import annotations

import ctypes
import os
import threading

from . import _lib

MOST_THREADS = 1024  # as the library: OpenMP ends a program whose system cannot start more
MOST_CONTEXTS = 16  # of a thread; the one not used for longest is closed
_threads = 0        # 0: as many as the process may use
_forked = False


class Context:
    """An open SnlsContext; handle is its address, busy says that a call is under way."""
    handle, busy = None, False

    def __init__(self, backend, device=0, stream=0, deterministic=False, threads=0):
        params, text = _lib.ContextParams(), ctypes.create_string_buffer(512)
        _lib.context_defaults(ctypes.byref(params))
        params.backend, params.device_id, params.threads = backend.encode(), device, threads
        params.deterministic, params.stream = int(deterministic), stream or None
        params.error_text, params.error_size = ctypes.cast(text, ctypes.c_char_p), len(text)
        out = ctypes.c_void_p()
        status = _lib.open_context(ctypes.byref(out), ctypes.byref(params))
        if status < 0:
            _lib.raise_status(status, sentence=text.value.decode(errors="replace"))
        self.handle, self.pid = out.value, os.getpid()

    def close(self):
        if not (os and ctypes and _lib and _lib.close_context):  # gone where Python is about to end, which gives the memory back
            return
        ours = self.handle and self.pid == os.getpid()
        if ours and not (_lib.scratch_captured and _lib.scratch_captured(self.handle)):  # which a CUDA graph may still use
            _lib.close_context(ctypes.byref(ctypes.c_void_p(self.handle)))
        self.handle = None

    __del__ = close

    def call(self, function, *arguments):
        """Calls the library; returns a status that is no error, raises one that is, with the sentence of this call.

        Python may run something else before the sentence is fetched, a signal handler or what the garbage collector finishes,
        and that may call with this context and fail as well: it leaves the sentence as it found it."""
        if self.busy:
            return self._call_inside(function, arguments)
        self.busy = True
        try:
            return self._checked(function, arguments)
        finally:
            self.busy = False

    def _checked(self, function, arguments):
        status = function(*arguments)
        if status < 0:
            _lib.raise_status(status, self.handle)
        return status

    def _call_inside(self, function, arguments):
        sentence = _lib.error_text(self.handle)
        try:
            return self._checked(function, arguments)
        finally:
            if _lib.set_error:
                _lib.set_error(self.handle, sentence)

    def wait(self):
        self.call(_lib.device_wait, self.handle)


class _Local(threading.local):
    def __init__(self):
        self.contexts = {}
        self.plans = {}


local = _Local()


def set_num_threads(n: int) -> None:
    """Threads of the cpu backend, for every thread of this program; 0: with PyTorch its own number
    (torch.get_num_threads()), otherwise as many as the process may use. After a fork the child starts at 1."""
    global _threads
    _threads = _lib.whole("set_num_threads: n", n, 0, MOST_THREADS)


def get_num_threads() -> int:
    """The number that set_num_threads set (0: automatic)."""
    return _threads


def threads_for(framework_threads):
    return _threads or (1 if _forked else min(framework_threads, MOST_THREADS))


def _open(key):
    contexts = local.contexts
    if len(contexts) >= MOST_CONTEXTS:
        contexts.pop(next(iter(contexts)))  # closed when nobody uses it: a call that this one interrupted may
    contexts[key] = context = Context(*key)
    return context


def get(backend, device=0, stream=0, deterministic=False, threads=0):
    """This thread's context for these settings; threads is what the array library would use (0: no opinion)."""
    key = (backend, device, stream, deterministic, threads_for(threads) if backend == "cpu" else 0)
    return local.contexts.get(key) or _open(key)


_SMALL = ("cpu", 0, 0, False, 1)


def get_for(plan, threads=0):
    """The context for a plan in CPU memory: of one thread where the work is small."""
    if plan.small and plan.backend == "cpu":
        return local.contexts.get(_SMALL) or _open(_SMALL)
    return get(plan.backend, threads=threads)


def release() -> None:
    """Closes this thread's contexts and so gives their scratch memory back; the next call opens what it needs."""
    local.contexts.clear()  # each closes when nobody uses it
    local.plans.clear()


def _after_fork():
    global _forked, _threads
    _forked, _threads = True, 0  # what the parent had set would wait for threads that are not here
    local.contexts = {}  # what the parent opened is left alone: not closed, not used
    local.plans = {}


os.register_at_fork(after_in_child=_after_fork)
