"""What a user presses: Prefect flows, presets and the `mcvrp` command."""
