"""Tables of results that the paper has, and ours in their place: its rows, its columns, its baselines.

Methods that the paper does not have follow its own at every size; a method of the paper without
results keeps its row, and a note says why it is empty.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import pandas as pd

from mcvrp.tasks.benchmark.methods import all_methods
from mcvrp.tasks.report.lines import Blocks, blocks_of, make_line
from mcvrp.tasks.report.notes import conditions, data_notes
from mcvrp.tasks.report.paper_values import PAPERS_HGS, published
from mcvrp.tasks.report.tables import Table

PAPER_METHODS = tuple(all_methods()[name].label for name in ("hgs", "lkh3", "am", "fm-gs", "fm-ns"))
HGS, LKH3, AM, GREEDY, SAMPLED = PAPER_METHODS
EQUAL_TIME = "(equal time)"  # ends the labels of rows that all had the same seconds
PAPER_TRAINED_UP_TO = 400  # customers (Sec. 5.1)
_ONE_RUN = "a single run of HGS"
_UNKNOWN = "What made the model's labels is not known here: HGS may be something else."
_ABBREVIATIONS = "N: customers; GS: greedy, NS: nucleus, VS: vanilla sampling"
_PAPERS = (
    "In brackets, or in a line of their own: the paper's figures, from hardware and instances of its own, "
    f"1,000 of each size and 100 at N = 600 and 800. {PAPERS_HGS}"
)


@dataclass(frozen=True)
class Comparison:
    """A table of the paper.

    Parameters
    ----------
    name
        A file's name, and the name of its figures in `published`.
    caption
        What is compared.
    baseline
        Against whom gaps and wins are: one run of it at every number of samples, or, with
        ``equal_samples``, as many runs as samples.
    methods
        The rows at each number of samples, the baseline among them.
    larger
        Whether it is about the sizes beyond those trained on, or about the others.
    has_wins
        Whether there is a column of wins.
    """

    name: str
    caption: str
    baseline: str
    methods: tuple[str, ...]
    equal_samples: bool = True
    larger: bool = False
    has_wins: bool = True

    def baseline_samples(self, method: str, samples: int) -> int:
        """Return how many runs of the baseline ``method`` with ``samples`` is compared with."""
        return samples if self.equal_samples and not method.endswith(EQUAL_TIME) else 1


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
        "More customers than in training: FM-MCVRP against HGS, at equal numbers of samples",
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
    """Return the paper's four tables from ``results``, as `tasks.report.tables` takes them.

    Parameters
    ----------
    trained_up_to
        Most customers that the model was trained on; None where nothing is known of it, which
        takes the paper's 400.
    labelled_by
        How what the model was trained on was made, by size, as a solver's ``configuration`` says it; None
        where nothing is known of it.
    is_papers_setting
        Whether city and orders are the paper's, so that its figures stand beside ours.
    unit
        What a cost of 1 means, as `model.problem.City` has it.
    """
    limit, blocks = trained_up_to or PAPER_TRAINED_UP_TO, blocks_of(results)
    first, *others = (
        _table(results, blocks, comparison, limit, is_papers_setting, unit) for comparison in COMPARISONS
    )
    return _with_labels(first, results, labelled_by or {}), *others


def _with_labels(table: Table, results: pd.DataFrame, labelled_by: Mapping[int, str]) -> Table:
    """Return the paper's first table with what is so of this run: whether HGS is what made the labels."""
    if not table.lines:
        return table
    sizes = {line.n for line in table.lines}
    runs = results[(results["method"] == HGS) & results["n"].isin(sizes)]
    rows = set(runs[["n", "configuration"]].itertuples(index=False, name=None))
    if rows and rows == {(n, labelled_by.get(n)) for n in sizes}:
        return replace(table, caption=f"FM-MCVRP against what it was trained on: {_ONE_RUN}")
    made = "; ".join(dict.fromkeys(text for n, text in labelled_by.items() if n in sizes))
    note = f"HGS is not what made the model's labels, which are from {made}." if made else _UNKNOWN
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
            (comparison.baseline, comparison.baseline_samples(method, samples)),
            theirs.get((n, method, samples)),
            is_beyond=method in others,
        )
        for n in sizes
        for method, samples in _rows([key[1:] for key in blocks if key[0] == n], comparison, others)
    )
    rows = results[results["n"].isin(sizes) & results["method"].isin([*comparison.methods, *others])]
    notes: list[str] = []
    if not lines:
        notes.append(_empty(comparison, limit))
    else:
        notes += [*data_notes(lines, unit), f"{_ABBREVIATIONS}."]
        if any(line.published for line in lines):
            notes.append(_PAPERS)
        if others:
            notes.append(f"Not in the paper: {', '.join(others)}.")
        if comparison.equal_samples and any(method.endswith(EQUAL_TIME) for method in others):
            notes.append(
                f"Gaps and wins of rows of equal time are against a single run of {comparison.baseline}."
            )
    return Table(
        comparison.caption,
        lines,
        tuple(notes),
        tuple(conditions(rows)) if lines else (),
        name=comparison.name,
        has_wins=comparison.has_wins,
        by_samples=comparison.equal_samples,
    )


def _rows(
    there: list[tuple[str, int]], comparison: Comparison, others: list[str]
) -> Iterator[tuple[str, int]]:
    """Yield method and number of samples of each row of one size: the paper's, then all others.

    ``there`` is what has results at this size.
    """
    # of more runs of a baseline than of samples, the first table has nothing to compare
    deciding = comparison.methods if comparison.equal_samples else (SAMPLED,)
    asked = {samples for method, samples in there if method in deciding}
    for samples in sorted({1, *asked}):
        for method in comparison.methods:
            single = method == GREEDY or (method == comparison.baseline and not comparison.equal_samples)
            if samples == 1 or not single:
                yield method, samples
    yield from ((method, samples) for method, samples in there if method in others)


def _empty(comparison: Comparison, limit: int) -> str:
    which, change = ("more", "larger") if comparison.larger else ("no more", "smaller")
    return (
        f"No rows yet: this benchmark has no size of {which} than {limit} customers, the most in "
        f"training; {change} sizes in benchmark.sizes fill this table."
    )
