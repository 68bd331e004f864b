"""How right the methods are on real votes, where ``benchmarks`` itself asks how fast."""
