"""Votes on a cluster: Dask (extra ``[dask]``) and Spark (extra ``[spark]``).

``fs.Moments.of``, ``fit``, ``predict`` and ``predict_proba`` accept Dask arrays, Dask dataframes, lists of
delayed chunks and Spark dataframes. :func:`votes` selects the columns of votes, the classes, and columns to
keep next to the labels. :func:`apply` applies labeling functions to dataframes.
"""

from flyingsquid.distributed.distributed_votes import DistributedVotes, apply, votes

__all__ = ["DistributedVotes", "apply", "votes"]
