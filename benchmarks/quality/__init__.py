"""Accuracy of the methods on real votes; speed is measured in ``benchmarks`` itself."""
