"""snls: Shifted Non-Local Search for NumPy arrays and PyTorch tensors.

    import numpy as np, snls
    video = np.random.rand(1, 5, 64, 64, 16).astype("float32")        # (B,T,H,W,C)
    dist, offset = snls.search(video, video, wt=1, ps=3, k=10)        # the 10 best of 3*9*9 places for every pixel
    out = snls.gather_add(video, snls.weights(dist), offset, ps=3)

Functions: search, search_all, refine, flow_compose, weights, gather, gather_add, scatter_add (see snls.functional for axes
and types); flow, flow_clip, warp, align, denoise, metrics; networks: snls.Model. With PyTorch: torch.ops.snls.*, the modules of snls.nn, and
their places in stnls, snls.search.NonLocalSearch, snls.agg.NonLocalGather, snls.nn.search_flow. PyTorch is used where it
can be imported; SNLS_TORCH=0 in the environment leaves it alone.
"""
import os as _os
import sys as _sys
import types as _types
import typing as _typing

from . import _lib
from ._context import get_num_threads, release, set_num_threads
from ._dlpack import Array
from . import functional
from . import metrics
from . import model
from ._denoise import Denoiser, denoise, denoise_memory, noise_add, noise_estimate, noise_level
from ._files import image_read, png_write
from ._flow import align, flow, flow_clip, flow_color, flow_consistency, flow_error, flow_resize, warp
from .model import Model
from .functional import flow_compose, gather, gather_add, refine, scatter_add, search, search_all, weights

if _typing.TYPE_CHECKING:  # at run time where there is PyTorch, by _use_torch
    from . import agg, nn
    from .nn import (NonLocalGather, NonLocalGatherAdd, NonLocalScatterAdd, NonLocalSearch, NonLocalStack, PairedSearch, RefineSearch,
                     SoftmaxWeights, WeightedPatchSum, search_flow)

__all__ = ["Array", "Denoiser", "Model", "NonLocalGather", "NonLocalGatherAdd", "NonLocalScatterAdd", "NonLocalSearch", "NonLocalStack",
           "PairedSearch", "RefineSearch", "SoftmaxWeights", "WeightedPatchSum", "agg", "align", "denoise", "denoise_memory", "flow",
           "flow_clip", "flow_color", "flow_compose", "flow_consistency", "flow_error", "flow_resize", "functional", "gather", "gather_add",
           "get_num_threads", "has_cuda", "image_read", "metrics", "model", "nn", "noise_add", "noise_estimate", "noise_level", "png_write",
           "refine", "release", "scatter_add", "search", "search_all", "search_flow", "set_num_threads", "warp", "weights"]
__version__: str = _lib.version
_MODULES = ("NonLocalSearch", "RefineSearch", "PairedSearch", "NonLocalGather", "NonLocalGatherAdd", "NonLocalScatterAdd",
            "NonLocalStack", "WeightedPatchSum", "SoftmaxWeights", "search_flow")
_SEARCHES, _NEED_TORCH = _MODULES[:3], (*_MODULES, "nn", "agg")
_no_torch = "SNLS_TORCH is 0"


def _refuse(name, kind):
    raise kind("snls.%s needs PyTorch; %s" % (name, _no_torch))


def _searches(nn):
    """snls.search is a function; it has the modules too, and `from snls.search import NonLocalSearch` finds them, or hears why not."""
    place = _sys.modules["snls.search"] = _types.ModuleType("snls.search", "The searching modules, where stnls has them.")
    if nn is None:
        place.__getattr__ = lambda name: _refuse(name, ImportError if name in _SEARCHES else AttributeError)
        return
    for name in _SEARCHES:
        setattr(search, name, getattr(nn, name))
        setattr(place, name, getattr(nn, name))


def _use_torch():
    """Registers torch.ops.snls and the modules; what keeps PyTorch from being imported is told when they are asked for."""
    global _no_torch
    try:
        import torch
    except Exception as error:  # a broken installation must not keep NumPy's users out
        _no_torch = "PyTorch cannot be imported: %s" % error
        return
    from . import _short, agg, nn
    functional.use_torch(torch.Tensor, _short.TRACED, _short.call)
    globals().update({name: getattr(nn, name) for name in _MODULES})
    _searches(nn)
    _no_torch = None


if _os.environ.get("SNLS_TORCH", "1") != "0":
    _use_torch()
if _no_torch:
    _searches(None)
    __all__[:] = [name for name in __all__ if name not in _NEED_TORCH]  # so that import * works


def _is_import(frame):
    """Is it `from snls import name` that asks? Of an AttributeError, which hasattr wants, it would keep nothing but the name."""
    return frame.f_globals.get("__name__") in ("importlib._bootstrap", "_frozen_importlib")  # the second until package importlib is imported


if not _typing.TYPE_CHECKING:  # a type checker would take it for every name there is
    def __getattr__(name):
        if _no_torch and name in _NEED_TORCH:
            _refuse(name, ImportError if _is_import(_sys._getframe(1)) else AttributeError)
        raise AttributeError("module 'snls' has no attribute %r" % name)


def has_cuda() -> bool:
    """Can the cuda backend be used: libsnls_cuda.so, a driver and a GPU?"""
    from . import _context
    try:
        _context.get("cuda")
    except RuntimeError:
        return False
    return True
