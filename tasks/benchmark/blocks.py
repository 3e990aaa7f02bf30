"""Block of a benchmark: a method's stored answers, and the parts that are still missing.

A part holds consecutive instances of one size. Its folder, the block, is named by two hashes: one of
everything that determines the answers, one of the numbers of samples. Blocks that differ in the second only
are reused, so more samples, like more instances, cost only what is new.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import groupby

import numpy as np

from mcvrp.model.instances import Rules
from mcvrp.storage.benchmarks import PartRow, Routes, StoredPart, read_part
from mcvrp.storage.parallel import in_parallel
from mcvrp.storage.store.store import Store
from mcvrp.tasks.benchmark.methods import Method
from mcvrp.tasks.benchmark.part import Part
from mcvrp.tasks.benchmark.spec import BenchmarkSpec
from mcvrp.tasks.solvers.solver import Solver

_KEY_LENGTH = 10  # hexadecimal digits of each hash in a block's name


@dataclass(frozen=True)
class Identity:
    """Everything that determines a method's answers to the instances of one size, and nothing else."""

    city: str
    seed: int
    rules: tuple[tuple[int, int], tuple[int, int] | None]  # ranges of demand and capacity
    settings: str = ""  # configuration and version of a program
    model: str = ""  # hash of a network's weights
    sampling: tuple[str | int | float | None, ...] | None = None  # decoding and post-optimization

    def prefix(self, method: str) -> str:
        """Return the common prefix of all folders with answers of ``method`` under these settings."""
        return f"{method}-{_key(asdict(self))}-"

    def block(self, method: str, samples: Sequence[int], after: int = 0) -> str:
        """Return the folder name of answers with these numbers of samples, the first ``after`` excluded."""
        return f"{self.prefix(method)}{_key(list(samples))}" + (f"-after-{after}" if after else "")


@dataclass(frozen=True)
class _Piece:
    """Row of a stored part: the samples of one instance that follow the first ``after``."""

    after: int
    row: PartRow


_Missing = tuple[tuple[int, ...], int]  # numbers of samples that are missing, and the stored ones before them


@dataclass
class Block:
    """One method of a benchmark: its instances, their stored answers and its failures.

    If the method grows, sample k is a run with its own seed: more samples extend fewer, and all of them
    are timed. Otherwise each number of samples is solved and timed separately.
    """

    store: Store
    spec: BenchmarkSpec
    name: str  # of the method in settings
    method: Method
    samples: tuple[int, ...]  # requested, ascending
    rules: Rules
    identities: Mapping[int, Identity]  # by size; a size without one has an entry in failures
    part_rows: Callable[[int], int]  # maximum number of instances per part, given the samples of each
    program: Solver | None = None  # None if a network decodes
    failures: dict[int, str] = field(default_factory=dict)  # reason for missing answers by size
    _pieces: dict[int, dict[int, list[_Piece]]] = field(default_factory=dict)  # by size and instance

    @property
    def instances(self) -> int:
        """Number of instances of the sizes that have not failed."""
        return sum(count for n, count in self.spec.counts.items() if n not in self.failures)

    def find(self, stored: Sequence[StoredPart]) -> None:
        """Read the parts of this method and these settings; McvrpError if one is corrupt."""
        self._pieces = {n: {} for n in self.spec.counts}
        self.take(*filter(self._includes, stored))

    def take(self, *parts: Part | StoredPart) -> None:
        """Read the stored answers of ``parts``, in parallel."""
        read = in_parallel(lambda part: read_part(self.store, part.path), parts)
        for part, rows in zip(parts, read, strict=True):
            _, _, digits = part.block.rpartition("-after-")
            after = int(digits) if digits.isdecimal() else 0  # samples that precede those of the block
            for row in rows:
                self._pieces[part.n].setdefault(row.index, []).append(_Piece(after, row))

    def missing(self) -> Iterator[Part]:
        """Yield the missing parts, sizes ascending; a size that fails in the meantime ends."""
        for n, count in self.spec.counts.items():
            lacking = [self._lacking(n, index) for index in range(count)] if n in self.identities else []
            for missing, group in groupby(enumerate(lacking), key=lambda pair: pair[1]):
                indices = [index for index, _ in group]
                if missing[0]:
                    yield from self._parts(n, indices[0], indices[-1] + 1, missing)

    def rows(self) -> Iterator[PartRow]:
        """Yield one row per instance: the requested numbers of samples, or the reason for no answer."""
        for n, count in self.spec.counts.items():
            for index in range(count):
                pieces = self._covering(n, index)
                if n not in self.identities or self._lacking(n, index)[0]:
                    yield self._without_answer(n, index)
                elif self.method.grows:
                    yield _grown_row(pieces, self.samples)
                else:
                    yield _measured_row(pieces, self.samples)

    def _includes(self, part: StoredPart) -> bool:
        identity = self.identities.get(part.n)
        ours = identity is not None and part.block.startswith(identity.prefix(self.name))
        return ours and part.start < self.spec.counts[part.n]

    def _covering(self, n: int, index: int) -> list[_Piece]:
        """Return the pieces that make up the answer to instance (n, index), in order."""
        pieces = self._pieces.get(n, {}).get(index, [])
        if not self.method.grows:
            first = (next((p for p in pieces if samples in p.row.samples), None) for samples in self.samples)
            return [piece for piece in first if piece]
        chain: list[_Piece] = []
        end = 0
        while end < self.samples[-1]:
            following = [piece for piece in pieces if piece.after == end]
            if not following:
                break
            chain.append(max(following, key=lambda piece: piece.row.samples[-1]))
            end = chain[-1].row.samples[-1]
        return chain

    def _lacking(self, n: int, index: int) -> _Missing:
        pieces = self._covering(n, index)
        if self.method.grows:
            after = pieces[-1].row.samples[-1] if pieces else 0
            return tuple(samples for samples in self.samples if samples > after), after
        stored = {samples for piece in pieces for samples in piece.row.samples}
        return tuple(samples for samples in self.samples if samples not in stored), 0

    def _parts(self, n: int, start: int, stop: int, missing: _Missing) -> Iterator[Part]:
        samples, after = missing
        rows = self.part_rows(samples[-1] - after)
        for first in range(start, stop, rows):
            if n in self.failures:
                return
            yield Part(
                run=self.spec.run,
                block=self.identities[n].block(self.name, samples, after),
                label=self.method.label,
                n=n,
                start=first,
                stop=min(first + rows, stop),
                samples=samples,
                seed=self.spec.seed,
                rules=self.rules,
                after=after,
                together=not self.method.grows,
            )

    def _without_answer(self, n: int, index: int) -> PartRow:
        return PartRow(
            method=self.method.label,
            n=n,
            index=index,
            samples=self.samples,
            seconds=(0.0,) * len(self.samples),
            costs=(),
            routes=None,
            seed=self.spec.seed,
            device="–",
            workers=1,
            machine="",
            version="",
            configuration="not run",
            failure=self.failures.get(n, "not solved"),
        )


def _key(document: object) -> str:
    return hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()[:_KEY_LENGTH]


def _measured_row(pieces: Sequence[_Piece], samples: tuple[int, ...]) -> PartRow:
    """Return the row of ``samples`` from one piece for each, all solved and timed separately.

    Costs are those of the largest number; the others are prefixes. If that was stored as part of a larger
    number, its routes are known only if its best solution is the best of all.
    """
    seconds = [
        piece.row.seconds[piece.row.samples.index(count)]
        for piece, count in zip(pieces, samples, strict=True)
    ]
    row = pieces[-1].row
    return replace(
        row,
        samples=samples,
        seconds=tuple(seconds),
        costs=row.costs[: samples[-1]],
        routes=_routes(row, samples[-1]),
        other_cores=_busiest(pieces),
    )


def _grown_row(pieces: Sequence[_Piece], samples: tuple[int, ...]) -> PartRow:
    """Return the row of ``samples`` from consecutive ``pieces``.

    Times add up. At a number of samples that was not measured, the time is interpolated between its
    neighbours.
    """
    counts, seconds = [0], [0.0]
    costs: list[float] = []
    for piece in pieces:
        row, before = piece.row, seconds[-1]
        counts += row.samples
        seconds += [before + each for each in row.seconds]
        costs += row.costs or (float("inf"),) * (row.samples[-1] - piece.after)
    best = int(np.argmin(costs[: samples[-1]]))
    holder = next(piece for piece in pieces if piece.row.samples[-1] > best)
    last = pieces[-1].row
    solved = costs[best] < float("inf")
    return replace(
        last,
        samples=samples,
        seconds=tuple(np.interp(samples, counts, seconds).tolist()),
        costs=tuple(costs[: samples[-1]]) if solved else (),
        routes=_routes(holder.row, samples[-1] - holder.after) if solved else None,
        workers=max(piece.row.workers for piece in pieces),
        failure=None if solved else last.failure,
        other_cores=_busiest(pieces),
    )


def _routes(row: PartRow, samples: int) -> Routes | None:
    """Return the stored solution if it is among the first ``samples``."""
    return row.routes if row.costs and int(np.argmin(row.costs)) < samples else None


def _busiest(pieces: Sequence[_Piece]) -> float | None:
    recorded = [piece.row.other_cores for piece in pieces if piece.row.other_cores is not None]
    return max(recorded, default=None)
