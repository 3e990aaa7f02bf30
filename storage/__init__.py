"""Storage: where bytes live. Knows no Prefect and no Ray."""
