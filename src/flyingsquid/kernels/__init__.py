"""Compiled loops over codes, extra ``[fast]``, and when they are used. Everything works without them."""

from flyingsquid.kernels.switch import Kernels, kernels_for, n_threads

__all__ = ["Kernels", "kernels_for", "n_threads"]
