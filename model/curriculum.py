"""Samples that each step of a phase trains on, as a pure function of the step (Sec. 4.3 and 5.2, Table 2).

A phase runs through the sets Cr_first, ..., Cr_last, each once; Cr_i is the union of the data
of sizes smallest..i. Every set is shuffled whole, the last partial batch of a set is filled
from the next, and dropped at the end of the phase. Nothing here depends on ranks, or on what
came before: a run resumes at any step on any number of ranks without replay.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from mcvrp.model.errors import McvrpError
from mcvrp.model.random import philox_key, philox_order, philox_uniforms

Order = Literal["paper", "bucketed"]
_T = TypeVar("_T")
_MOST_SETS = 10_000_000  # of a phase, counted once per pass
WINDOW = 64  # batches whose samples are sorted by size together in the bucketed order


@dataclass(frozen=True)
class Samples:
    """Samples of the stream: sizes int64 ``(B,)`` and their rows in the data of that size ``(B,)``."""

    sizes: NDArray[np.int64]
    rows: NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Curriculum:
    """The samples of one phase, in order.

    Parameters
    ----------
    counts
        Rows of data per size, ``counts[0]`` for size ``smallest``, up to at least size ``last``.
    smallest
        The smallest size of every set.
    first, last
        The phase's sets are Cr_first, Cr_first+1, ..., Cr_last.
    batch
        Samples of a global batch.
    stream
        Name of the random stream of the order: dataset, seed and phase.
    trunc_stream
        Name of the random stream of the truncated subsets; phases that share it share the subsets.
    trunc
        Take a random subset of this many rows of each size (the paper's T_i^trunc); None takes all.
    passes
        Number of passes over the list of sets, shuffled again for each.
    order
        "paper" is random. "bucketed" brings samples of a size together within a window of
        64 batches and shuffles the batches: less padding.

    Raises
    ------
    McvrpError
        If the sets are not in ascending order or too many, data is missing, or the phase has no whole batch.
    """

    counts: tuple[int, ...]
    smallest: int
    first: int
    last: int
    batch: int
    stream: tuple[str, ...]
    trunc_stream: tuple[str, ...] = ()
    trunc: int | None = None
    passes: int = 1
    order: Order = "paper"
    _sets: dict[int, NDArray[np.int64]] = field(default_factory=dict, init=False, repr=False)
    _windows: dict[int, Samples] = field(default_factory=dict, init=False, repr=False)
    _subsets: dict[int, NDArray[np.int64]] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        if not self.smallest <= self.first <= self.last:
            raise McvrpError(
                f"the sets go from first = {self.first} to last = {self.last}: choose them so that "
                f"{self.smallest} <= first <= last"
            )
        if len(self.counts) < self.last - self.smallest + 1:
            n = self.smallest + len(self.counts)
            raise McvrpError(f"there is no data of {n} customers: lower last, or make labels")
        sets = self.passes * (self.last - self.first + 1)
        if sets > _MOST_SETS:
            raise McvrpError(
                f"the phase goes through {sets:,} sets, {_MOST_SETS:,} are the most: "
                "lower its passes or its steps"
            )
        if self.steps < 1:
            raise McvrpError(
                f"the phase has {self.samples} samples, fewer than one batch of {self.batch}: "
                "lower the batch, or make more labels"
            )

    @cached_property
    def size_starts(self) -> NDArray[np.int64]:
        """The row at which each size starts in the largest set, and where the last ends, ``(sizes + 1,)``."""
        kept = [min(count, self.trunc or count) for count in self.counts[: self.last - self.smallest + 1]]
        return np.concatenate([[0], np.cumsum(kept)])

    @cached_property
    def set_starts(self) -> NDArray[np.int64]:
        """The sample at which each set starts, and where the last one ends, ``(passes * sets + 1,)``."""
        lengths = self.size_starts[self.first - self.smallest + 1 :]
        return np.concatenate([[0], np.cumsum(np.tile(lengths, self.passes))])

    @property
    def samples(self) -> int:
        """The number of samples of all sets and passes."""
        return int(self.set_starts[-1])

    @property
    def steps(self) -> int:
        """The number of whole batches of the phase."""
        return self.samples // self.batch

    def global_batch(self, step: int) -> Samples:
        """Return the samples of ``step`` in ``1..steps``."""
        if not 1 <= step <= self.steps:
            raise IndexError(f"step {step} of a phase of {self.steps}")
        k = step - 1
        if self.order == "paper":
            return self._at(np.arange(k * self.batch, step * self.batch))
        window, place = divmod(k, WINDOW)
        samples = _remembered(self._windows, window, lambda: self._window(window))
        here = slice(place * self.batch, (place + 1) * self.batch)
        return Samples(samples.sizes[here], samples.rows[here])

    def angles(self, step: int) -> NDArray[np.float32]:
        """Return the rotation of each sample of ``step``, radians in [0, 2 pi), ``(batch,)``."""
        uniforms = philox_uniforms(philox_key("rotation", *self.stream), (step, 0), self.batch)
        return (uniforms * 2 * np.pi).astype(np.float32)

    def shuffles(self, step: int, tokens: int) -> NDArray[np.float64]:
        """Return numbers in [0, 1) that order the routes of each sample of ``step``, ``(batch, tokens)``."""
        key = philox_key("shuffles", *self.stream)
        return philox_uniforms(key, (step, 0), self.batch * tokens).reshape(self.batch, tokens)

    def _window(self, window: int) -> Samples:
        """Return the samples of a window: batches of similar sizes, in random order."""
        first = window * WINDOW
        last = min(first + WINDOW, self.steps)
        samples = self._at(np.arange(first * self.batch, last * self.batch))
        by_size = np.argsort(samples.sizes, kind="stable").reshape(-1, self.batch)
        picks = by_size[philox_order(philox_key("window", *self.stream), (window, 0), len(by_size))].ravel()
        return Samples(samples.sizes[picks], samples.rows[picks])

    def _at(self, positions: NDArray[np.int64]) -> Samples:
        """Return the samples at ``positions`` of the random order."""
        sets = np.searchsorted(self.set_starts, positions, side="right") - 1
        numbers = np.empty_like(positions)  # within the largest set
        for number in np.unique(sets):
            here = sets == number
            numbers[here] = self._shuffled(int(number))[positions[here] - self.set_starts[number]]
        places = np.searchsorted(self.size_starts, numbers, side="right") - 1
        rows = numbers - self.size_starts[places]
        sizes = places + self.smallest
        if self.trunc is not None:
            for size in np.unique(sizes):
                here = sizes == size
                rows[here] = self.subset(int(size))[rows[here]]
        return Samples(sizes, rows)

    def subset(self, size: int) -> NDArray[np.int64]:
        """Return the rows of ``size`` that the phase uses, all rows unless ``trunc`` is set."""
        count = self.counts[size - self.smallest]
        if self.trunc is None or self.trunc >= count:
            return np.arange(count)
        key = philox_key("trunc", *(self.trunc_stream or self.stream))
        return _remembered(
            self._subsets, size, lambda: np.sort(philox_order(key, (size, 0), count)[: self.trunc]), keep=None
        )

    def _shuffled(self, number: int) -> NDArray[np.int64]:
        length = int(self.set_starts[number + 1] - self.set_starts[number])
        key = philox_key("order", *self.stream)
        return _remembered(self._sets, number, lambda: philox_order(key, (number, 0), length))


def _remembered(memory: dict[int, _T], key: int, make: Callable[[], _T], keep: int | None = 1) -> _T:
    """Return ``make()`` for ``key``, memoized for the last ``keep`` keys (None: for all)."""
    if key not in memory:
        while keep is not None and len(memory) >= keep:
            memory.pop(next(iter(memory)))  # a set of the paper takes 300 MB
        memory[key] = make()
    return memory[key]
