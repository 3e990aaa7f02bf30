"""From the cache of labels to micro-batches of tensors for one rank.

Knows sizes, rows and bytes; coordinates, rotation and features are the device's work.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from mcvrp.model.curriculum import Curriculum, Samples
from mcvrp.model.features import Batch
from mcvrp.model.micro_batches import computed_tokens, micro_batches
from mcvrp.storage.labels.cache import LabelCache

_AHEAD = 2  # steps that are prepared while the device computes


@dataclass(frozen=True)
class GlobalBatch:
    """One step's samples, and how many tokens they have in all: known before anything is computed.

    ``path_lengths`` int64 ``(batch,)`` counts the tokens of each solution; ``angles`` float32
    ``(batch,)`` is None where the phase does not rotate, ``shuffles`` ``(batch, tokens)`` where
    routes keep their order; ``pieces`` are the micro-batches of each rank, as positions in the batch.
    """

    samples: Samples
    path_lengths: NDArray[np.int64]
    angles: NDArray[np.float32] | None
    shuffles: NDArray[np.float64] | None
    pieces: list[list[NDArray[np.int64]]]

    @property
    def problem_tokens(self) -> int:
        """Problem tokens of all samples: customers and depots."""
        return int((self.samples.sizes + 1).sum())

    @property
    def solution_tokens(self) -> int:
        """Solution tokens that are predicted: every token of a path but the first."""
        return int((self.path_lengths - 1).sum())

    def computed_tokens(self) -> tuple[int, int]:
        """Return problem and solution tokens with padding, over the micro-batches of all ranks."""
        pieces = [piece for mine in self.pieces for piece in mine]
        found = [computed_tokens(self.samples.sizes[p], self.path_lengths[p]) for p in pieces]
        return sum(problem for problem, _ in found), sum(solution for _, solution in found)


class SampleStream:
    """The batches of one phase.

    Parameters
    ----------
    curriculum
        Which samples each step shows.
    cache
        The labels of all sizes of the curriculum.
    rotation
        Turn each sample about the depot by its own random angle.
    shuffled
        Show the routes of each label in a random order (ablation of the paper's last appendix).
    ranks
        Processes that share a step.
    micro_batch, micro_tokens
        Samples and tokens that a rank takes at once at most: see `model.micro_batches`.
    """

    def __init__(
        self,
        curriculum: Curriculum,
        cache: LabelCache,
        rotation: bool,
        *,
        shuffled: bool = False,
        ranks: int = 1,
        micro_batch: int | None = None,
        micro_tokens: int | None = None,
    ) -> None:
        self.curriculum, self.cache = curriculum, cache
        self.rotation, self.shuffled = rotation, shuffled
        self.ranks, self.micro_batch, self.micro_tokens = ranks, micro_batch, micro_tokens

    def global_batch(self, step: int) -> GlobalBatch:
        """Return the samples of ``step`` in ``1..steps``, and how the ranks share them."""
        samples = self.curriculum.global_batch(step)
        path_lengths = np.empty(len(samples.rows), dtype=np.int64)
        for size, here in _by_size(samples.sizes):
            offsets, rows = self.cache.labels(size).offsets, samples.rows[here]
            path_lengths[here] = offsets[rows + 1] - offsets[rows]
        pieces = micro_batches(
            samples.sizes,
            path_lengths,
            ranks=self.ranks,
            order=self.curriculum.order,
            samples=self.micro_batch,
            tokens=self.micro_tokens,
        )
        angles = self.curriculum.angles(step) if self.rotation else None
        shuffles = self.curriculum.shuffles(step, int(path_lengths.max())) if self.shuffled else None
        return GlobalBatch(samples, path_lengths, angles, shuffles, pieces)

    def tensors(self, batch: GlobalBatch, rows: NDArray[np.int64]) -> Batch:
        """Return the samples at ``rows`` of ``batch``, padded to the longest of them.

        Routes are in the order of the unrotated frame: see `model.features.rolled_path`.
        """
        sizes, path_lengths = batch.samples.sizes[rows], batch.path_lengths[rows]
        ids = np.zeros((len(rows), sizes.max() + 1), dtype=np.int64)
        demands = np.zeros(ids.shape, dtype=np.int64)
        capacity = np.empty(len(rows), dtype=np.int64)
        path = np.empty((len(rows), path_lengths.max()), dtype=np.int64)
        columns = np.arange(path.shape[1])
        for size, here in _by_size(sizes):
            labels, at = self.cache.labels(size), batch.samples.rows[rows[here]]
            ids[here, 1 : size + 1] = labels.ids[at]
            demands[here, 1 : size + 1] = labels.demands[at]
            capacity[here] = labels.capacities[at]
            # A path ends at the depot, position 0: its last token again and again is the padding.
            starts, lasts = labels.offsets[at, None], labels.offsets[at + 1, None] - 1
            path[here] = labels.positions[np.minimum(starts + columns, lasts)]
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

        Parameters
        ----------
        ahead
            Prepare the next steps in a thread, in memory that a GPU can read, while the
            device computes. Without a GPU the thread would take the cores from the network.
        """
        if not ahead:
            for step in range(first, last + 1):
                yield self._prepared(step, rank)
            return
        coming: deque[Future[tuple[GlobalBatch, list[Batch]]]] = deque()
        gpu = torch.cuda.current_device() if torch.cuda.is_available() else None
        with ThreadPoolExecutor(1, initializer=_use_gpu, initargs=(gpu,)) as worker:
            for step in range(first, last + 1):
                coming.append(worker.submit(self._pinned, step, rank))
                if len(coming) > _AHEAD:
                    yield coming.popleft().result()
            while coming:  # no more to prepare: hand out what is left
                yield coming.popleft().result()

    def _prepared(self, step: int, rank: int) -> tuple[GlobalBatch, list[Batch]]:
        batch = self.global_batch(step)
        return batch, [self.tensors(batch, rows) for rows in batch.pieces[rank]]

    def _pinned(self, step: int, rank: int) -> tuple[GlobalBatch, list[Batch]]:
        batch, mine = self._prepared(step, rank)
        return batch, [piece.pinned() for piece in mine] if torch.cuda.is_available() else mine


def _shuffled(
    path: NDArray[np.int64], path_lengths: NDArray[np.int64], shuffles: NDArray[np.float64]
) -> NDArray[np.int64]:
    """Return ``path`` ``(B, L)`` with whole routes in the order of their ``shuffles`` ``(B, >= L)``."""
    routes = np.cumsum(path == 0, axis=1)[:, :-1] - 1  # of each token but the first, its last depot included
    keys = np.take_along_axis(shuffles, routes, axis=1)
    keys[np.arange(1, path.shape[1]) >= path_lengths[:, None]] = np.inf  # padding stays behind
    order = np.argsort(keys, axis=1, kind="stable")
    return np.concatenate([path[:, :1], np.take_along_axis(path[:, 1:], order, axis=1)], axis=1)


def _use_gpu(gpu: int | None) -> None:
    """Let this thread use ``gpu``: a new one would open the first, whichever is its rank's."""
    if gpu is not None:
        torch.cuda.set_device(gpu)


def _by_size(sizes: NDArray[np.int64]) -> Iterator[tuple[int, slice | NDArray[np.int64]]]:
    """Yield each size and where it stands."""
    if (sizes == sizes[0]).all():
        yield int(sizes[0]), slice(None)
        return
    for size in np.unique(sizes):
        yield int(size), np.flatnonzero(sizes == size)
