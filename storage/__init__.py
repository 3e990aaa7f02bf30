"""Where bytes live: schemas, layout of the store, atomic writes, checkpoints. No Prefect, no Ray."""
