"""Hugging Face's T5 with the dimensions of our network, for the benchmarks that compare with it."""

from __future__ import annotations

import torch
from transformers import T5Config, T5ForConditionalGeneration

from mcvrp.model.network import NetworkConfig

DEPOT = 0


def t5_like(network: NetworkConfig) -> T5ForConditionalGeneration:
    """Return an untrained T5: as many layers, heads, dimensions and classes, node numbers for features."""
    torch.manual_seed(0)
    config = T5Config(
        vocab_size=network.classes,
        d_model=network.dim,
        d_kv=network.dim // network.heads,
        d_ff=network.ff,
        num_layers=network.encoder_layers,
        num_decoder_layers=network.decoder_layers,
        num_heads=network.heads,
        dropout_rate=network.dropout,
        feed_forward_proj="gelu",
        pad_token_id=DEPOT,
        decoder_start_token_id=DEPOT,
    )
    return T5ForConditionalGeneration(config)
