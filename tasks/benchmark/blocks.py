"""Blocks of a benchmark: the answers of a method that are stored, and the parts that are missing.

A part holds consecutive instances of one size. Its folder, a block, is named by a hash of everything
that decides the answers, and by another of the numbers of samples in it. So blocks that differ in those
numbers alone are recognised, and another number of samples, like more instances, costs only what is new.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field

from mcvrp.model.instances import Rules
from mcvrp.storage.benchmarks import PartRow, StoredPart, read_part
from mcvrp.storage.store.store import Store
from mcvrp.tasks.benchmark.part import Part
from mcvrp.tasks.benchmark.rows import Piece, grown_row, measured_row
from mcvrp.tasks.solvers.solver import Solver

_KEY_LENGTH = 10  # hexadecimal digits of each hash in a block's name


@dataclass(frozen=True)
class Identity:
    """Settings that decide a method's answers to the instances of one size, and nothing else.

    Parameters
    ----------
    city, seed, rules
        Which instances; ranges of demand and capacity.
    settings
        A program's configuration and version.
    model
        Hash of a network's weights.
    sampling
        How the network is decoded, and what is done with its samples.
    """

    city: str
    seed: int
    rules: tuple[tuple[int, int], tuple[int, int] | None]
    settings: str = ""
    model: str = ""
    sampling: tuple[str | int | float | None, ...] | None = None

    def prefix(self, method: str) -> str:
        """Return the beginning of the names of all folders with answers of ``method`` to these settings."""
        return f"{method}-{_key(asdict(self))}-"

    def block(self, method: str, samples: Sequence[int], after: int = 0) -> str:
        """Return the folder of answers with these numbers of samples, those ``after`` which it begins."""
        return f"{self.prefix(method)}{_key(list(samples))}" + (f"-after-{after}" if after else "")


@dataclass(frozen=True)
class _Missing:
    """Numbers of samples of an instance that are nowhere, the first samples being there already."""

    samples: tuple[int, ...]
    after: int = 0


@dataclass
class Block:
    """One method: its instances, what of them is stored, and why some have no answer.

    Parameters
    ----------
    store, run
        Where the parts are.
    method, label
        Its name, and that in tables.
    samples
        The numbers of samples asked for, ascending.
    seed, rules
        Of the instances, and of everything random.
    counts
        Instances of each size.
    identities
        Of each size; a size without one has an entry in ``failures``.
    part_rows
        Most instances in a part, for so many samples of each.
    grows
        Whether sample k is a run of its own with a seed of its own, so that more samples go on
        where fewer stopped, and all are timed; else each number of samples is solved and timed alone.
    program
        What solves it, where that is no network.
    failures
        Why there are no answers, by size.
    """

    store: Store
    run: str
    method: str
    label: str
    samples: tuple[int, ...]
    seed: int
    rules: Rules
    counts: Mapping[int, int]
    identities: Mapping[int, Identity]
    part_rows: Callable[[int], int]
    grows: bool
    program: Solver | None = None
    failures: dict[int, str] = field(default_factory=dict)
    _pieces: dict[int, dict[int, list[Piece]]] = field(default_factory=dict)  # by size and instance

    @property
    def instances(self) -> int:
        """Number of instances of the sizes that have or can have answers."""
        return sum(count for n, count in self.counts.items() if n not in self.failures)

    @property
    def prefixes(self) -> set[str]:
        """Beginnings of the names of all blocks with these settings, of any of the method if it has none."""
        ours = {identity.prefix(self.method) for identity in self.identities.values()}
        return ours or {f"{self.method}-"}

    def find(self, stored: Sequence[StoredPart]) -> None:
        """Read the answers among ``stored`` that are this method's with these settings.

        Raises
        ------
        McvrpError
            If a part of them is corrupt.
        """
        self._pieces = {n: {} for n in self.counts}
        for part in stored:
            identity = self.identities.get(part.n)
            ours = identity is not None and part.block.startswith(identity.prefix(self.method))
            if ours and part.start < self.counts[part.n]:
                self._take(part)

    def missing(self) -> Iterator[Part]:
        """Yield what is to be solved, sizes ascending; a size that has failed meanwhile ends."""
        for n, count in self.counts.items():
            lacking = [self._lacking(n, index) for index in range(count)] if n in self.identities else []
            start = 0
            for stop in range(1, len(lacking) + 1):
                if stop < len(lacking) and lacking[stop] == lacking[start]:
                    continue
                if gap := lacking[start]:
                    yield from self._parts(n, start, stop, gap)
                start = stop

    def rows(self) -> Iterator[PartRow]:
        """Yield an answer an instance, with the numbers of samples asked for, or a row that says why not."""
        for n, count in self.counts.items():
            for index in range(count):
                pieces = self._covering(n, index)
                if n not in self.identities or self._lacking(n, index):
                    yield self._without_answer(n, index)
                elif self.grows:
                    yield grown_row(pieces, self.samples)
                else:
                    yield measured_row(pieces, self.samples)

    def take(self, part: Part) -> None:
        """Read what has been stored of ``part``."""
        self._take(StoredPart(part.path, part.block, part.n, part.start, part.stop))

    def _take(self, part: StoredPart) -> None:
        after = _after(part.block)
        for row in read_part(self.store, part.path):
            self._pieces[part.n].setdefault(row.index, []).append(Piece(after, row))

    def _covering(self, n: int, index: int) -> list[Piece]:
        """Return the pieces that answer instance (n, index), in the order in which they are put together."""
        pieces = self._pieces.get(n, {}).get(index, [])
        if not self.grows:
            found = [_with(pieces, samples) for samples in self.samples]
            return [piece for piece in found if piece]
        chain: list[Piece] = []
        reached = 0
        while reached < self.samples[-1]:
            following = [piece for piece in pieces if piece.after == reached]
            if not following:
                break
            chain.append(max(following, key=lambda piece: piece.row.samples[-1]))
            reached = chain[-1].row.samples[-1]
        return chain

    def _lacking(self, n: int, index: int) -> _Missing | None:
        pieces = self._covering(n, index)
        if self.grows:
            after = pieces[-1].row.samples[-1] if pieces else 0
            missing = tuple(samples for samples in self.samples if samples > after)
        else:
            there = {samples for piece in pieces for samples in piece.row.samples}
            after, missing = 0, tuple(samples for samples in self.samples if samples not in there)
        return _Missing(missing, after) if missing else None

    def _parts(self, n: int, start: int, stop: int, gap: _Missing) -> Iterator[Part]:
        rows = self.part_rows(gap.samples[-1] - gap.after)
        for first in range(start, stop, rows):
            if n in self.failures:
                return
            yield Part(
                run=self.run,
                block=self.identities[n].block(self.method, gap.samples, gap.after),
                label=self.label,
                n=n,
                start=first,
                stop=min(first + rows, stop),
                samples=gap.samples,
                seed=self.seed,
                rules=self.rules,
                after=gap.after,
                together=not self.grows,
            )

    def _without_answer(self, n: int, index: int) -> PartRow:
        return PartRow(
            method=self.label,
            n=n,
            index=index,
            samples=self.samples,
            seconds=(0.0,) * len(self.samples),
            costs=(),
            routes=None,
            seed=self.seed,
            device="–",
            workers=1,
            machine="",
            version="",
            configuration="not run",
            failure=self.failures.get(n, "not solved"),
        )


def _key(document: object) -> str:
    return hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()[:_KEY_LENGTH]


def _after(block: str) -> int:
    """Return the number of samples after which a block begins, from its name."""
    _, separator, count = block.rpartition("-after-")
    return int(count) if separator and count.isdecimal() else 0


def _with(pieces: Sequence[Piece], samples: int) -> Piece | None:
    return next((piece for piece in pieces if samples in piece.row.samples), None)
