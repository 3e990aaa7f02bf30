"""Routing of a day's orders: read, planned, solved, written."""
