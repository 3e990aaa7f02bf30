"""Key figures of a benchmark, derived from its results and from nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd

from mcvrp.model.problem import City
from mcvrp.tasks.benchmark.results import BenchmarkResults
from mcvrp.tasks.report.formats import to_narrow_markdown
from mcvrp.tasks.report.lines import MethodRun, baseline_of, gaps, paired
from mcvrp.tasks.report.paper import GREEDY, SAMPLED
from mcvrp.tasks.report.tables import Table


@dataclass(frozen=True)
class BenchmarkSummary:
    """Key figures of a run; what could not be measured is None.

    Parameters
    ----------
    run, city_id
        What was run, on which city.
    model, model_version
        Which model, None without one.
    instances
        Held-out instances of each size.
    encoder_accuracy
        Share of the problem tokens of all held-out instances that the encoder names.
    gs_mean_gap, ns_mean_gap
        Mean of the instances' gaps to ``baseline`` s = 1 in percent, all sizes together: greedy,
        and the best of ``ns_samples`` draws with nucleus ``p``.
    mean_costs
        Mean cost of each method and number of samples at each size, over solved instances.
    failures
        Instances without an answer, for each method with any, and the commonest reason.
    hardware
        What this ran on.
    markdown
        The table of every method, as two narrow ones.
    baseline
        HGS, or who stands in for it (`tasks.report.tables.baseline_of`).
    """

    run: str
    city_id: str
    model: str | None
    model_version: int | None
    instances: Mapping[int, int]
    encoder_accuracy: float | None
    gs_mean_gap: float | None
    ns_mean_gap: float | None
    ns_samples: int
    p: float
    mean_costs: Mapping[str, Mapping[int, float]]
    failures: Mapping[str, tuple[int, str]]
    hardware: str
    markdown: str
    baseline: str = "HGS"


def summarise(results: BenchmarkResults, city: City, table: Table) -> BenchmarkSummary:
    """Return the key figures of ``results``; ``table`` is that of every method (`benchmark_table`)."""
    spec, card, frame = results.spec, results.card, results.frame
    samples, means = spec.samples[-1], dict[str, dict[int, float]]()
    for line in table.lines:
        if line.cost:
            means.setdefault(line.name, {})[line.n] = line.cost.mean
    return BenchmarkSummary(
        run=spec.run,
        city_id=city.city_id,
        model=card.name if card else None,
        model_version=card.version if card else None,
        instances={line.n: line.instances for line in table.lines},
        encoder_accuracy=results.accuracy,
        gs_mean_gap=mean_gap(frame, (GREEDY, 1)),
        ns_mean_gap=mean_gap(frame, (SAMPLED, samples)),
        ns_samples=samples,
        p=spec.p,
        mean_costs=means,
        failures=_failures(frame),
        hardware="; ".join(sorted({machine for machine in frame["machine"] if machine})),
        markdown=to_narrow_markdown(table),
        baseline=baseline_of(frame)[0],
    )


def mean_gap(results: pd.DataFrame, method: MethodRun) -> float | None:
    """Return the mean gap of ``method`` to the baseline in percent, all sizes together; None without any."""
    cost, base = paired(results, None, method, baseline_of(results))
    return float(gaps(cost, base).mean()) if len(cost) else None


def _failures(results: pd.DataFrame) -> dict[str, tuple[int, str]]:
    failed: dict[str, Any] = {}
    for method, block in results[results["failure"].notna()].groupby("method", sort=False):
        instances = len(block[["n", "index"]].drop_duplicates())
        failed[str(method)] = (instances, str(block["failure"].mode().iloc[0]))
    return failed
