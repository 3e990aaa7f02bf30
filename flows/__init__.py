"""Flows, one per file; the command line; the Prefect server.

The parameters of a flow are described in its signature, from which the forms of the UI take the text.
"""
