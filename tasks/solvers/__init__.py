"""Solvers: every way to solve an instance, behind one protocol."""
