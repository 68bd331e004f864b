"""Estimates from counts and votes: pure functions on arrays."""
