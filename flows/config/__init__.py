"""Configuration: specs, presets, parameters of forms, settings of the environment, preflight checks."""
