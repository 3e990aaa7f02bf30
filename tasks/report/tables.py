"""Tables of a benchmark: per-instance results in, the columns of the paper's tables out (pandas).

How a table is written down is `tasks.report.formats`' business, which tables there are in the
paper that of `tasks.report.paper`.

Results are one row an instance, as `tasks.benchmark.run` stores them: method, n, index, samples,
cost (best of the samples), seconds, seed, device, workers, machine, other_cores, version,
configuration, failure. A cost that is missing has its reason in ``failure``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from mcvrp.model.problem import COST_TOLERANCE
from mcvrp.tasks.benchmark.methods import methods
from mcvrp.tasks.report.fairness import conditions, run_on
from mcvrp.tasks.support.text import unit_text

LOW, HIGH = 10, 90  # the 80 % inter-percentile range of the paper's tables
Blocks = Mapping[tuple[int, str, int], pd.DataFrame]  # results by size, method and number of samples
MethodRun = tuple[str, int]  # a method's label and its number of samples
DIVERGED = "diverged"  # stands in the failure of a model whose training did not converge


@dataclass(frozen=True)
class Percentiles:
    """Mean of some values and their 10th and 90th percentile."""

    mean: float
    low: float
    high: float

    @classmethod
    def of(cls, values: NDArray[np.float64]) -> Percentiles:
        """Return the figures of ``values`` ``(k,)``, k > 0; percentiles interpolate linearly."""
        low, high = np.percentile(values, [LOW, HIGH])
        return cls(float(np.mean(values)), float(low), float(high))


@dataclass(frozen=True)
class Published:
    """What the paper prints in a line: as in `Line`, None where it prints a dash or has no such column."""

    wins: int | None
    cost: Percentiles | None
    gap: Percentiles | None
    seconds: float | None


@dataclass(frozen=True)
class Line:
    """One method at one size and number of samples.

    ``cost``, ``gap`` (percent) and ``seconds`` are None where no instance was solved;
    ``gap`` is over the instances that the baseline solved too. ``wins`` counts instances on
    which the method is strictly better than the baseline, or which a baseline that diverged
    has no answer to. ``failure`` is the commonest reason among the ``failed``, or why there are
    no ``instances`` yet. ``published`` has the paper's figures where they are comparable;
    ``is_beyond`` marks a method that the paper does not have, in a table of the paper.
    """

    n: int
    method: str
    samples: int
    instances: int = 0
    failed: int = 0
    is_baseline: bool = False
    wins: int | None = None
    cost: Percentiles | None = None
    gap: Percentiles | None = None
    seconds: float | None = None
    run_on: str = "–"
    failure: str | None = None
    published: Published | None = None
    is_beyond: bool = False

    @property
    def name(self) -> str:
        """The method with its number of samples, as the paper writes it."""
        if self.method.endswith("(GS)"):
            return self.method
        if self.method.endswith(")"):
            return f"{self.method[:-1]}, s = {self.samples})"
        return f"{self.method} (s = {self.samples})"


@dataclass(frozen=True)
class Table:
    """Lines in the order of size, with a caption and notes below.

    ``conditions`` are the notes on how each method ran. ``name`` is a file's name without its
    ending. ``has_wins`` is whether there is a column of wins, ``by_samples`` whether lines of
    equal numbers of samples belong together.
    """

    caption: str
    lines: tuple[Line, ...]
    notes: tuple[str, ...]
    conditions: tuple[str, ...] = ()
    decimals: int = 2
    name: str = "table"
    has_wins: bool = True
    by_samples: bool = False


class Beginning(Enum):
    """What begins with a line of a table."""

    SIZE = "size"
    GROUP = "group"
    BEYOND = "beyond"
    NOTHING = ""


def beginnings(table: Table) -> list[Beginning]:
    """Return for each line what begins with it: a size, the methods beyond the paper, equal samples."""
    previous: Line | None = None
    found = []
    for line in table.lines:
        if previous is None or previous.n != line.n:
            start = Beginning.SIZE
        elif line.is_beyond:
            start = Beginning.NOTHING if previous.is_beyond else Beginning.BEYOND
        else:
            apart = table.by_samples and previous.samples != line.samples
            start = Beginning.GROUP if apart else Beginning.NOTHING
        found.append(start)
        previous = line
    return found


def method_name(method: MethodRun) -> str:
    """Return a method as legends name it: "HGS", "HGS, best of 4", "FM-MCVRP (NS), best of 1,000"."""
    label, samples = method
    return label if samples == 1 else f"{label}, best of {samples:,}"


def gaps(cost: NDArray[np.float64], base: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the gap of each instance to the baseline, ``100 (z - z_base) / z_base`` percent."""
    return 100 * (cost - base) / base


def wins(cost: NDArray[np.float64], base: NDArray[np.float64]) -> int:
    """Return how many instances cost less than the baseline, strictly: by more than 1e-9."""
    return int((cost < base - COST_TOLERANCE).sum())


def paired(
    results: pd.DataFrame, n: int | None, one: MethodRun, other: MethodRun
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return two methods' costs on the instances that both solved, ``(k,)`` each, in index order.

    ``n`` None takes every size.
    """
    rows = results if n is None else results[results["n"] == n]
    return matched(
        *(rows[(rows["method"] == method) & (rows["samples"] == samples)] for method, samples in (one, other))
    )


def matched(one: pd.DataFrame, other: pd.DataFrame) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the costs of two blocks of results on the instances that both solved, as `paired`."""
    ours, theirs = (rows.dropna(subset="cost")[["n", "index", "cost"]] for rows in (one, other))
    # the order decides the last digits of a mean
    both = ours.merge(theirs, on=["n", "index"], suffixes=("", "_other")).sort_values(["n", "index"])
    return both["cost"].to_numpy(np.float64), both["cost_other"].to_numpy(np.float64)


def baseline_of(results: pd.DataFrame) -> MethodRun:
    """Return what gaps are to: a run of HGS, or of PyVRP where HGS has no answer, as to asymmetric costs."""
    solved = results[results["cost"].notna() & (results["samples"] == 1)]
    has_answers = set(solved["method"])
    return ("PyVRP" if "HGS" not in has_answers and "PyVRP" in has_answers else "HGS"), 1


def blocks_of(results: pd.DataFrame) -> Blocks:
    """Return the results by size, method and number of samples, sizes ascending, else as they come."""
    names = ["n", "method", "samples"]
    ordered = results.sort_values("n", kind="stable")
    keys = ordered[names].drop_duplicates().itertuples(index=False, name=None)
    groups = ordered.groupby(names, sort=False)
    return {key: groups.get_group(key) for key in keys}


def make_table(
    results: pd.DataFrame,
    caption: str,
    *,
    baseline: str = "HGS",
    baseline_samples: int | None = 1,
    notes: Sequence[str] = (),
    unit: str = "unit",
) -> Table:
    """Return the table of ``results`` against ``baseline``.

    Parameters
    ----------
    results
        One row an instance, method and number of samples.
    baseline_samples
        The baseline's number of samples; None compares at equal numbers.
    notes
        What stands below the table, before what the data itself says (number of
        instances, configurations, failures).
    unit
        What a cost of 1 means, as `model.problem.City` has it.
    """
    blocks = blocks_of(results)
    lines = tuple(
        make_line(blocks, n, method, samples, (baseline, baseline_samples or samples))
        for n, method, samples in blocks
    )
    return Table(caption, lines, (*data_notes(lines, unit), *notes), tuple(conditions(results)))


def make_line(
    blocks: Blocks,
    n: int,
    method: str,
    samples: int,
    baseline: MethodRun,
    published: Published | None = None,
) -> Line:
    """Return the figures of ``method`` at size ``n`` against ``baseline`` (its label, its samples)."""
    block, is_baseline = blocks.get((n, method, samples)), (method, samples) == baseline
    if block is None:
        why = _not_yet(blocks, n, method, samples)
        return Line(n, method, samples, is_baseline=is_baseline, failure=why, published=published)
    other = blocks.get((n, *baseline))
    solved = block["cost"].dropna().to_numpy(np.float64)
    cost, base = (np.empty(0), np.empty(0)) if other is None else matched(block, other)
    won = None if is_baseline or not len(cost) else wins(cost, base)
    if len(solved) and other is not None and _diverged(other):
        won = len(solved)
    reasons = block["failure"].dropna()
    reason = str(reasons.mode().iloc[0]) if len(reasons) else None
    seconds = float(block.loc[block["cost"].notna(), "seconds"].mean()) if len(solved) else None
    return Line(
        n=n,
        method=method,
        samples=samples,
        instances=len(block),
        failed=len(block) - len(solved),
        is_baseline=is_baseline,
        wins=won,
        cost=Percentiles.of(solved) if len(solved) else None,
        gap=Percentiles.of(gaps(cost, base)) if len(cost) else None,
        seconds=seconds,
        run_on=run_on(block, seconds),
        failure=reason,
        published=published,
    )


def _not_yet(blocks: Blocks, n: int, method: str, samples: int) -> str:
    """Return why there are no results of ``method`` at ``n`` and ``samples``, in a few words."""
    sizes = {size for size, label, _ in blocks if label == method}
    if not sizes:
        name = next((name for name, entry in methods().items() if entry.label == method), None)
        hint = f": add {name} to benchmark.methods" if name else ""
        return f"not among the methods of this benchmark{hint}"
    return f"not run with s = {samples} yet" if n in sizes else f"not run yet on {n} customers"


def _diverged(rows: pd.DataFrame) -> bool:
    failures = rows["failure"].dropna()
    return len(failures) == len(rows) and any(DIVERGED in str(failure) for failure in failures)


def data_notes(lines: Sequence[Line], unit: str) -> Iterator[str]:
    """Yield what the lines themselves have to say: instances, columns, and who has no answer to what.

    ``unit`` is what a cost of 1 means, as `model.problem.City` has it.
    """
    counts: dict[int, int] = {}
    for line in lines:
        counts[line.n] = max(counts.get(line.n, 0), line.instances)
    if len(set(counts.values())) == 1:
        yield f"Means over {next(iter(counts.values())):,} held-out instances of each size."
    elif counts:
        sizes = ", ".join(f"{count:,} (N = {n})" for n, count in counts.items())
        yield f"Means over held-out instances: {sizes}."
    yield (
        f"Obj.: travel cost in {unit_text(unit)}; 80 %: 10th to 90th percentile; "
        "gap: mean of each instance's gap to the baseline; "
        "wins: instances strictly better than the baseline; s: number of samples or runs, the best counts."
    )
    yield (
        "Time: wall-clock per instance as run, on what the last column says; instances decoded together "
        "share it evenly, of the runs of a heuristic it is what had passed after so many."
    )
    for line in lines:
        if line.failed and line.cost:
            yield (
                f"{line.name}, N = {line.n}: no answer on {line.failed} of {line.instances} instances "
                f"({line.failure}); its figures leave them out."
            )
        if 0 < line.instances < counts[line.n]:
            yield f"{line.name}, N = {line.n}: {line.instances:,} of {counts[line.n]:,} instances so far."
    yield from _without_figures(lines)


def _without_figures(lines: Sequence[Line]) -> Iterator[str]:
    """Yield a note a reason: of a whole method, or of some of its lines, and at which sizes if not at all."""
    found: dict[tuple[str, str | None], list[Line]] = {}
    for line in lines:
        if line.cost is None:
            found.setdefault((line.method, line.failure), []).append(line)
    every = {line.n for line in lines}
    for (method, failure), those in found.items():
        sizes = {line.n for line in those}
        where = "" if sizes == every else f" at N = {', '.join(map(str, sorted(sizes)))}"
        whole = len(those) == sum(line.method == method and line.n in sizes for line in lines)
        subject = method if whole else ", ".join(dict.fromkeys(line.name for line in those))
        verb = "has" if whole or len({line.name for line in those}) == 1 else "have"
        yield f"{subject} {verb} no figures{where}: {failure}."
