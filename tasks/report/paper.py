"""The paper's four tables of results and its t-tests, with our figures: same rows, columns and baselines.

Methods that the paper does not have follow at the end of each size. A method of the paper without answers has
no row, but a note with the reason; a table without a gap or a win is left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import pandas as pd

from mcvrp.tasks.benchmark.methods import all_methods
from mcvrp.tasks.report.metrics import TIMED, Blocks, MethodRun, blocks_of, paired, run_name
from mcvrp.tasks.report.tables import WINS, Table, cells_of, data_notes, numbers_of
from mcvrp.tasks.support.t_test import paired_t_test

PAPER_METHODS = tuple(all_methods()[name].label for name in ("hgs", "lkh3", "am", "fm-gs", "fm-ns"))
HGS, LKH3, AM, GREEDY, SAMPLED = PAPER_METHODS
BEAM = all_methods()["fm-bs"].label
PAPER_TRAINED_UP_TO = 400  # customers (Sec. 5.1)
PAPER_SIZE = 400  # customers in the paper's tests (Appendix "Test Statistics")
SIGNIFICANCE = "significance"  # name of the table of tests
_STATISTICS = {  # rows of the paper's Tables 7 and 8: fields of `Statistics`
    "x_mean": "mean of X",
    "y_mean": "mean of Y",
    "x_std": "std of X",
    "y_std": "std of Y",
    "t": "t",
    "p": "p",
    "degrees": "degrees of freedom",
    "ci_low": "95 % CI of the mean of X - Y, from",
    "ci_high": "to",
}


@dataclass(frozen=True)
class Comparison:
    """A table of the paper."""

    name: str  # of its files
    caption: str
    baseline: str  # of gaps and wins
    methods: tuple[str, ...]  # rows at each number of samples, including the baseline
    equal_samples: bool = True  # as many runs of the baseline as samples, otherwise a single run
    larger: bool = False  # sizes larger than those in training, otherwise the others
    has_wins: bool = True

    def compared_with(self, method: str, samples: int) -> MethodRun:
        """Return the baseline of ``method`` with ``samples``, and its number of runs."""
        return self.baseline, samples if self.equal_samples and not _runs_once(method) else 1


def _runs_once(method: str) -> bool:  # a beam's width is no number of samples
    return method == BEAM or bool(TIMED.search(method))


_EQUAL = "at equal numbers of samples"
COMPARISONS = (  # Tables 3 to 6
    Comparison(
        "training",
        "FM-MCVRP against a single run of HGS",
        HGS,
        (HGS, GREEDY, SAMPLED),
        equal_samples=False,
        has_wins=False,
    ),
    Comparison(
        "larger",
        f"Sizes larger than in training: FM-MCVRP against HGS, {_EQUAL}",
        HGS,
        (HGS, GREEDY, SAMPLED),
        larger=True,
    ),
    Comparison("lkh3", f"FM-MCVRP and HGS against LKH-3, {_EQUAL}", LKH3, (LKH3, HGS, GREEDY, SAMPLED)),
    Comparison("am", f"FM-MCVRP against the attention model (AM), {_EQUAL}", AM, (AM, GREEDY, SAMPLED)),
)


def paper_tables(
    results: pd.DataFrame, trained_up_to: int | None = None, unit: str = "unit"
) -> tuple[Table, ...]:
    """Return those of the paper's four tables that have figures, and that of its tests, from ``results``.

    ``trained_up_to`` is the largest size in the model's training (default: the paper's 400) and ``unit`` the
    city's unit of cost. The tests are left out without samples of a model.
    """
    limit, blocks = trained_up_to or PAPER_TRAINED_UP_TO, blocks_of(results)
    tables = [_table(results, blocks, each, limit, unit) for each in COMPARISONS]
    tests = significance(results, limit)
    return (*filter(_compares, tables), *([tests] if tests else []))


def _compares(table: Table) -> bool:
    names = [run_name(run) for run in zip(table.numbers["method"], table.numbers["samples"], strict=True)]
    others = table.numbers[table.numbers["baseline"] != names]
    return bool(others[["gap_mean", "wins"]].notna().any(axis=None))


def _table(results: pd.DataFrame, blocks: Blocks, comparison: Comparison, limit: int, unit: str) -> Table:
    sizes = [n for n in sorted(results["n"].unique().tolist()) if (n > limit) == comparison.larger]
    others = [method for method in results["method"].unique().tolist() if method not in PAPER_METHODS]
    lines = [
        (n, (method, samples), comparison.compared_with(method, samples))
        for n in sizes
        for method, samples in _rows([key[1:] for key in blocks if key[0] == n], comparison, others)
    ]
    numbers = numbers_of(blocks, lines)
    cells = cells_of(numbers)
    return Table(
        comparison.name,
        comparison.caption,
        numbers,
        cells if comparison.has_wins else cells.drop(columns=WINS),
        list(_notes(comparison, numbers, others, unit)),
    )


def _notes(comparison: Comparison, numbers: pd.DataFrame, others: Sequence[str], unit: str) -> Iterator[str]:
    yield from data_notes(numbers, unit)
    if others:
        yield f"Not in the paper: {', '.join(others)}."
    if comparison.equal_samples and any(map(_runs_once, others)):
        rows = "beams and of rows with a time limit"
        yield f"Gaps and wins of {rows} are to a single run of {comparison.baseline}."


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


def compared_size(results: pd.DataFrame, trained_up_to: int) -> int:
    """Return the size of the paper's comparison of distributions: 400, or else the largest in training."""
    sizes = sorted(results["n"].unique().tolist())
    trained = [n for n in sizes if n <= trained_up_to]
    return PAPER_SIZE if PAPER_SIZE in trained else (trained or sizes)[-1]


def significance(results: pd.DataFrame, trained_up_to: int) -> Table | None:
    """Return the paper's two tests at the size of `compared_size`, None if neither has pairs.

    The first compares the best of the model's samples with a single run of HGS, the second the best of as
    many runs of HGS with the best of the samples. The numbers have one row per test, the cells a column; a
    test without pairs has a note instead.
    """
    sampled = results.loc[results["method"] == SAMPLED, "samples"]
    if sampled.empty:
        return None
    n, samples = compared_size(results, trained_up_to), int(sampled.max())
    rows, cells = list[dict[str, Any]](), {"": ["Customers", *_STATISTICS.values()]}
    notes = ["Paired by instance; std with n - 1; the interval is two-sided."]
    for x, y in (((SAMPLED, samples), (HGS, 1)), ((HGS, samples), (SAMPLED, samples))):
        ours, theirs = paired(results, n, x, y)
        if len(ours) < 2:
            both = f"{run_name(x)} and {run_name(y)}"
            notes.append(f"{both} have solved fewer than two instances of {n} customers in common.")
            continue
        figures = asdict(paired_t_test(ours, theirs))
        rows.append({"n": n, "x": x[0], "x_samples": x[1], "y": y[0], "y_samples": y[1], **figures})
        cells[f"X: {run_name(x)}; Y: {run_name(y)}"] = [str(n), *map(_figure, figures, figures.values())]
    if not rows:
        return None
    caption = "One-sided paired t-tests of H1: the mean cost of X is below that of Y"
    return Table(SIGNIFICANCE, caption, pd.DataFrame(rows), pd.DataFrame(cells), notes)


def _figure(name: str, value: float) -> str:
    """Return a figure of a test with two decimals, a small one with two digits, a count as it is."""
    if name == "p":
        return f"{value:.2g}" if value else "< 1e-300"
    return str(value) if name == "degrees" else f"{value:.2f}" if abs(value) >= 0.1 else f"{value:.2g}"
