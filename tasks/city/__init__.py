"""Cities: synthetic, imported from a file of addresses, extended."""
