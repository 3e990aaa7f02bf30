"""Retraining on fresh routes (nights) or improved labels (rounds), with comparison and promotion."""
