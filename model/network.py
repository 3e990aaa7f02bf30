"""FM-MCVRP: an encoder-decoder transformer whose vocabulary is the city (Sec. 4.2).

The paper gives dimensions only. We take pre-norm blocks, GELU, LayerNorm, one F -> D input
projection each for encoder and decoder, no positional encoding, dropout where PyTorch's own
transformer has it, and no bias in the output layer, which both streams share. At the
paper's size that makes 206 M parameters.

Operates on tensors only: `model.features` makes the features, `model.decoding` chooses nodes. Symbols in
shapes: B instances, T problem tokens, L solution tokens, F features, D dimension, H heads, K = D / H; in
decoding, G groups of S samples that share an instance and its rotation.
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Annotated, Self, cast

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn

from mcvrp.model.city import City
from mcvrp.model.features import FEATURES, CityTable

# cuDNN makes a plan for every new shape, which takes some 90 ms: longer than a step of training or decoding,
# whose shapes differ from one to the next. PyTorch prefers it on new GPUs; flash attention is left.
torch.backends.cuda.enable_cudnn_sdp(False)

Count = Annotated[int, Field(ge=1)]
_TRITON = find_spec("triton") is not None  # comes with PyTorch's CUDA packages only


@dataclass(frozen=True)
class NetworkConfig:
    """The shape of the network; ValueError if its heads do not divide its dimension.

    ``pointer`` adds a projection of a node's embedding, which depends on the instance, to the node's weights
    in the output layer: see `FmMcvrp.node_weights`. ``landmarks`` is the number of landmarks
    whose travel costs are further features of a node: see `City.landmark_costs`.
    """

    classes: Count
    dim: Count
    heads: Count
    encoder_layers: Count
    decoder_layers: Count
    ff: Count
    dropout: Annotated[float, Field(ge=0, lt=1)] = 0.1
    pointer: bool = False
    landmarks: Annotated[int, Field(ge=0)] = 0

    def __post_init__(self) -> None:
        if self.dim % self.heads:
            raise ValueError(f"dim {self.dim} is not a multiple of heads {self.heads}")

    @property
    def features(self) -> int:
        """The number F of features of a token."""
        return FEATURES + self.landmarks

    def parameters(self) -> int:
        """Return the number of parameters, without building the network."""
        d, norm = self.dim, 2 * self.dim
        attention = 4 * d * d + 4 * d
        mlp = 2 * d * self.ff + d + self.ff
        encoder = self.encoder_layers * (attention + mlp + 2 * norm)
        decoder = self.decoder_layers * (2 * attention + mlp + 3 * norm)
        output = self.classes * d + (d * d if self.pointer else 0)
        return encoder + decoder + 2 * norm + 2 * (self.features + 1) * d + output


class Attention(nn.Module):
    """Multi-head attention over keys and values of the same tokens, of a memory or of a cache."""

    def __init__(self, config: NetworkConfig) -> None:
        super().__init__()
        self.heads, self.dropout = config.heads, config.dropout
        self.query = nn.Linear(config.dim, config.dim)
        self.key_value = nn.Linear(config.dim, 2 * config.dim)
        self.out = nn.Linear(config.dim, config.dim)

    def keys_values(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return keys and values of ``x`` ``(B, T, D)``, each ``(B, H, T, K)``."""
        key, value = self.key_value(x).chunk(2, dim=-1)
        return self._split(key), self._split(value)

    def forward(
        self, x: Tensor, keys_values: tuple[Tensor, Tensor], mask: Tensor | None = None, causal: bool = False
    ) -> Tensor:
        """Return the attention output for the queries ``x`` ``(B, L, D)``, ``(B, L, D)``."""
        query, (key, value) = self._split(self.query(x)), keys_values
        if not self.training and _decodes_on_gpu(query):
            from mcvrp.model.one_query import attend

            y = attend(query, key, value, mask)
        else:
            dropout = self.dropout if self.training else 0.0
            y = F.scaled_dot_product_attention(
                query, key, value, attn_mask=mask, dropout_p=dropout, is_causal=causal
            )
        return self.out(y.transpose(1, 2).flatten(2))  # (B, H, L, K) -> (B, L, D)

    def _split(self, x: Tensor) -> Tensor:
        return x.view(*x.shape[:-1], self.heads, -1).transpose(1, 2)  # (B, L, D) -> (B, H, L, K)


def _decodes_on_gpu(query: Tensor) -> bool:
    """Return whether `model.one_query` can be used for ``query`` ``(B, H, L, K)``."""
    _, _, queries, size = query.shape
    power_of_2 = size >= 16 and size & (size - 1) == 0
    return queries == 1 and query.is_cuda and power_of_2 and not torch.is_grad_enabled() and _TRITON


class Mlp(nn.Module):
    """The feed-forward layer."""

    def __init__(self, config: NetworkConfig) -> None:
        super().__init__()
        self.inner = nn.Linear(config.dim, config.ff)
        self.out = nn.Linear(config.ff, config.dim)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, x: Tensor) -> Tensor:
        """Return the layer's output, ``(B, L, D)``."""
        return self.out(self.dropout(F.gelu(self.inner(x))))


class EncoderBlock(nn.Module):
    """Fully visible self-attention, then the feed-forward layer."""

    def __init__(self, config: NetworkConfig) -> None:
        super().__init__()
        self.norm_self, self.norm_mlp = nn.LayerNorm(config.dim), nn.LayerNorm(config.dim)
        self.attention, self.mlp = Attention(config), Mlp(config)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        """Return the block's output, ``(B, T, D)``; ``mask`` is True for visible keys."""
        y = self.norm_self(x)
        x = x + self.dropout(self.attention(y, self.attention.keys_values(y), mask))
        return x + self.dropout(self.mlp(self.norm_mlp(x)))


class DecoderBlock(nn.Module):
    """Causal self-attention, attention to the problem tokens, then the feed-forward layer."""

    def __init__(self, config: NetworkConfig) -> None:
        super().__init__()
        self.norm_self, self.norm_cross = nn.LayerNorm(config.dim), nn.LayerNorm(config.dim)
        self.norm_mlp = nn.LayerNorm(config.dim)
        self.attention, self.cross, self.mlp = Attention(config), Attention(config), Mlp(config)
        self.dropout = nn.Dropout(config.dropout)

    def forward(
        self, x: Tensor, memory: tuple[Tensor, Tensor], mask: Tensor | None, samples: int = 1
    ) -> Tensor:
        """Return the block's output for all tokens at once, ``(B, L, D)``, B being G * ``samples`` paths."""
        y = self.norm_self(x)
        x = x + self.dropout(self.attention(y, self.attention.keys_values(y), causal=True))
        # As in `step`, the samples of a group are one query block over their problem tokens.
        return self._rest(x.reshape(-1, samples * x.shape[1], x.shape[2]), memory, mask).view_as(x)

    def step(
        self,
        x: Tensor,
        cache: tuple[Tensor, Tensor],
        t: int,
        memory: tuple[Tensor, Tensor],
        mask: Tensor | None,
    ) -> Tensor:
        """Return the block's output for token ``t`` of every sample, ``(G, S, D)``.

        Samples attend to their group's problem tokens as one query block, so its keys are never copied.
        """
        samples = x.flatten(0, 1)[:, None]  # (G, S, D) -> (G * S, 1, D)
        y = self.norm_self(samples)
        for stored, new in zip(cache, self.attention.keys_values(y), strict=True):
            stored[:, :, t] = new[:, :, 0]
        seen = (cache[0][:, :, : t + 1], cache[1][:, :, : t + 1])
        samples = samples + self.dropout(self.attention(y, seen))
        return self._rest(samples.view_as(x), memory, mask)

    def _rest(self, x: Tensor, memory: tuple[Tensor, Tensor], mask: Tensor | None) -> Tensor:
        x = x + self.dropout(self.cross(self.norm_cross(x), memory, mask))
        return x + self.dropout(self.mlp(self.norm_mlp(x)))


@dataclass(frozen=True)
class Memory:
    """Encoded problems for the decoder: keys and values of each layer, and the padding mask."""

    keys_values: list[tuple[Tensor, Tensor]]  # each (B, H, T, K)
    mask: Tensor | None  # bool (B, 1, 1, T)

    def select(self, rows: Tensor) -> Memory:
        """Return the memory of the problems ``rows``."""
        mask = None if self.mask is None else self.mask[rows]
        return Memory([(key[rows], value[rows]) for key, value in self.keys_values], mask)

    def contiguous(self) -> Memory:
        """Return the memory with contiguous tensors, which are faster to read at every step."""
        return Memory([(key.contiguous(), value.contiguous()) for key, value in self.keys_values], self.mask)


Cache = list[tuple[Tensor, Tensor]]  # keys and values of each decoder layer, (G * S, H, Lmax, K)


class FmMcvrp(nn.Module):
    """The network of Fig. 1: problem features in, node scores of encoder and decoder out.

    ``city_id`` is the id of the city that it was trained on, ``city`` its name; None if unknown. `decode`
    refuses other cities.
    """

    city_id: str | None = None
    city: str | None = None

    def __init__(self, config: NetworkConfig) -> None:
        super().__init__()
        self.config = config
        self.encoder_input = nn.Linear(config.features, config.dim)
        self.decoder_input = nn.Linear(config.features, config.dim)
        self.encoder = nn.ModuleList(EncoderBlock(config) for _ in range(config.encoder_layers))
        self.decoder = nn.ModuleList(DecoderBlock(config) for _ in range(config.decoder_layers))
        self.encoder_norm, self.decoder_norm = nn.LayerNorm(config.dim), nn.LayerNorm(config.dim)
        self.output = nn.Linear(config.dim, config.classes, bias=False)
        self.pointer = nn.Linear(config.dim, config.dim, bias=False) if config.pointer else None
        self.dropout = nn.Dropout(config.dropout)
        self.apply(_initialise)
        if self.pointer is not None:
            nn.init.zeros_(self.pointer.weight)  # initially equal to the network without a pointer
        for block in [*self.encoder, *self.decoder]:
            for name, layer in block.named_modules():
                if name.split(".")[-1] == "out":  # small initial variance of each residual branch
                    layer.weight.data /= (2 * max(config.encoder_layers, config.decoder_layers)) ** 0.5

    @property
    def _decoder_blocks(self) -> list[DecoderBlock]:
        return cast(list[DecoderBlock], list(self.decoder))

    def table(self, city: City) -> CityTable:
        """Return the table of ``city`` that this network's features are made from, on its device."""
        return CityTable.of(city, self.output.weight.device, landmarks=self.config.landmarks)

    def encoder_parameters(self) -> list[nn.Parameter]:
        """Return the parameters that phase I trains: the encoder and the shared output layer."""
        parts = [self.encoder_input, self.encoder, self.encoder_norm, self.output]
        return [p for part in parts for p in part.parameters()]

    def to_bf16(self) -> Self:
        """Round the weights to bf16, for decoding; those of the input projections stay as they are."""
        for name, module in self.named_children():
            if not name.endswith("_input"):
                module.to(torch.bfloat16)
        return self

    def _projected(self, layer: nn.Linear, features: Tensor) -> Tensor:
        # Not in bf16, whose coordinates are a grid of 1/256: many customers of a city share a point of it.
        kind = features.device.type
        with torch.autocast(kind, enabled=False) if torch.amp.is_autocast_available(kind) else nullcontext():
            projected: Tensor = layer(features.to(layer.weight.dtype))
        return projected.to(self.output.weight.dtype)

    def encode(self, problem: Tensor, lengths: Tensor | None = None) -> Tensor:
        """Return the node embeddings E, ``(B, T, D)``, of problem features ``(B, T, F)``.

        ``lengths`` ``(B,)`` are the numbers of tokens without padding; None: no padding.
        """
        mask = _key_mask(lengths, problem.shape[1])
        x = self.dropout(self._projected(self.encoder_input, problem))
        for block in self.encoder:
            x = block(x, mask)
        return self.encoder_norm(x)

    def memory(self, embeddings: Tensor, lengths: Tensor | None = None) -> Memory:
        """Return the keys and values of the embeddings E for the decoder's layers."""
        keys_values = [block.cross.keys_values(embeddings) for block in self._decoder_blocks]
        return Memory(keys_values, _key_mask(lengths, embeddings.shape[1]))

    def decode(self, solution: Tensor, memory: Memory, samples: int = 1) -> Tensor:
        """Return the embeddings G, ``(B, L, D)``, of solution features ``(B, L, F)``, causally.

        Each problem of ``memory`` has ``samples`` consecutive paths. Padding at the end of a path needs no
        mask, as no earlier token attends to it.
        """
        x = self.dropout(self._projected(self.decoder_input, solution))
        for block, keys_values in zip(self.decoder, memory.keys_values, strict=True):
            x = block(x, keys_values, memory.mask, samples)
        return self.decoder_norm(x)

    def new_cache(self, memory: Memory, samples: int, length: int) -> Cache:
        """Return an empty cache of ``memory``'s dtype for ``length`` tokens of ``samples`` = G * S paths."""
        keys = [key.new_zeros(samples, key.shape[1], length, key.shape[3]) for key, _ in memory.keys_values]
        return [(key, torch.zeros_like(key)) for key in keys]

    def step(self, solution: Tensor, cache: Cache, t: int, memory: Memory) -> Tensor:
        """Return the embeddings of token ``t``, ``(G, S, D)``, and write its keys to ``cache``.

        Equals position ``t`` of `decode` on the whole path.
        """
        x = self._projected(self.decoder_input, solution)  # (G, S, F) -> (G, S, D)
        for block, stored, keys_values in zip(self._decoder_blocks, cache, memory.keys_values, strict=True):
            x = block.step(x, stored, t, keys_values, memory.mask)
        return self.decoder_norm(x)

    def node_weights(self, ids: Tensor, embeddings: Tensor) -> Tensor:
        """Return the output weights of an instance's nodes, ``(B, T, D)``.

        The columns of W_o at ``ids`` ``(B, T)``; all other nodes are masked. With a pointer, plus P e_j of
        each node's embedding in ``embeddings`` ``(B, T, D)``.
        """
        weights = F.embedding(ids, self.output.weight)
        return weights if self.pointer is None else weights + self.pointer(embeddings)


def _key_mask(lengths: Tensor | None, tokens: int) -> Tensor | None:
    if lengths is None:
        return None
    return (torch.arange(tokens, device=lengths.device) < lengths[:, None])[:, None, None]


def _initialise(module: nn.Module) -> None:
    if isinstance(module, nn.Linear):
        nn.init.normal_(module.weight, std=module.in_features**-0.5)
        if module.bias is not None:
            nn.init.zeros_(module.bias)
