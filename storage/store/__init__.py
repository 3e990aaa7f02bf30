"""Store: a folder or a bucket whose files are written whole or not at all."""
