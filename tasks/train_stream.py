"""From labels in memory to batches of tensors, turned and cut for one rank."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray

from model.curriculum import Curriculum, Samples
from model.features import Batch
from model.problem import DEPOT, City
from storage.labels import LabelTable, load_table
from storage.store import Store


@dataclass(frozen=True)
class GlobalBatch:
    """One step's samples, and how many tokens they have in all: known before anything is computed.

    ``path_lengths`` int64 ``(batch,)`` counts the tokens of each solution; ``angles`` float32
    ``(batch,)`` is None where the phase does not rotate.
    """

    samples: Samples
    path_lengths: NDArray[np.int64]
    angles: NDArray[np.float32] | None

    @property
    def problem_tokens(self) -> int:
        """Problem tokens of all samples: customers and depots."""
        return int((self.samples.sizes + 1).sum())

    @property
    def solution_tokens(self) -> int:
        """Solution tokens that are predicted: every token of a path but the first."""
        return int((self.path_lengths - 1).sum())

    def computed_tokens(self, pieces: int) -> tuple[int, int]:
        """Return problem and solution tokens with padding, when the batch is cut into ``pieces``."""
        rows = len(self.path_lengths) // pieces
        problem = (self.samples.sizes + 1).reshape(pieces, rows).max(1).sum()
        solution = (self.path_lengths - 1).reshape(pieces, rows).max(1).sum()
        return int(problem) * rows, int(solution) * rows


class SampleStream:
    """The batches of one phase.

    Parameters
    ----------
    city
        The city of the labels.
    curriculum
        Which samples each step shows.
    tables
        The labels of each size, with the rows that ``curriculum`` uses only.
    rotation
        Turn each sample about the depot by its own random angle.
    """

    def __init__(
        self, city: City, curriculum: Curriculum, tables: Mapping[int, LabelTable], rotation: bool
    ) -> None:
        self.curriculum, self.tables, self.rotation = curriculum, tables, rotation
        self._delta = city.xy - city.xy[DEPOT]

    @classmethod
    def load(
        cls, store: Store, dataset: str, city: City, curriculum: Curriculum, rotation: bool
    ) -> SampleStream:
        """Return the stream with its labels read from ``store``, one size after the other."""
        tables = {}
        for size in range(curriculum.smallest, curriculum.last + 1):
            count = curriculum.counts[size - curriculum.smallest]
            table = load_table(store, dataset, size, limit=count)
            rows = curriculum.subset(size)
            tables[size] = table if len(rows) == count else _take(table, rows)
        return cls(city, curriculum, tables, rotation)

    def global_batch(self, step: int) -> GlobalBatch:
        """Return the samples of ``step`` in ``1..steps``, rows numbered as in ``tables``."""
        drawn = self.curriculum.global_batch(step)
        rows, path_lengths = drawn.rows.copy(), np.empty(len(drawn.rows), dtype=np.int64)
        for size, here in _by_size(drawn):
            if self.curriculum.trunc is not None:
                rows[here] = np.searchsorted(self.curriculum.subset(size), rows[here])
            offsets = self.tables[size].offsets
            path_lengths[here] = offsets[rows[here] + 1] - offsets[rows[here]]
        angles = self.curriculum.angles(step) if self.rotation else None
        return GlobalBatch(Samples(drawn.sizes, rows), path_lengths, angles)

    def tensors(self, batch: GlobalBatch, part: slice) -> Batch:
        """Return samples ``part`` of ``batch``, padded to the longest of them.

        Rotation moves the start of the plane's angles, so the list of routes is rolled to
        begin with the route whose centroid has the smallest angle in [0, 2 pi) as the network
        sees it.
        """
        samples = Samples(batch.samples.sizes[part], batch.samples.rows[part])
        lengths, path_lengths = samples.sizes + 1, batch.path_lengths[part]
        angles = None if batch.angles is None else batch.angles[part]
        ids = np.zeros((len(lengths), lengths.max()), dtype=np.int64)
        demands = np.zeros(ids.shape, dtype=np.float32)
        capacity = np.empty(len(lengths), dtype=np.float32)
        nodes = np.zeros((len(lengths), path_lengths.max()), dtype=np.int64)
        for size, here in _by_size(samples):
            table, rows = self.tables[size], samples.rows[here]
            ids[here, 1 : size + 1] = table.ids[rows]
            demands[here, 1 : size + 1] = table.demands[rows]
            capacity[here] = table.capacities[rows]
            inside = np.zeros(nodes.shape, dtype=bool)
            inside[here] = np.arange(nodes.shape[1]) < path_lengths[here, None]
            nodes[inside] = table.paths[_ranges(table.offsets, rows)]
        if angles is not None:
            nodes = self._rolled(nodes, path_lengths, angles)
        path = _positions(ids, lengths, nodes)
        arrays = (ids, demands, capacity, lengths, path, path_lengths)
        angle = None if angles is None else torch.from_numpy(angles)
        return replace(Batch(*(torch.from_numpy(a) for a in arrays)), angle=angle)

    def _rolled(
        self, nodes: NDArray[np.int64], lengths: NDArray[np.int64], angles: NDArray[np.float32]
    ) -> NDArray[np.int64]:
        """Return the paths with their routes in the order of the rotated frame."""
        columns = np.arange(nodes.shape[1])
        ends = lengths[:, None] - 1  # where the last depot of each path stands
        starts = (nodes == DEPOT) & (columns < ends)  # the depot in front of each route
        route = starts.cumsum(1) - 1 + np.arange(len(nodes))[:, None] * len(columns)
        delta = self._delta[nodes]
        sums = [
            np.bincount(route.ravel(), weights=delta[..., k].ravel(), minlength=nodes.size) for k in (0, 1)
        ]
        angle = np.arctan2(sums[1], sums[0])[route] + angles[:, None]
        seen = np.where(starts, np.mod(angle, 2 * np.pi), np.inf)
        shift = seen.argmin(1)[:, None]
        source = np.where(columns < ends, (columns + shift) % ends, columns)
        return np.take_along_axis(nodes, source, axis=1)


def _positions(
    ids: NDArray[np.int64], lengths: NDArray[np.int64], nodes: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return where each of ``nodes`` stands among the ascending ``ids`` of its instance."""
    pad = int(ids.max()) + 1  # larger than any node: every row stays ascending
    keys = np.where(np.arange(ids.shape[1]) < lengths[:, None], ids, pad)
    base = np.arange(len(ids))[:, None]
    found = np.searchsorted((keys + base * (pad + 1)).ravel(), (nodes + base * (pad + 1)).ravel())
    return found.reshape(nodes.shape) - base * ids.shape[1]


def _by_size(samples: Samples) -> Iterator[tuple[int, NDArray[np.int64]]]:
    for size in np.unique(samples.sizes):
        yield int(size), np.flatnonzero(samples.sizes == size)


def _ranges(offsets: NDArray[np.int64], rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return offsets[r], ..., offsets[r + 1] - 1 for each r of ``rows``, on end."""
    starts, lengths = offsets[rows], offsets[rows + 1] - offsets[rows]
    ends = np.cumsum(lengths)
    return np.arange(ends[-1]) + np.repeat(starts - ends + lengths, lengths)


def _take(table: LabelTable, rows: NDArray[np.int64]) -> LabelTable:
    lengths = table.offsets[rows + 1] - table.offsets[rows]
    return LabelTable(
        n=table.n,
        ids=table.ids[rows],
        demands=table.demands[rows],
        capacities=table.capacities[rows],
        paths=table.paths[_ranges(table.offsets, rows)],
        offsets=np.concatenate([[0], np.cumsum(lengths)]),
        costs=table.costs[rows],
    )
