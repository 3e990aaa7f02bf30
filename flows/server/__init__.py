"""Prefect: its server, deployments, records and artifacts."""
