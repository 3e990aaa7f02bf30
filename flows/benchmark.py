"""Flow `benchmark`: every method on the same held-out instances, the tables, the report."""

from __future__ import annotations

from typing import Annotated

from prefect import task

from flows.arguments import CityName, ModelName, StoreUri, shown
from flows.artifacts import show_figures, showing_progress
from flows.checks import check_benchmark
from flows.links import links
from flows.pictures import gallery
from flows.stages import DAY, clock, deployed, open_store, resuming_task_options, stage
from flows.summary import BenchmarkResult, benchmark_figures
from storage import layout
from storage.cities import load_city
from storage.store import Store
from tasks.benchmark import run_benchmark
from tasks.benchmark_spec import BenchmarkSpec
from tasks.benchmark_summary import BenchmarkSummary
from tasks.report import write_report


@task(name="compare", task_run_name="compare {spec.run}", **resuming_task_options())
def compare(store: Store, city: str, spec: BenchmarkSpec, model: str | None) -> BenchmarkSummary:
    """Solve what is missing of the benchmark and write its tables."""
    spec = spec if spec.am else spec.model_copy(update={"am": city})  # as mcvrp am names them
    with showing_progress(f"benchmark {spec.run}"):
        return run_benchmark(store, load_city(store, city), spec, model)


@task(name="write report", task_run_name="write report {spec.run}", **resuming_task_options())
def report(store: Store, city: str, spec: BenchmarkSpec) -> str:
    """Write the page that ties the run together; return where it lies."""
    return write_report(store, load_city(store, city), spec)


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
    if deployed():
        check_benchmark(there, load_city(there, city), benchmark, model)
    with clock() as measured:
        summary = compare(there, city, benchmark, model)
        page = report(there, city, benchmark)
    result = BenchmarkResult(summary, page, measured.seconds)
    folder = layout.benchmark_dir(benchmark.run)
    places = {"everything": folder, "the report": f"{folder}/report.html", "tables": f"{folder}/tables"}
    parts = [summary.markdown, gallery(there, f"{folder}/figures"), links(there, places)]
    title = f"Benchmark {benchmark.run}"
    show_figures(
        f"benchmark {benchmark.run}", title, benchmark_figures(result), "\n\n".join(filter(None, parts))
    )
    return result
