"""Votes on a cluster: Dask (extra ``[dask]``) and Spark (extra ``[spark]``).

``fs.Moments.of``, ``fit``, ``predict`` and ``predict_proba`` take Dask arrays, Dask dataframes, lists of
delayed chunks and Spark dataframes as they are. :func:`votes` is for saying more: which columns are votes,
which classes there are, which columns stay beside the labels. :func:`apply` is ``fs.apply`` there.
"""

from flyingsquid.distributed.application import apply
from flyingsquid.distributed.rounds import DistributedVotes, votes

__all__ = ["DistributedVotes", "apply", "votes"]
