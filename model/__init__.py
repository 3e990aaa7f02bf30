"""The mathematics of the MCVRP: problem, network, loss, decoding, curriculum. No Prefect, Ray or files."""
