"""Samples that each step of a phase trains on, as a pure function of the step (Sec. 4.3 and 5.2, Table 2).

A phase runs through the sets Cr_first, ..., Cr_last, each once; Cr_i is the union of the data
of sizes smallest..i. Every set is shuffled whole, the last partial batch of a set is filled
from the next, and dropped at the end of the phase. Nothing here depends on ranks, or on what
came before: a run resumes at any step on any number of ranks without replay.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from mcvrp.model.errors import McvrpError
from mcvrp.model.random import philox_key, philox_order, philox_uniforms

Order = Literal["paper", "bucketed"]
WINDOW = 64  # batches whose samples are sorted by size together in the bucketed order


@dataclass(frozen=True)
class Samples:
    """Samples of the stream: sizes int64 ``(B,)`` and their rows in the data of that size ``(B,)``."""

    sizes: NDArray[np.int64]
    rows: NDArray[np.int64]

    def __getitem__(self, which: slice | NDArray[np.int64]) -> Samples:
        return Samples(self.sizes[which], self.rows[which])


@dataclass(frozen=True, eq=False)
class Curriculum:
    """The samples of one phase, in order: the sets Cr_first, Cr_first+1, ..., Cr_last.

    Parameters
    ----------
    counts
        Rows of data per size, ``counts[0]`` for size ``smallest``, up to at least size ``last``.
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
        If the phase has no whole batch.
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

    def __post_init__(self) -> None:
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
            return self.at(np.arange(k * self.batch, step * self.batch))
        window, place = divmod(k, WINDOW)
        return _window(self, window)[place * self.batch : (place + 1) * self.batch]

    def angles(self, step: int) -> NDArray[np.float32]:
        """Return the rotation of each sample of ``step``, radians in [0, 2 pi), ``(batch,)``."""
        uniforms = philox_uniforms(philox_key("rotation", *self.stream), (step, 0), self.batch)
        return (uniforms * 2 * np.pi).astype(np.float32)

    def shuffles(self, step: int, tokens: int) -> NDArray[np.float64]:
        """Return numbers in [0, 1) that order the routes of each sample of ``step``, ``(batch, tokens)``."""
        key = philox_key("shuffles", *self.stream)
        return philox_uniforms(key, (step, 0), self.batch * tokens).reshape(self.batch, tokens)

    def at(self, positions: NDArray[np.int64]) -> Samples:
        """Return the samples at ``positions`` of the random order."""
        key = philox_key("order", *self.stream)
        sets = np.searchsorted(self.set_starts, positions, side="right") - 1
        numbers = np.empty_like(positions)  # within the largest set
        for number in np.unique(sets).tolist():
            here = sets == number
            start, stop = self.set_starts[number : number + 2].tolist()
            numbers[here] = _set_order(key, number, stop - start)[positions[here] - start]
        places = np.searchsorted(self.size_starts, numbers, side="right") - 1
        rows = numbers - self.size_starts[places]
        sizes = places + self.smallest
        if self.trunc is not None:
            for size in np.unique(sizes).tolist():
                here = sizes == size
                rows[here] = self.subset(size)[rows[here]]
        return Samples(sizes, rows)

    def subset(self, size: int) -> NDArray[np.int64]:
        """Return the rows of ``size`` that the phase uses, all rows unless ``trunc`` is set."""
        count = self.counts[size - self.smallest]
        if self.trunc is None or self.trunc >= count:
            return np.arange(count)
        return _subset(philox_key("trunc", *(self.trunc_stream or self.stream)), size, count, self.trunc)


# Two: a policy-gradient phase alternates between its labels and the instances of its paths. As few as
# possible, because the largest set of the paper takes 300 MB.
@lru_cache(maxsize=2)
def _set_order(key: int, number: int, length: int) -> NDArray[np.int64]:
    return philox_order(key, (number, 0), length)


@lru_cache(maxsize=2)  # as above
def _window(phase: Curriculum, window: int) -> Samples:
    """Return the samples of a window: batches of similar sizes, in random order."""
    first = window * WINDOW
    last = min(first + WINDOW, phase.steps)
    samples = phase.at(np.arange(first * phase.batch, last * phase.batch))
    by_size = np.argsort(samples.sizes, kind="stable").reshape(-1, phase.batch)
    key = philox_key("window", *phase.stream)
    return samples[by_size[philox_order(key, (window, 0), len(by_size))].ravel()]


@cache  # "trunc" numbers per size
def _subset(key: int, size: int, count: int, trunc: int) -> NDArray[np.int64]:
    return np.sort(philox_order(key, (size, 0), count)[:trunc])
