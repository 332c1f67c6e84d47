"""agg.py: the aggregating modules, where stnls has them. Needs PyTorch."""
from .nn import NonLocalGather, NonLocalGatherAdd, NonLocalScatterAdd, NonLocalStack, WeightedPatchSum

__all__ = ["NonLocalGather", "NonLocalGatherAdd", "NonLocalScatterAdd", "NonLocalStack", "WeightedPatchSum"]
_INSTEAD = {"NonLocalScatter": "NonLocalScatterAdd, which sums what arrives at a pixel",
            "PooledPatchSum": "WeightedPatchSum, which puts patches where the queries are"}


def __getattr__(name):
    if name in _INSTEAD:
        raise AttributeError("snls.agg has no %s; there is %s (see the table in docs/python.md)" % (name, _INSTEAD[name]))
    raise AttributeError("module 'snls.agg' has no attribute %r" % name)
