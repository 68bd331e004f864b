"""Fit and label votes on a Dask cluster of two processes, and write the labels on the cluster.

The output contains "same counts: True": the cluster counts the same integers as one machine, so the labels
are the same. Needs ``pip install 'flyingsquid[dask]'``. For Spark see docs/guides/clusters.md.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import dask.dataframe as dd
import numpy as np
import pandas as pd
from distributed import Client, LocalCluster

import flyingsquid as fs
from flyingsquid import distributed


def main(n_items: int = 200_000) -> dict[str, float]:
    sample = fs.datasets.simulate(
        n_items, accuracies=[0.9, 0.8, 0.75, 0.7, 0.65], coverage=0.7, random_state=0
    )
    votes = pd.DataFrame(sample.votes.codes, columns=["links", "caps", "short", "praise", "price"])
    # On a real cluster this is dd.read_parquet("s3://..."); the rows never pass through this process.
    frame = dd.from_pandas(votes.assign(id=np.arange(n_items)), npartitions=8)
    options = {"host": "127.0.0.1", "dashboard_address": "127.0.0.1:0"}
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, **options) as cluster,
        Client(cluster),
        tempfile.TemporaryDirectory() as directory,
    ):
        there = distributed.votes(frame, keep=["id"])
        model = fs.LabelModel().fit(there)
        print(f"same counts: {model.moments_ == fs.Moments.of(votes)}")
        print(f"fitted by {model.method_}: {model.reason_}")
        model.predict_proba(there).to_parquet(Path(directory) / "labels")
        labels = pd.read_parquet(Path(directory) / "labels").set_index("id").loc[np.arange(n_items)]
    right = float(((labels["p_1"] > 0.5).to_numpy() == sample.y).mean())
    print(f"{n_items:,} labels written by two processes, {right:.1%} right")
    return {"labels": right, "majority vote": fs.MajorityVote().fit(votes).score(votes, sample.y)}


if __name__ == "__main__":  # the processes of the cluster import this file
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--items", type=int, default=200_000)
    print(main(parser.parse_args().items))
