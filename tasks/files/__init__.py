"""Readers of user files: tables as CSV, spreadsheets or Parquet, and instances of CVRPLIB."""
