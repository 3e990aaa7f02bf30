"""Training runs: checkpoints and metrics."""
