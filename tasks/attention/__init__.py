"""Training of the attention models that the benchmark compares with."""
