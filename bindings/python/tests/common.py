"""common.py: what the tests share. Tests run with unittest alone: python3 -m unittest discover -s bindings/python/tests"""
import contextlib
import os
import subprocess
import sys
import unittest

ROOT = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", ".."))
PACKAGE = os.path.join(ROOT, "bindings", "python")
try:
    import snls  # installed, or found by PYTHONPATH
except ImportError:
    sys.path.insert(0, PACKAGE)
    import snls
try:
    import torch
except ImportError:
    torch = None
if os.environ.get("SNLS_TORCH") == "0":  # the package leaves it alone
    torch = None

needs_torch = unittest.skipIf(torch is None, "PyTorch is not installed, or SNLS_TORCH is 0")
on_cuda = torch is not None and torch.cuda.is_available() and snls.has_cuda()
needs_cuda = unittest.skipUnless(on_cuda, "no GPU, or no libsnls_cuda.so")
DEVICES = ("cpu", "cuda") if on_cuda else ("cpu",)


def has(major, minor):
    """Is PyTorch at least of this version?"""
    return torch is not None and tuple(int(n) for n in torch.__version__.split(".")[:2]) >= (major, minor)


@contextlib.contextmanager
def inside(place, name, function):
    """While in force, the function or method place.name first runs another, as a signal handler or a finaliser may come between."""
    real, running = getattr(place, name), []

    def watch(*arguments):
        if not running:
            running.append(True)
            try:
                function()
            finally:
                running.clear()
        return real(*arguments)
    setattr(place, name, watch)
    try:
        yield
    finally:
        setattr(place, name, real)


# For programs that fork while another thread is inside a call: held(lock) is what lets that thread go.
HELD = """
import threading
def held(lock):
    taken, over = threading.Event(), threading.Event()
    def hold():
        with lock:
            taken.set()
            over.wait()
    threading.Thread(target=hold, daemon=True).start()
    taken.wait()
    return over.set
"""


def run_python(code, *arguments, **environment):
    """Another Python with this package; its output, and an assertion that it ended well."""
    path = os.path.dirname(os.path.dirname(os.path.abspath(snls.__file__)))
    env = {**os.environ, "PYTHONPATH": path, "SNLS_LIBRARY": snls._lib.path, **environment}
    done = subprocess.run([sys.executable, *(("-c", code) if code else ()), *arguments], env=env, text=True, timeout=300,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert done.returncode == 0, done.stdout
    return done.stdout
