"""The paper's four tables of results and its t-tests, with our figures: same rows, columns and baselines.

Methods that the paper does not have follow at the end of each size. A table without a comparison is left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import pandas as pd

from mcvrp.tasks.benchmark.methods import all_methods
from mcvrp.tasks.report.metrics import TIMED, Blocks, MethodRun, blocks_of, paired, run_name
from mcvrp.tasks.report.tables import Table, cells_of, data_notes, numbers_of
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

    def compared_with(self, method: str, samples: int) -> MethodRun:
        """Return the baseline of ``method`` with ``samples``, and its number of runs."""
        once = method == BEAM or bool(TIMED.search(method))  # a beam's width is no number of samples
        return self.baseline, samples if self.equal_samples and not once else 1


_EQUAL = "at equal numbers of samples; beams and time limits: a single run"
COMPARISONS = (  # Tables 3 to 6
    Comparison(
        "training",
        "FM-MCVRP against a single run of HGS",
        HGS,
        (HGS, GREEDY, SAMPLED),
        equal_samples=False,
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
    """Return those of the paper's four tables that compare anything, and that of its tests.

    ``trained_up_to`` is the largest size in the model's training (default: the paper's 400) and ``unit`` the
    city's unit of cost. The tests are left out without samples of a model.
    """
    limit, blocks = trained_up_to or PAPER_TRAINED_UP_TO, blocks_of(results)
    tables = [_table(blocks, each, limit, unit) for each in COMPARISONS]
    tests = significance(results, limit)
    return (*(table for table in tables if table.numbers["wins"].notna().any()), *([tests] if tests else []))


def _table(blocks: Blocks, comparison: Comparison, limit: int, unit: str) -> Table:
    lines = [
        (n, run, comparison.compared_with(*run))
        for n in dict.fromkeys(n for n, *_ in blocks)
        if (n > limit) == comparison.larger
        for run in _rows([(method, samples) for size, method, samples in blocks if size == n], comparison)
    ]
    numbers = numbers_of(blocks, lines)
    notes = list(data_notes(numbers, unit))
    return Table(comparison.name, comparison.caption, numbers, cells_of(numbers), notes)


def _rows(existing: Sequence[MethodRun], comparison: Comparison) -> Iterator[MethodRun]:
    """Yield the rows of one size: the paper's, by samples, then the ``existing`` that it does not have."""
    for count in sorted({samples for _, samples in existing}):
        for method in comparison.methods:
            further = method == comparison.baseline and not comparison.equal_samples and count > 1
            if (method, count) in existing and not further:
                yield method, count
    yield from ((method, samples) for method, samples in existing if method not in PAPER_METHODS)


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
            continue
        figures = asdict(paired_t_test(ours, theirs))
        rows.append({"n": n, "x": x[0], "x_samples": x[1], "y": y[0], "y_samples": y[1], **figures})
        cells[f"X: {run_name(x)}; Y: {run_name(y)}"] = [
            str(n),
            *(f"{value:,.6g}" for value in figures.values()),
        ]
    if not rows:
        return None
    caption = "One-sided paired t-tests of H1: the mean cost of X is below that of Y"
    return Table(SIGNIFICANCE, caption, pd.DataFrame(rows), pd.DataFrame(cells), notes)
