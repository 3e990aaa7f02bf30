"""Block of a benchmark: a method's stored answers, and the parts that are still missing.

A part holds consecutive instances of one size. Its folder, the block, is named by a hash of everything that
determines the answers, the numbers of samples among it. More instances cost only what is new.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import groupby

from mcvrp.model.instances import Rules
from mcvrp.storage.benchmarks import PartRow, StoredPart, read_part
from mcvrp.storage.parallel import in_parallel
from mcvrp.storage.store.store import Store
from mcvrp.tasks.benchmark.methods import Method
from mcvrp.tasks.benchmark.part import Part
from mcvrp.tasks.benchmark.spec import BenchmarkSpec
from mcvrp.tasks.solvers.solver import Solver

_KEY_LENGTH = 16  # hexadecimal digits of the hash in a block's name


@dataclass(frozen=True)
class Identity:
    """Everything that determines a method's answers to the instances of one size, and nothing else."""

    city: str
    seed: int
    rules: tuple[tuple[int, int], tuple[int, int] | None]  # ranges of demand and capacity
    samples: tuple[int, ...]  # numbers of samples, of which each is timed
    settings: str = ""  # configuration and version of a program
    model: str = ""  # hash of a network's weights
    sampling: tuple[str | int | float | None, ...] | None = None  # decoding and post-optimization

    def block(self, method: str) -> str:
        """Return the folder name of the answers of ``method``."""
        document = json.dumps(asdict(self), sort_keys=True)
        return f"{method}-{hashlib.sha256(document.encode()).hexdigest()[:_KEY_LENGTH]}"


@dataclass
class Block:
    """One method of a benchmark: its instances, their stored answers and its failures."""

    store: Store
    spec: BenchmarkSpec
    name: str  # of the method in settings
    method: Method
    samples: tuple[int, ...]  # requested, ascending
    rules: Rules
    identities: Mapping[int, Identity]  # by size; a size without one has an entry in failures
    part_rows: int  # maximum number of instances per part
    program: Solver | None = None  # None if a network decodes
    failures: dict[int, str] = field(default_factory=dict)  # reason for missing answers by size
    _rows: dict[tuple[int, int], PartRow] = field(default_factory=dict)  # stored, by size and instance

    @property
    def label(self) -> str:
        """Name of the method in tables."""
        return self.method.label_in(self.spec)

    @property
    def instances(self) -> int:
        """Number of instances of the sizes that have not failed."""
        return sum(count for n, count in self.spec.counts.items() if n not in self.failures)

    def find(self, stored: Sequence[StoredPart]) -> None:
        """Read the parts of this method and these settings; McvrpError if one is corrupt."""
        self._rows = {}
        self.take(*filter(self._includes, stored))

    def take(self, *parts: Part | StoredPart) -> None:
        """Read the stored answers of ``parts``, in parallel."""
        for rows in in_parallel(lambda part: read_part(self.store, part.path), parts):
            for row in rows:
                self._rows.setdefault((row.n, row.index), row)

    def missing(self) -> Iterator[Part]:
        """Yield the missing parts, sizes ascending; a size that fails in the meantime ends."""
        for n, count in self.spec.counts.items():
            if n not in self.identities:
                continue
            known = [(n, index) in self._rows for index in range(count)]
            for is_known, group in groupby(range(count), key=known.__getitem__):
                indices = [] if is_known else list(group)
                for first in indices[:: self.part_rows]:
                    if n not in self.failures:
                        yield self._part(n, first, min(first + self.part_rows, indices[-1] + 1))

    def rows(self) -> Iterator[PartRow]:
        """Yield one row per instance: the requested numbers of samples, or the reason for no answer."""
        for n, count in self.spec.counts.items():
            for index in range(count):
                yield self._rows.get((n, index)) or self._without_answer(n, index)

    def _includes(self, part: StoredPart) -> bool:
        identity = self.identities.get(part.n)
        ours = identity is not None and part.block == identity.block(self.name)
        return ours and part.start < self.spec.counts[part.n]

    def _part(self, n: int, start: int, stop: int) -> Part:
        return Part(
            run=self.spec.run,
            block=self.identities[n].block(self.name),
            label=self.label,
            n=n,
            start=start,
            stop=stop,
            samples=self.samples,
            seed=self.spec.seed,
            rules=self.rules,
            together=not self.method.from_scratch,
            time_limit=self.spec.time_limit(self.name),
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
            seed=self.spec.seed,
            device="–",
            workers=1,
            machine="",
            version="",
            configuration="not run",
            failure=self.failures.get(n, "not solved"),
        )
