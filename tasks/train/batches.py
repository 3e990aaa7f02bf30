"""Stream of training samples: from the label cache to micro-batches of tensors for one rank.

Knows sizes, rows and bytes; coordinates, rotation and features are computed on the device.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from mcvrp.model.curriculum import Curriculum, Order, Samples
from mcvrp.model.features import Batch
from mcvrp.storage.labels.cache import LabelCache

_Positions = NDArray[np.int64]
_AHEAD = 2  # steps that are prefetched


@dataclass(frozen=True)
class GlobalBatch:
    """Samples of one step, and their tokens, which the loss of every rank is divided by."""

    samples: Samples
    path_lengths: NDArray[np.int64]  # (batch,) tokens of each solution
    angles: NDArray[np.float32] | None  # (batch,) None if the phase does not rotate
    shuffles: NDArray[np.float64] | None  # (batch, tokens) sort keys of routes; None if they keep their order
    pieces: list[list[NDArray[np.int64]]]  # micro-batches of each rank, as positions in the batch

    @property
    def problem_tokens(self) -> int:
        """Problem tokens of all samples: customers and depots."""
        return int((self.samples.sizes + 1).sum())

    @property
    def solution_tokens(self) -> int:
        """Predicted solution tokens of all samples: every token of a path but the first."""
        return int((self.path_lengths - 1).sum())


@dataclass(frozen=True, eq=False)
class SampleStream:
    """Batches of one phase, divided among ``ranks`` and into micro-batches (`micro_batches`)."""

    curriculum: Curriculum
    cache: LabelCache
    rotation: bool  # rotate each sample about the depot by a random angle
    shuffled: bool = False  # present the routes of each label in random order (last appendix of the paper)
    ranks: int = 1
    micro_tokens: int | None = None  # maximum tokens of a micro-batch, padding included

    def global_batch(self, step: int) -> GlobalBatch:
        """Return the samples of ``step`` in ``1..steps``, divided among the ranks."""
        samples = self.curriculum.global_batch(step)
        path_lengths = np.empty(len(samples.rows), dtype=np.int64)
        for size, at in _by_size(samples.sizes):
            offsets, rows = self.cache[size].offsets, samples.rows[at]
            path_lengths[at] = offsets[rows + 1] - offsets[rows]
        pieces = micro_batches(
            samples.sizes,
            path_lengths,
            ranks=self.ranks,
            order=self.curriculum.order,
            tokens=self.micro_tokens,
        )
        angles = self.curriculum.angles(step) if self.rotation else None
        shuffles = self.curriculum.shuffles(step, int(path_lengths.max())) if self.shuffled else None
        return GlobalBatch(samples, path_lengths, angles, shuffles, pieces)

    def tensors(self, batch: GlobalBatch, rows: NDArray[np.int64]) -> Batch:
        """Return the samples at positions ``rows`` of ``batch``, padded to the longest of them.

        Routes are in the order of the unrotated frame: see `model.features.rolled_path`.
        """
        sizes, path_lengths = batch.samples.sizes[rows], batch.path_lengths[rows]
        ids = np.zeros((len(rows), sizes.max() + 1), dtype=np.int64)
        demands = np.zeros(ids.shape, dtype=np.int64)
        capacity = np.empty(len(rows), dtype=np.int64)
        path = np.empty((len(rows), path_lengths.max()), dtype=np.int64)
        columns = np.arange(path.shape[1])
        for size, at in _by_size(sizes):
            labels, row = self.cache[size], batch.samples.rows[rows[at]]
            ids[at, 1 : size + 1] = labels.ids[row]
            demands[at, 1 : size + 1] = labels.demands[row]
            capacity[at] = labels.capacities[row]
            # Padding repeats the last token of a path, the depot at position 0.
            starts, lasts = labels.offsets[row, None], labels.offsets[row + 1, None] - 1
            path[at] = labels.positions[np.minimum(starts + columns, lasts)]
        if batch.shuffles is not None:
            path = _shuffled(path, path_lengths, batch.shuffles[rows])
        return Batch(
            ids=torch.from_numpy(ids),
            demands=torch.from_numpy(demands),
            capacity=torch.from_numpy(capacity),
            lengths=torch.from_numpy(sizes + 1),
            path=torch.from_numpy(path),
            path_lengths=torch.from_numpy(path_lengths),
            angle=None if batch.angles is None else torch.from_numpy(batch.angles[rows]),
            padded=bool(sizes.min() < sizes.max()),
            by_angle=batch.shuffles is None,
        )

    def steps(
        self, first: int, last: int, rank: int, ahead: bool = False
    ) -> Iterator[tuple[GlobalBatch, list[Batch]]]:
        """Yield the steps ``first..last`` with the micro-batches of ``rank``.

        With ``ahead``, a thread prefetches the next steps into pinned memory while the device computes. On
        a CPU it would compete with the network for cores.
        """
        if not ahead:
            for step in range(first, last + 1):
                yield self._prepared(step, rank)
            return
        pending: deque[Future[tuple[GlobalBatch, list[Batch]]]] = deque()
        gpu = torch.cuda.current_device() if torch.cuda.is_available() else None
        with ThreadPoolExecutor(1) as worker:
            for step in range(first, last + 1):
                pending.append(worker.submit(self._prepared, step, rank, gpu))
                if len(pending) > _AHEAD:
                    yield pending.popleft().result()
            while pending:  # nothing left to prefetch
                yield pending.popleft().result()

    def _prepared(self, step: int, rank: int, gpu: int | None = None) -> tuple[GlobalBatch, list[Batch]]:
        batch = self.global_batch(step)
        pieces = [self.tensors(batch, rows) for rows in batch.pieces[rank]]
        if gpu is None:
            return batch, pieces
        torch.cuda.set_device(gpu)  # a new thread starts with GPU 0, whatever its rank uses
        return batch, [piece.pinned() for piece in pieces]


def _shuffled(
    path: NDArray[np.int64], path_lengths: NDArray[np.int64], shuffles: NDArray[np.float64]
) -> NDArray[np.int64]:
    """Return ``path`` ``(B, L)`` with whole routes in the order of their ``shuffles`` ``(B, >= L)``."""
    # Of each token but the first; the depot that ends a route belongs to it.
    routes = np.cumsum(path == 0, axis=1)[:, :-1] - 1
    keys = np.take_along_axis(shuffles, routes, axis=1)
    keys[np.arange(1, path.shape[1]) >= path_lengths[:, None]] = np.inf  # padding stays at the end
    order = np.argsort(keys, axis=1, kind="stable")
    return np.concatenate([path[:, :1], np.take_along_axis(path[:, 1:], order, axis=1)], axis=1)


def _by_size(sizes: NDArray[np.int64]) -> Iterator[tuple[int, NDArray[np.int64]]]:
    for size in np.unique(sizes).tolist():
        yield size, np.flatnonzero(sizes == size)


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
