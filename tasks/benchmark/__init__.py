"""Benchmark of all methods on the same held-out instances."""

from typing import TYPE_CHECKING

from mcvrp.face import lazy

if TYPE_CHECKING:
    from mcvrp.tasks.benchmark.run import BenchmarkResults as BenchmarkResults, run_benchmark as run_benchmark
    from mcvrp.tasks.benchmark.spec import BenchmarkSpec as BenchmarkSpec
else:
    __getattr__, __dir__ = lazy(__name__, __file__)
