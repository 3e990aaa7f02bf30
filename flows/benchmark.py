"""Flow `benchmark`: every method on the same held-out instances, the tables, the report."""

from __future__ import annotations

from prefect import flow, task

from flows.artifacts import show_figures, showing_progress
from flows.stages import clock, flow_options, open_store, resuming_task_options, task_options
from flows.summary import BenchmarkResult, benchmark_figures
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
    with showing_progress("benchmark"):
        return run_benchmark(store, load_city(store, city), spec, model)


@task(name="write report", task_run_name="write report {spec.run}", **task_options())
def report(store: Store, city: str, spec: BenchmarkSpec) -> str:
    """Write the page that ties the run together; return where it lies."""
    return write_report(store, load_city(store, city), spec)


@flow(name="benchmark", flow_run_name="benchmark {benchmark.run}", **flow_options())
def benchmark(
    city: str, benchmark: BenchmarkSpec, model: str | None = None, store: str | None = None
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
    with clock() as measured:
        summary = compare(there, city, benchmark, model)
        page = report(there, city, benchmark)
    result = BenchmarkResult(summary, page, measured.seconds)
    show_figures("benchmark", f"Benchmark {benchmark.run}", benchmark_figures(result), summary.markdown)
    return result
