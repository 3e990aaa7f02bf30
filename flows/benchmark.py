"""Flow `benchmark`: solves the same held-out instances with every method, and writes tables and a report."""

from __future__ import annotations

import time
from typing import Annotated

from mcvrp.flows.config.inputs import inputs
from mcvrp.flows.config.preflight import check_benchmark
from mcvrp.flows.config.validation import CityName, ModelName, StoreUri, shown
from mcvrp.flows.figures import BenchmarkResult, benchmark_figures, benchmark_tables
from mcvrp.flows.server.artifacts import album, links, show_figures, showing_progress
from mcvrp.flows.server.stage import DAY, stage, task
from mcvrp.model.problem import City
from mcvrp.storage import layout
from mcvrp.storage.store.store import Store
from mcvrp.tasks.benchmark.run import BenchmarkResults, run_benchmark
from mcvrp.tasks.benchmark.spec import BenchmarkSpec
from mcvrp.tasks.report.write import write_report


@task("compare", "compare {spec.run}")
def compare(store: Store, city: City, spec: BenchmarkSpec, model: str | None) -> BenchmarkResults:
    """Solve the instances that have no results yet, and store the results."""
    with showing_progress(f"benchmark {spec.run}"):
        return run_benchmark(store, city, spec, model)


report = task("write report", "write report {results.spec.run}")(write_report)


@stage("benchmark", "benchmark {benchmark.run}", timeout=30 * DAY)
def benchmark(
    city: CityName,
    benchmark: Annotated[BenchmarkSpec, shown("Benchmark", "Methods, instances, samples and budgets")],
    model: ModelName = None,
    store: StoreUri = None,
) -> BenchmarkResult:
    """Compare all methods on held-out instances, and write tables and a report."""
    began = time.monotonic()
    opened, read = inputs(check_benchmark, store, city, benchmark, model)
    # the default name of attention models, as in the flow `attention`
    named = benchmark.model_copy(update={"attention": benchmark.attention or city})
    summary = report(opened, read.city, compare(opened, read.city, named, model))
    folder = layout.benchmark_dir(benchmark.run)
    page = f"{folder}/report.html"
    result = BenchmarkResult(summary, opened.url(page), time.monotonic() - began)
    paths = {"the benchmark": folder, "the report": page, "tables": f"{folder}/tables"}
    pictures = album(opened, benchmark_pictures(benchmark.run))
    body = benchmark_tables(result), pictures, links(opened, paths)
    show_figures(f"benchmark {benchmark.run}", f"Benchmark {benchmark.run}", benchmark_figures(result), *body)
    return result


def benchmark_pictures(run: str) -> dict[str, str]:
    """Return the paths of the pictures of a benchmark that Prefect shows, by their names."""
    folder = layout.benchmark_dir(run)
    return {
        "Gaps and times": f"{folder}/figures/gap-time.png",
        "A day routed": f"{folder}/figures/solution.png",
    }
