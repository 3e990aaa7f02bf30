"""Labels: Parquet files, their schema, manifest, statistics, and the copy that training maps."""
