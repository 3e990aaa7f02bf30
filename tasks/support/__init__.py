"""Support of all stages: logs, progress, processes, Ray, text and pictures."""
