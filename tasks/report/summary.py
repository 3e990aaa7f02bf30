"""What a benchmark run says: tables and a summary, derived from its results and from nothing else."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import pandas as pd

from mcvrp.model.errors import McvrpError
from mcvrp.model.instances import Rules
from mcvrp.model.problem import City
from mcvrp.storage import layout
from mcvrp.storage.benchmarks import read_results
from mcvrp.storage.models.models import ModelCard
from mcvrp.storage.store.store import Store
from mcvrp.tasks.report import significance_formats
from mcvrp.tasks.report.formats import to_csv, to_latex, to_markdown
from mcvrp.tasks.report.paper import PAPER_TRAINED_UP_TO, paper_tables
from mcvrp.tasks.report.paper_values import is_papers_setting
from mcvrp.tasks.report.significance import PairedTest, compared_size, paper_tests
from mcvrp.tasks.report.tables import Table, baseline_of, gaps, make_table, paired

GREEDY = ("FM-MCVRP (GS)", 1)
SAMPLED = "FM-MCVRP (NS)"
OVERVIEW = "table"  # the name of the table of every method
SIGNIFICANCE = "significance"  # of that of the tests
FORMATS: dict[str, Callable[[Table], str]] = {"csv": to_csv, "md": to_markdown, "tex": to_latex}


@dataclass(frozen=True)
class BenchmarkSummary:
    """The key figures of a run; what could not be measured is None.

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
        The table.
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

    def gap_of(self, method: tuple[str, int]) -> float | None:
        """Return the mean gap of the model's ``method``, None where it has none."""
        return {GREEDY: self.gs_mean_gap, (SAMPLED, self.ns_samples): self.ns_mean_gap}.get(method)


def summarise(
    store: Store,
    run: str,
    city: City,
    rules: Rules,
    *,
    card: ModelCard | None,
    accuracy: float | None,
    p: float,
    samples: int,
) -> BenchmarkSummary:
    """Write the tables and the summary of ``run`` from its stored results, and return the summary."""
    results = results_frame(store, run)
    table = benchmark_table(results, accuracy, city.unit)
    folder = layout.benchmark_dir(run)
    for each in (table, *comparisons(results, city, rules, card)):
        for ending, write in FORMATS.items():
            store.put(f"{folder}/{table_path(each.name, ending)}", write(each).encode())
    tests = significance(results, city, rules, card)
    for ending, write_tests in significance_formats.FORMATS.items() if tests else ():
        store.put(f"{folder}/{table_path(SIGNIFICANCE, ending)}", write_tests(tests).encode())
    summary = BenchmarkSummary(
        run=run,
        city_id=city.city_id,
        model=card.name if card else None,
        model_version=card.version if card else None,
        instances={line.n: line.instances for line in table.lines},
        encoder_accuracy=accuracy,
        gs_mean_gap=mean_gap(results, GREEDY),
        ns_mean_gap=mean_gap(results, (SAMPLED, samples)),
        ns_samples=samples,
        p=p,
        mean_costs=_mean_costs(table),
        failures=_failures(results),
        hardware=_machines(results),
        markdown=to_markdown(table),
        baseline=baseline_of(results)[0],
    )
    store.put_json(f"{folder}/summary.json", asdict(summary))
    return summary


def read_summary(store: Store, run: str) -> BenchmarkSummary:
    """Return the stored summary of a run.

    Raises
    ------
    McvrpError
        If there is none, or it is not one.
    """
    path = f"{layout.benchmark_dir(run)}/summary.json"
    if not store.exists(path):
        raise McvrpError(f"there is no benchmark {run!r} in {store.url()}: run mcvrp benchmark")
    try:
        document = store.get_json(path)
        means = document["mean_costs"]
        document |= {  # what JSON has no word for
            "instances": {int(n): count for n, count in document["instances"].items()},
            "mean_costs": {name: {int(n): cost for n, cost in by_n.items()} for name, by_n in means.items()},
            "failures": {name: tuple(pair) for name, pair in document["failures"].items()},
        }
        return BenchmarkSummary(**document)
    except (TypeError, KeyError, AttributeError, ValueError) as error:
        raise McvrpError(f"{store.url(path)} is no summary of a benchmark ({error}): remove it") from error


def results_frame(store: Store, run: str) -> pd.DataFrame:
    """Return the stored results without routes and samples, as tables and figures take them."""
    frame: pd.DataFrame = read_results(store, run).drop_columns(["routes", "costs"]).to_pandas()
    return frame.astype({"n": "int64", "index": "int64", "samples": "int64", "workers": "int64"})


def benchmark_table(results: pd.DataFrame, accuracy: float | None, unit: str = "unit") -> Table:
    """Return the table of a run: every method against the baseline; ``unit`` is what a cost of 1 means."""
    notes = []
    if accuracy is not None:
        notes.append(f"Encoder accuracy on the problem tokens of these instances: {100 * accuracy:.2f} %.")
    baseline, _ = baseline_of(results)
    caption = f"Held-out instances, gaps to a single run of {baseline}"
    return make_table(results, caption, baseline=baseline, notes=notes, unit=unit)


def comparisons(results: pd.DataFrame, city: City, rules: Rules, card: ModelCard | None) -> tuple[Table, ...]:
    """Return the paper's four tables of a run."""
    return paper_tables(
        results,
        trained_up_to=trained_up_to(card),
        is_papers_setting=is_papers_setting(city, rules),
        unit=city.unit,
    )


def significance(
    results: pd.DataFrame, city: City, rules: Rules, card: ModelCard | None
) -> tuple[PairedTest, ...]:
    """Return the paper's tests of a run, none where nothing was sampled from a model."""
    samples = results.loc[results["method"] == SAMPLED, "samples"]
    if samples.empty:
        return ()
    n = compared_size(results, trained_up_to(card))
    where = is_papers_setting(city, rules)
    return paper_tests(results, n=n, samples=int(samples.max()), is_papers_setting=where)


def trained_up_to(card: ModelCard | None) -> int:
    """Return the most customers that the model was trained on; the paper's where nothing is known."""
    return (card.largest if card else None) or PAPER_TRAINED_UP_TO


def table_path(name: str, ending: str) -> str:
    """Where a table lies in the folder of its run: the overview on top, the paper's in a folder."""
    return f"{'' if name == OVERVIEW else 'tables/'}{name}.{ending}"


def mean_gap(results: pd.DataFrame, method: tuple[str, int]) -> float | None:
    """Return the mean gap of ``method`` to the baseline in percent, all sizes together; None without any."""
    cost, base = paired(results, None, method, baseline_of(results))
    return float(gaps(cost, base).mean()) if len(cost) else None


def _machines(results: pd.DataFrame) -> str:
    return "; ".join(sorted({machine for machine in results["machine"] if machine}))


def _mean_costs(table: Table) -> dict[str, dict[int, float]]:
    means: dict[str, dict[int, float]] = {}
    for line in table.lines:
        if line.cost:
            means.setdefault(line.name, {})[line.n] = line.cost.mean
    return means


def _failures(results: pd.DataFrame) -> dict[str, tuple[int, str]]:
    failed: dict[str, Any] = {}
    for method, block in results[results["failure"].notna()].groupby("method", sort=False):
        instances = len(block[["n", "index"]].drop_duplicates())
        failed[str(method)] = (instances, str(block["failure"].mode().iloc[0]))
    return failed
