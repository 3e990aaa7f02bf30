"""Command line: the `mcvrp` command."""
