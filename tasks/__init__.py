"""Stages of the work, a package each, and the solvers. Ray inside, no Prefect."""
