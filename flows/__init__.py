"""Flows: what a user presses, one a file; the command line; Prefect."""
