"""Micro-batches: a global batch cut into what each rank takes at once.

Which samples a batch has does not depend on how it is cut, nor does its loss: see `model.loss`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mcvrp.model.curriculum import Order
from mcvrp.model.errors import McvrpError

_Positions = NDArray[np.int64]


def micro_batches(
    sizes: NDArray[np.int64],
    path_lengths: NDArray[np.int64],
    *,
    ranks: int,
    order: Order,
    samples: int | None = None,
    tokens: int | None = None,
) -> list[list[_Positions]]:
    """Return the micro-batches of each rank, as positions in the global batch.

    Every sample is in one micro-batch, every rank has equally many samples, and equally many
    micro-batches: the ranks meet after each.

    Parameters
    ----------
    sizes, path_lengths
        Customers of each sample and tokens of its solution, ``(B,)``.
    order
        "paper" takes the samples as they come. "bucketed" sorts them, so that a micro-batch
        has samples of one size, which need no padding mask, and of similar solutions.
    samples, tokens
        What a micro-batch has at most: samples, and problem and solution tokens with their
        padding. A sample that is larger is a micro-batch of its own.

    Raises
    ------
    McvrpError
        If the samples cannot be shared equally.
    """
    if len(sizes) % ranks:
        raise McvrpError(
            f"train.batch = {len(sizes)} cannot be shared by {ranks} ranks: give a multiple of {ranks}"
        )
    positions = np.arange(len(sizes)) if order == "paper" else np.lexsort((path_lengths, sizes))
    cut: list[list[_Positions]] = []
    for share in positions.reshape(ranks, -1):
        changes = np.flatnonzero(np.diff(sizes[share])) + 1
        runs = [share] if order == "paper" else np.split(share, changes)
        limits = [_most_samples(sizes[run], path_lengths[run], samples, tokens) for run in runs]
        pieces = [np.array_split(run, -(-len(run) // most)) for run, most in zip(runs, limits, strict=True)]
        cut.append([piece for of_run in pieces for piece in of_run])
    most = max(map(len, cut))
    for mine in cut:
        while len(mine) < most:
            _split_largest(mine, sizes, path_lengths)
    return cut


def computed_tokens(sizes: NDArray[np.int64], path_lengths: NDArray[np.int64]) -> tuple[int, int]:
    """Return the problem and solution tokens, with padding, of a micro-batch of these samples."""
    return len(sizes) * int(sizes.max() + 1), len(sizes) * int(path_lengths.max() - 1)


def _most_samples(
    sizes: NDArray[np.int64], path_lengths: NDArray[np.int64], samples: int | None, tokens: int | None
) -> int:
    limits = [len(sizes)]
    if samples is not None:
        limits.append(samples)
    if tokens is not None:
        limits.append(tokens // int(sizes.max() + path_lengths.max()))
    return max(1, min(limits))


def _split_largest(
    pieces: list[_Positions], sizes: NDArray[np.int64], path_lengths: NDArray[np.int64]
) -> None:
    costs = [sum(computed_tokens(sizes[p], path_lengths[p])) if len(p) > 1 else 0 for p in pieces]
    largest = int(np.argmax(costs))
    pieces[largest : largest + 1] = np.array_split(pieces[largest], 2)
