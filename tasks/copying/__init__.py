"""Copies of a store to another folder or bucket."""
