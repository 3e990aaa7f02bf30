"""Files that people bring: tables as CSV, spreadsheets or Parquet, and instances of CVRPLIB."""
