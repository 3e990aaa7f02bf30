"""Micro-batches: a global batch split among ranks and accumulation steps.

The split changes neither the samples of a batch nor its loss: see `model.loss`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mcvrp.model.curriculum import Order

_Positions = NDArray[np.int64]


def micro_batches(
    sizes: NDArray[np.int64],
    path_lengths: NDArray[np.int64],
    *,
    ranks: int,
    order: Order,
    tokens: int | None = None,
) -> list[list[_Positions]]:
    """Return the micro-batches of each rank, as positions in the global batch.

    Each sample is in one micro-batch. All ranks have the same number of samples and of micro-batches, as
    they synchronize after each; ``ranks`` divides the number of samples.

    Parameters
    ----------
    sizes, path_lengths
        Customers and solution tokens of each sample, ``(B,)``.
    order
        "paper" keeps the order of the samples. "bucketed" sorts them, so that a micro-batch has
        samples of one size, which need no padding mask, and solutions of similar lengths.
    tokens
        Maximum number of problem and solution tokens, with padding, of a micro-batch. A larger
        sample is a micro-batch by itself.
    """
    pieces: list[list[_Positions]] = []  # of each rank
    positions = np.arange(len(sizes)) if order == "paper" else np.lexsort((path_lengths, sizes))
    for share in positions.reshape(ranks, -1):
        runs = [share] if order == "paper" else np.split(share, np.flatnonzero(np.diff(sizes[share])) + 1)
        splits = [_split(run, sizes[run], path_lengths[run], tokens) for run in runs]
        pieces.append([piece for split in splits for piece in split])
    for own in pieces:
        while len(own) < max(map(len, pieces)):
            _split_largest(own, sizes, path_lengths)
    return pieces


def computed_tokens(sizes: NDArray[np.int64], path_lengths: NDArray[np.int64]) -> tuple[int, int]:
    """Return the problem and solution tokens, with padding, of a micro-batch of these samples."""
    return len(sizes) * int(sizes.max() + 1), len(sizes) * int(path_lengths.max() - 1)


def _split(
    run: _Positions, sizes: NDArray[np.int64], path_lengths: NDArray[np.int64], tokens: int | None
) -> list[_Positions]:
    """Return ``run`` in as few equal pieces as the limit allows."""
    limit = max(1, tokens // int(sizes.max() + path_lengths.max())) if tokens else len(run)
    return np.array_split(run, -(-len(run) // limit))


def _split_largest(
    pieces: list[_Positions], sizes: NDArray[np.int64], path_lengths: NDArray[np.int64]
) -> None:
    costs = [sum(computed_tokens(sizes[p], path_lengths[p])) if len(p) > 1 else 0 for p in pieces]
    largest = int(np.argmax(costs))
    pieces[largest : largest + 1] = np.array_split(pieces[largest], 2)
