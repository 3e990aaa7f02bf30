"""Key figures of a benchmark, derived from its results."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd

from mcvrp.model.problem import City
from mcvrp.storage.provenance import Provenance
from mcvrp.tasks.benchmark.results import BenchmarkResults
from mcvrp.tasks.report.formats import to_narrow_markdown
from mcvrp.tasks.report.metrics import baseline_of, mean_gap
from mcvrp.tasks.report.paper import GREEDY, SAMPLED
from mcvrp.tasks.report.tables import Table


@dataclass(frozen=True)
class BenchmarkSummary:
    """Key figures of a benchmark; None if not measured.

    Gaps are means over all instances of all sizes to a single run of ``baseline``, in percent: of greedy
    decoding, and of the best of ``ns_samples`` samples with nucleus ``p``.
    """

    run: str
    city_id: str
    model: str | None
    model_version: int | None
    instances: Mapping[int, int]  # number of held-out instances by size
    encoder_accuracy: float | None  # on the problem tokens
    gs_mean_gap: float | None
    ns_mean_gap: float | None
    ns_samples: int
    p: float
    mean_costs: Mapping[str, Mapping[int, float]]  # over solved instances, by method and size
    failures: Mapping[str, tuple[int, str]]  # instances without an answer, and the most frequent reason
    hardware: str
    markdown: str  # table of all methods, as two narrow ones
    baseline: str = "HGS"  # or PyVRP, if HGS has no answers
    provenance: Provenance | None = None


def summarise(results: BenchmarkResults, city: City, table: Table) -> BenchmarkSummary:
    """Return the key figures of ``results``; ``table`` is the one of all methods (`benchmark_table`)."""
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


def _failures(results: pd.DataFrame) -> dict[str, tuple[int, str]]:
    failed: dict[str, Any] = {}
    for method, block in results[results["failure"].notna()].groupby("method", sort=False):
        instances = len(block[["n", "index"]].drop_duplicates())
        failed[str(method)] = (instances, str(block["failure"].mode().iloc[0]))
    return failed
