"""agg.py: the aggregating modules, where stnls has them. Needs PyTorch."""
from .nn import NonLocalGather, NonLocalGatherAdd, NonLocalScatterAdd, NonLocalStack, WeightedPatchSum

__all__ = ["NonLocalGather", "NonLocalGatherAdd", "NonLocalScatterAdd", "NonLocalStack", "WeightedPatchSum"]
