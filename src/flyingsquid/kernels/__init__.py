"""Compiled loops over codes, installed by the extra ``[fast]``. Everything works without them."""

from flyingsquid.kernels.dispatch import Kernels, kernels_for, n_threads

__all__ = ["Kernels", "kernels_for", "n_threads"]
