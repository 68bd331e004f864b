"""What lives on a cluster, and who reads it: the one place where low layers reach a higher one.

A frame is recognised by the module that its type comes from, so that nothing is imported to ask. Its reader
is imported by name when it is first needed, which keeps ``import flyingsquid`` light and the layers in order.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

# Where a type comes from, and who reads it. dask_expr was a package by itself until 2025.
_READERS = {
    "dask": "flyingsquid.distributed.dask",
    "dask_expr": "flyingsquid.distributed.dask",
    "pyspark": "flyingsquid.distributed.spark",
}
_READ = "flyingsquid.distributed"


def reader_of(data: Any) -> str | None:
    """The module that reads what is on a cluster; None for anything in memory.

    >>> reader_of([[0, 1]]) is None
    True
    """
    if isinstance(data, (list, tuple)):  # chunks that are still to be computed
        data = data[0] if data else None
        if data is None or isinstance(data, (list, tuple)):
            return None
    for kind in type(data).__mro__:
        package = kind.__module__.partition(".")[0]
        if package in _READERS:
            return _READERS[package]
    return None


def on_cluster(data: Any) -> bool:
    """Whether votes are on a cluster, as a frame or as what ``flyingsquid.distributed`` made of one."""
    return type(data).__module__.startswith(_READ) or reader_of(data) is not None


def cluster_of(data: Any) -> Any | None:
    """The module ``flyingsquid.distributed``, if data is on a cluster; None for anything in memory."""
    return import_module(_READ) if reader_of(data) is not None else None


def distributed_votes(data: Any) -> Any | None:
    """``flyingsquid.distributed.DistributedVotes`` of what is on a cluster; None for anything in memory."""
    if type(data).__module__.startswith(_READ):
        return data
    cluster = cluster_of(data)
    return None if cluster is None else cluster.votes(data)
