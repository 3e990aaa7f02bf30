"""Models: published versions, the registry of their aliases, attention models."""
