"""Reproduction of the paper's tables, figure, ablations and theorems."""
