"""Nightly retraining on driven routes, with comparison and promotion."""
