"""Paired t-tests of the paper (Tables 7 and 8): is one method's mean cost below another's?"""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

from mcvrp.tasks.report.metrics import MethodRun, paired
from mcvrp.tasks.report.paper import HGS, SAMPLED
from mcvrp.tasks.report.paper_values import published_tests
from mcvrp.tasks.support.t_test import Statistics, paired_t_test

PAPER_SIZE = 400  # customers (Appendix "Test Statistics")


@dataclass(frozen=True)
class PairedTest:
    """Comparison of two methods on the instances of size ``n`` that both solved.

    ``statistics`` is None if there is nothing to test, for ``reason``; ``paper`` are the paper's figures by
    the names of `Statistics` if they are comparable.
    """

    x: MethodRun
    y: MethodRun
    n: int
    statistics: Statistics | None
    reason: str | None = None
    paper: dict[str, float] | None = None


def compared_size(results: pd.DataFrame, trained_up_to: int) -> int:
    """Return the size of the paper's comparison of distributions: 400, or else the largest in training."""
    sizes = sorted(results["n"].unique().tolist())
    trained = [n for n in sizes if n <= trained_up_to]
    return PAPER_SIZE if PAPER_SIZE in trained else (trained or sizes)[-1]


def paper_tests(
    results: pd.DataFrame, *, n: int, samples: int, is_papers_setting: bool = False
) -> tuple[PairedTest, PairedTest]:
    """Return the paper's two tests on instances of ``n`` customers.

    The first compares the best of the model's ``samples`` with a single run of HGS, the second the best of as
    many runs of HGS with the best of the samples.
    """
    model = (SAMPLED, samples)
    return (
        _test(results, n, model, (HGS, 1), is_papers_setting),
        _test(results, n, (HGS, samples), model, is_papers_setting),
    )


def benchmark_tests(
    results: pd.DataFrame, trained_up_to: int, *, is_papers_setting: bool = False
) -> tuple[PairedTest, ...]:
    """Return the paper's tests of a benchmark, none without samples of a model."""
    samples = results.loc[results["method"] == SAMPLED, "samples"]
    if samples.empty:
        return ()
    n = compared_size(results, trained_up_to)
    return paper_tests(results, n=n, samples=int(samples.max()), is_papers_setting=is_papers_setting)


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
