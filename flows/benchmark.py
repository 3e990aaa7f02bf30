"""Flow `benchmark`: every method on the same held-out instances, the tables, the report."""

from __future__ import annotations

from typing import Annotated

from prefect import task

from mcvrp.flows.config.parameters import CityName, ModelName, StoreUri, shown
from mcvrp.flows.config.preflight import check_benchmark, preflight
from mcvrp.flows.figures import BenchmarkResult, benchmark_figures, benchmark_tables
from mcvrp.flows.server.artifacts import gallery, links, show_figures, showing_progress
from mcvrp.flows.server.stage import DAY, clock, open_store, resuming_task_options, stage
from mcvrp.model.problem import City
from mcvrp.storage import layout
from mcvrp.storage.store.store import Store
from mcvrp.tasks.benchmark.results import BenchmarkResults
from mcvrp.tasks.benchmark.run import run_benchmark
from mcvrp.tasks.benchmark.spec import BenchmarkSpec
from mcvrp.tasks.report.summary import BenchmarkSummary
from mcvrp.tasks.report.write import write_report


@task(name="compare", task_run_name="compare {spec.run}", **resuming_task_options())
def compare(store: Store, city: City, spec: BenchmarkSpec, model: str | None) -> BenchmarkResults:
    """Solve what is missing of the benchmark and write its results."""
    with showing_progress(f"benchmark {spec.run}"):
        return run_benchmark(store, city, spec, model)


@task(name="write report", task_run_name="write report {results.spec.run}", **resuming_task_options())
def report(store: Store, city: City, results: BenchmarkResults) -> BenchmarkSummary:
    """Write tables, pictures and the page that ties the run together; return the key figures."""
    return write_report(store, city, results)


@stage("benchmark", "benchmark {benchmark.run}", timeout=30 * DAY)
def benchmark(
    city: CityName,
    benchmark: Annotated[BenchmarkSpec, shown("Benchmark", "Methods, instances, samples and budgets")],
    model: ModelName = None,
    store: StoreUri = None,
) -> BenchmarkResult:
    """Fill in the tables and write the report.

    Parameters
    ----------
    city
        Name of the city in the store.
    benchmark
        Methods, instances, budgets.
    model
        Name of the model in the store, its latest version; None where no method needs one.
    store
        Address of the store, by default $MCVRP_STORE, else ./store.
    """
    there = open_store(store)
    read = preflight(check_benchmark, there, city, benchmark, model)
    named = benchmark.model_copy(update={"attention": benchmark.attention or city})  # as mcvrp am does
    with clock() as measured:
        summary = report(there, read.city, compare(there, read.city, named, model))
    folder = layout.benchmark_dir(benchmark.run)
    page = f"{folder}/report.html"
    result = BenchmarkResult(summary, there.url(page), measured.seconds)
    places = {"everything": folder, "the report": page, "tables": f"{folder}/tables"}
    show_figures(
        f"benchmark {benchmark.run}",
        f"Benchmark {benchmark.run}",
        benchmark_figures(result),
        benchmark_tables(result),
        gallery(there, f"{folder}/figures"),
        links(there, places),
    )
    return result
