"""Label factory: solve what a dataset is missing, a file per unit of work, and prove it from its bytes."""
