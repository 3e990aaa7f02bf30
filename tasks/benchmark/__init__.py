"""Benchmark of all methods on the same held-out instances."""
