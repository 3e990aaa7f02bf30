"""The paper's four tables of results and its t-tests with our figures: same rows, columns and baselines.

Methods that the paper does not have follow at the end of each size. A method of the paper without results
keeps its row, and a note says why it is empty.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from io import StringIO
from typing import Any

import pandas as pd

from mcvrp.model.instances import Rules
from mcvrp.model.problem import City
from mcvrp.tasks.benchmark.methods import all_methods
from mcvrp.tasks.report.metrics import Blocks, Line, MethodRun, Percentiles, blocks_of, make_line, paired
from mcvrp.tasks.report.tables import Table, conditions, data_notes
from mcvrp.tasks.support.t_test import Statistics, paired_t_test

PAPER_METHODS = tuple(all_methods()[name].label for name in ("hgs", "lkh3", "am", "fm-gs", "fm-ns"))
HGS, LKH3, AM, GREEDY, SAMPLED = PAPER_METHODS
EQUAL_TIME = "(equal time)"  # suffix of the labels of methods with the same time limit
PAPER_TRAINED_UP_TO = 400  # customers (Sec. 5.1)
PAPER_SIZE = 400  # customers in the paper's tests (Appendix "Test Statistics")
_ONE_RUN = "a single run of HGS"
_UNKNOWN = "The solver of the model's labels is unknown; its settings may differ from those of the row HGS."
_ABBREVIATIONS = "N: customers; GS: greedy, NS: nucleus, VS: vanilla sampling"
PAPERS_HGS = (
    "The paper's HGS probably ran with 10,000 vehicles, as in its authors' public code, which makes it 2 to "
    "4 % worse from N = 100 on (benchmark.hgs_fleet = 10000)."
)
_PAPERS = (
    "In brackets or in a separate line: the paper's figures, measured on its own hardware and instances "
    f"(1,000 per size, 100 at N = 600 and 800). {PAPERS_HGS}"
)
PAPER_CUSTOMERS = 10_000  # addresses of the paper's city (Sec. 5.1)
_DIFFERENCES = {1: -1.05, 1000: 0.81}  # percent, of the model to HGS best of so many (Sec. 6.2 and 6.3, text)
_LARGEST_OF_MANY, _MANY, _FEW = 400, 1_000, 100  # customers; instances a size up to it, and beyond (Sec. 5.3)

TestFigures = dict[str, float]  # by column of published/tests.csv


@dataclass(frozen=True)
class Comparison:
    """A table of the paper."""

    name: str  # of the file, and of its figures in `published`
    caption: str
    baseline: str  # of gaps and wins
    methods: tuple[str, ...]  # rows at each number of samples, including the baseline
    equal_samples: bool = True  # as many runs of the baseline as samples, otherwise a single run
    larger: bool = False  # sizes larger than those in training, otherwise the others
    has_wins: bool = True

    def compared_with(self, method: str, samples: int) -> MethodRun:
        """Return the baseline of ``method`` with ``samples``, and its number of runs."""
        return self.baseline, samples if self.equal_samples and not method.endswith(EQUAL_TIME) else 1


COMPARISONS = (  # Tables 3 to 6
    Comparison(
        "training",
        f"FM-MCVRP against {_ONE_RUN}",
        HGS,
        (HGS, GREEDY, SAMPLED),
        equal_samples=False,
        has_wins=False,
    ),
    Comparison(
        "larger",
        "Sizes larger than in training: FM-MCVRP against HGS, at equal numbers of samples",
        HGS,
        (HGS, GREEDY, SAMPLED),
        larger=True,
    ),
    Comparison(
        "lkh3",
        "FM-MCVRP and HGS against LKH-3, at equal numbers of samples",
        LKH3,
        (LKH3, HGS, GREEDY, SAMPLED),
    ),
    Comparison(
        "am",
        "FM-MCVRP against the attention model (AM), at equal numbers of samples",
        AM,
        (AM, GREEDY, SAMPLED),
    ),
)


def paper_tables(
    results: pd.DataFrame,
    *,
    trained_up_to: int | None = None,
    labelled_by: Mapping[int, str] | None = None,
    is_papers_setting: bool = False,
    unit: str = "unit",
) -> tuple[Table, ...]:
    """Return the paper's four tables from ``results``.

    ``trained_up_to`` is the largest size in the model's training (default: the paper's 400), ``labelled_by``
    the configuration of the solver of its labels by size, None if unknown, and ``unit`` the city's unit of
    cost. The paper's figures are shown beside ours if city and orders are the paper's (`is_papers_setting`).
    """
    limit, blocks = trained_up_to or PAPER_TRAINED_UP_TO, blocks_of(results)
    first, *others = (_table(results, blocks, each, limit, is_papers_setting, unit) for each in COMPARISONS)
    return _with_labels(first, results, labelled_by or {}), *others


def _with_labels(table: Table, results: pd.DataFrame, labelled_by: Mapping[int, str]) -> Table:
    """Return the paper's first table, stating whether HGS is also the solver of the labels."""
    if not table.lines:
        return table
    sizes = {line.n for line in table.lines}
    runs = results[(results["method"] == HGS) & results["n"].isin(sizes)]
    rows = set(runs[["n", "configuration"]].itertuples(index=False, name=None))
    if rows and rows == {(n, labelled_by.get(n)) for n in sizes}:
        return replace(table, caption=f"FM-MCVRP against the solver of its labels: {_ONE_RUN}")
    made = "; ".join(dict.fromkeys(text for n, text in labelled_by.items() if n in sizes))
    note = f"The row HGS is not the solver of the model's labels, which are by {made}." if made else _UNKNOWN
    return replace(table, notes=(*table.notes, note))


def _table(
    results: pd.DataFrame,
    blocks: Blocks,
    comparison: Comparison,
    limit: int,
    is_papers_setting: bool,
    unit: str,
) -> Table:
    sizes = [n for n in sorted(results["n"].unique().tolist()) if (n > limit) == comparison.larger]
    theirs = published(comparison.name) if is_papers_setting else {}
    others = [method for method in results["method"].unique().tolist() if method not in PAPER_METHODS]
    lines = tuple(
        make_line(
            blocks,
            n,
            method,
            samples,
            comparison.compared_with(method, samples),
            theirs.get((n, method, samples)),
            is_beyond=method in others,
        )
        for n in sizes
        for method, samples in _rows([key[1:] for key in blocks if key[0] == n], comparison, others)
    )
    rows = results[results["n"].isin(sizes) & results["method"].isin([*comparison.methods, *others])]
    return Table(
        comparison.caption,
        lines,
        tuple(_notes(comparison, lines, others, limit, unit)),
        tuple(conditions(rows)) if lines else (),
        name=comparison.name,
        has_wins=comparison.has_wins,
        by_samples=comparison.equal_samples,
    )


def _notes(
    comparison: Comparison, lines: Sequence[Line], others: Sequence[str], limit: int, unit: str
) -> Iterator[str]:
    if not lines:
        which, change = ("more", "larger") if comparison.larger else ("no more", "smaller")
        yield (
            f"No rows: this benchmark has no size of {which} than {limit} customers, the largest in "
            f"training; add {change} sizes to benchmark.sizes."
        )
        return
    yield from data_notes(lines, unit)
    yield f"{_ABBREVIATIONS}."
    if any(line.published for line in lines):
        yield _PAPERS
    if others:
        yield f"Not in the paper: {', '.join(others)}."
    if comparison.equal_samples and any(method.endswith(EQUAL_TIME) for method in others):
        yield f"Gaps and wins of equal-time rows are relative to a single run of {comparison.baseline}."


def _rows(
    existing: Sequence[MethodRun], comparison: Comparison, others: Sequence[str]
) -> Iterator[MethodRun]:
    """Yield the rows of one size: the paper's, then all ``others`` among the ``existing`` results."""
    # the first table has a single run of the baseline only, so more runs of it add no rows
    deciding = comparison.methods if comparison.equal_samples else (SAMPLED,)
    counts = {samples for method, samples in existing if method in deciding}
    for samples in sorted({1, *counts}):
        for method in comparison.methods:
            single = method == GREEDY or (method == comparison.baseline and not comparison.equal_samples)
            if samples == 1 or not single:
                yield method, samples
    yield from ((method, samples) for method, samples in existing if method in others)


@dataclass(frozen=True)
class PairedTest:
    """Comparison of two methods on the instances of size ``n`` that both solved."""

    x: MethodRun
    y: MethodRun
    n: int
    statistics: Statistics | None  # None if there is nothing to test, for ``reason``
    reason: str | None = None
    paper: dict[str, float] | None = None  # comparable figures of the paper, by the names of `Statistics`


def compared_size(results: pd.DataFrame, trained_up_to: int) -> int:
    """Return the size of the paper's comparison of distributions: 400, or else the largest in training."""
    sizes = sorted(results["n"].unique().tolist())
    trained = [n for n in sizes if n <= trained_up_to]
    return PAPER_SIZE if PAPER_SIZE in trained else (trained or sizes)[-1]


def paper_tests(
    results: pd.DataFrame, trained_up_to: int, *, is_papers_setting: bool = False
) -> tuple[PairedTest, ...]:
    """Return the paper's two tests at the size of `compared_size`, none without samples of a model.

    The first compares the best of the model's samples with a single run of HGS, the second the best of as
    many runs of HGS with the best of the samples.
    """
    sampled = results.loc[results["method"] == SAMPLED, "samples"]
    if sampled.empty:
        return ()
    n, samples = compared_size(results, trained_up_to), int(sampled.max())
    pairs = ((SAMPLED, samples), (HGS, 1)), ((HGS, samples), (SAMPLED, samples))
    return tuple(_test(results, n, x, y, is_papers_setting) for x, y in pairs)


def _test(results: pd.DataFrame, n: int, x: MethodRun, y: MethodRun, is_papers_setting: bool) -> PairedTest:
    paper = published_tests().get((x, y)) if is_papers_setting and n == PAPER_SIZE else None
    ours, theirs = paired(results, n, x, y)
    if len(ours) >= 2:
        return PairedTest(x, y, n, paired_t_test(ours, theirs), paper=paper)
    solved = results[(results["n"] == n) & results["cost"].notna()]
    missing = [
        f"{method} with s = {s}"
        for method, s in (x, y)
        if not ((solved["method"] == method) & (solved["samples"] == s)).any()
    ]
    reason = f"no results of {' and '.join(missing)} yet" if missing else "fewer than two instances in common"
    return PairedTest(x, y, n, None, f"{reason} at N = {n}", paper)


def is_papers_setting(city: City, rules: Rules) -> bool:
    """Return whether costs on ``city`` with orders of ``rules`` are comparable with the paper's.

    That is for 10,000 addresses in the unit square, the depot in the centre, and the paper's demands and
    capacities (Sec. 5.1, Table 1). Uniformity of the addresses is not checked.
    """
    return (
        city.customers == PAPER_CUSTOMERS
        and city.matrix is None
        and (city.origin, city.scale, city.unit) == ((0.0, 0.0), 1.0, "unit")
        and city.xy[0].tolist() == [0.5, 0.5]
        and rules == Rules()
    )


@cache
def published(table: str) -> dict[tuple[int, str, int], Line]:
    """Return the figures of a table ("training", "larger", "lkh3" or "am") by (n, method, samples)."""
    lines = {}
    for row in _records("tables.csv"):
        if row["table"] == table:
            key = row["n"], row["method"], row["samples"]
            lines[key] = Line(
                *key,
                instances=_MANY if row["n"] <= _LARGEST_OF_MANY else _FEW,
                wins=None if pd.isna(row["wins"]) else int(row["wins"]),
                cost=_range(row, "cost"),
                gap=_range(row, "gap"),
                seconds=None if pd.isna(row["seconds"]) else row["seconds"],
            )
    return lines


@cache
def published_tests() -> dict[tuple[tuple[str, int], tuple[str, int]], TestFigures]:
    """Return the figures of Tables 7 and 8 by their methods ((x, samples), (y, samples))."""
    return {
        ((row.pop("x"), row.pop("x_samples")), (row.pop("y"), row.pop("y_samples"))): row
        for row in _records("tests.csv")
    }


def published_distances(base: tuple[str, int], other: tuple[str, int]) -> tuple[float, float, float] | None:
    """Return the paper's mean distances of ``base`` and ``other`` and their mean relative difference (%).

    It compares its model's best of 1,000 samples with one run of HGS and the best of 1,000, on 400 customers
    (Sec. 6.2 and 6.3; means from Tables 7 and 8); None for other methods.
    """
    for one, name in (((other, base), "xy"), ((base, other), "yx")):
        figures = published_tests().get(one)
        if figures:
            mean = {method: figures[f"{axis}_mean"] for method, axis in zip((other, base), name, strict=True)}
            return mean[base], mean[other], _DIFFERENCES[base[1]]
    return None


def _range(row: dict[str, Any], name: str) -> Percentiles | None:
    mean, low, high = (row[f"{name}_{part}"] for part in ("mean", "p10", "p90"))
    return None if pd.isna(mean) else Percentiles(mean, low, high)


def _records(name: str) -> list[dict[str, Any]]:
    text = (files(__package__) / "published" / name).read_text()
    rows: list[dict[Any, Any]] = pd.read_csv(StringIO(text), comment="#").to_dict("records")
    return rows
