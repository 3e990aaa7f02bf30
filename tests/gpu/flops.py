"""Floating-point operations that a training step has to do: the numerator of the MFU."""

from __future__ import annotations

from mcvrp.model.network import NetworkConfig

H200_BF16 = 989e12  # dense, a second: NVIDIA's data sheet


def training_flops(config: NetworkConfig, problem: int, solution: int) -> int:
    """Return the operations of forward and backward for one sample.

    ``problem`` and ``solution`` count its tokens. A multiplication and its addition are two
    operations, and the backward pass takes twice the forward's. Matrix products only: no
    softmax, norms or activations; causal attention counts half of its square; nothing is
    counted that is recomputed, or that is padding.
    """
    t, s, d, ff = problem, solution, config.dim, config.ff
    encoder_layer = t * (4 * d * d + 2 * d * ff) + 2 * t * t * d
    cross = s * 2 * d * d + t * 2 * d * d + 2 * s * t * d
    decoder_layer = s * (4 * d * d + 2 * d * ff) + s * s * d + cross
    output = t * d * config.classes + s * t * d  # all nodes for the problem, the instance's for the solution
    products = config.encoder_layers * encoder_layer + config.decoder_layers * decoder_layer + output
    return 3 * 2 * products
