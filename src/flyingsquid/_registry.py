"""Recognize data on a cluster, and find the module that reads it.

Data is recognized by the module of its type, so nothing is imported to recognize it. The reader is imported
when it is first needed. No other module of a low layer refers to a higher layer.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

# The package of a type, and the module that reads it. dask_expr was a separate package until 2025.
_READERS = {
    "dask": "flyingsquid.distributed.dask",
    "dask_expr": "flyingsquid.distributed.dask",
    "pyspark": "flyingsquid.distributed.spark",
}
_DISTRIBUTED = "flyingsquid.distributed"


def reader_of(data: Any) -> str | None:
    """Return the name of the module that reads data on a cluster; None for data in memory.

    >>> reader_of([[0, 1]]) is None
    True
    """
    if isinstance(data, (list, tuple)):  # chunks that are still to be computed
        data = data[0] if data else None
        if data is None or isinstance(data, (list, tuple)):
            return None
    for base in type(data).__mro__:
        package = base.__module__.partition(".")[0]
        if package in _READERS:
            return _READERS[package]
    return None


def on_cluster(data: Any) -> bool:
    """Return whether votes are on a cluster, as a table or as ``DistributedVotes``."""
    return type(data).__module__.startswith(_DISTRIBUTED) or reader_of(data) is not None


def cluster_of(data: Any) -> Any | None:
    """Return the module ``flyingsquid.distributed`` if data is on a cluster; None for data in memory."""
    return import_module(_DISTRIBUTED) if reader_of(data) is not None else None


def distributed_votes(data: Any) -> Any | None:
    """Return votes on a cluster as ``DistributedVotes``; None for votes in memory."""
    module = type(data).__module__
    if module == "numpy":
        return None
    if module.startswith(_DISTRIBUTED):
        return data
    cluster = cluster_of(data)
    return None if cluster is None else cluster.votes(data)
