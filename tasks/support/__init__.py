"""Support of all stages: logs, progress, processes, Ray, text, tables and pictures."""
