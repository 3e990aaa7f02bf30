"""Driven routes: ingestion, validation and storage by day."""
