"""Training: phase by phase through DeepSpeed, from the last checkpoint, to a published model."""
