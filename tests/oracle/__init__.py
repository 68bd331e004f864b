"""Exact answers for small models, by enumerating every outcome. Shares no code with the package."""
