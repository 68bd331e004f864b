"""Scripts that repeat tables of the paper."""
