"""Cost model of `mcvrp plan`: bytes per label, tokens per phase, operations of the networks."""

from __future__ import annotations

import math

import numpy as np

from mcvrp.model.curriculum import Curriculum
from mcvrp.model.instances import CAPACITY_TABLE
from mcvrp.model.network import NetworkConfig
from mcvrp.tasks.attention.spec import AttentionNetworkSpec

# Measured on one core of a 2020s x86-64 machine; they tell days from hours, not hours from minutes.
FLOPS_A_CORE = 2.3e10  # of training, small networks
START_SECONDS = 10.0  # of the Ray session and of every phase
# Bytes of a label row in a large file: 25 + n (0.41 log2(customers of the city) - 0.2).
ROW_BYTES, NODE_BYTES_A_BIT, NODE_BYTES = 25.0, 0.41, -0.2
BYTES_A_PARAMETER = 12  # fp32 weights and two moments


def row_bytes(customers: int, n: int) -> float:
    """Return the approximate bytes per label of size ``n`` in a large file."""
    return ROW_BYTES + n * (NODE_BYTES_A_BIT * math.log2(customers + 1) + NODE_BYTES)


def token_counts(curriculum: Curriculum) -> tuple[int, int]:
    """Return the number of problem and of solution tokens in all samples of a phase."""
    rows = np.diff(curriculum.size_starts)
    sets = np.arange(curriculum.first, curriculum.last + 1)
    problem = solution = 0
    for n, count in enumerate(rows.tolist(), start=curriculum.smallest):
        shown = count * int((sets >= n).sum()) * curriculum.passes
        problem += shown * (n + 1)
        solution += shown * round(n + mean_routes(n))
    return problem, solution


def mean_routes(n: int) -> float:
    """Return the approximate number of routes for ``n`` customers (mean demand 5, Table 1, 10 % slack)."""
    mean = next((low + high) / 2 for first, last, low, high in CAPACITY_TABLE if n <= last)
    return 1.1 * 5 * n / mean


def parameters_met(network: NetworkConfig) -> tuple[int, int]:
    """Return the parameters applied per problem token and per solution token, with the output layer."""
    output = network.classes * network.dim
    attention, mlp = 4 * network.dim**2, 2 * network.dim * network.ff
    encoder = network.encoder_layers * (attention + mlp)
    decoder = network.decoder_layers * (2 * attention + mlp)
    return encoder + output, decoder + output


def path_flops(network: NetworkConfig, n: int) -> float:
    """Return the operations per solution of an instance of ``n`` customers, with the encoder."""
    encoder, decoder = parameters_met(network)
    return 2 * (decoder * (n + mean_routes(n)) + encoder * n)


def attention_flops(network: AttentionNetworkSpec, n: int) -> tuple[float, float]:
    """Return the operations of the encoder per instance and of the decoder per solution."""
    products = 4 * network.dim**2 + 2 * network.dim * network.ff
    encoder = 2 * network.layers * (n + 1) * (products + 2 * (n + 1) * network.dim)
    # two products of the glimpse and one of the scores, at each step of a path
    return encoder, 2 * (n + mean_routes(n)) * 3 * (n + 1) * network.dim
