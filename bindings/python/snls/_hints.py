"""_hints.py: names for the annotations. An array comes back as the caller's library has it, which a type checker is told by Any."""
import os
from typing import Any, Container, Iterable, Literal, Optional, Protocol, Sequence, Union


class AnyArray(Protocol):
    """A NumPy array, a PyTorch tensor, or anything else that speaks DLPack."""

    def __dlpack__(self, *args: Any, **kwargs: Any) -> Any: ...


class TorchDevice(Protocol):
    """torch.device, by what it has: a checker needs no PyTorch."""

    @property
    def type(self) -> str: ...

    @property
    def index(self) -> Optional[int]: ...


Path = Union[str, os.PathLike]
Sigma = Union[float, Sequence[float], AnyArray]  # one number, or one for each channel
Cuts = Union[Container[int], Iterable[int]]      # numbers of frames
Device = Union[str, TorchDevice]
Option = Union[float, str]
VideoLayout = Literal["BTHWC", "BTCHW"]
FrameLayout = Literal["HWC", "CHW"]
FlowMethod = Literal["farneback", "tvl1", "dis"]
NetworkType = Literal["auto", "float32", "bfloat16"]

# Options of the operators that have names; a test compares them with the library's tables.
Dist = Literal["l2", "prod"]
Interp = Literal["bilinear", "nearest"]
Border = Literal["reflect", "drop"]
Window = Literal["slide", "cut"]
Anchor = Literal["none", "self", "each"]
Exclude = Literal["none", "self", "frame"]
Topk = Literal["all", "each"]

# The same as stnls calls them.
SelfAction = Literal["none", "anchor", "anchor_self", "anchor_each", "remove", "remove_ref_frame"]
Itype = Literal["float", "int", "bilinear", "nearest", "2d"]
