"""Results of a benchmark for tests: a stored row to vary, and frames of rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pandas as pd
import pyarrow as pa

from mcvrp.model.instances import InstanceStream
from mcvrp.model.problem import Solution
from mcvrp.storage import layout
from mcvrp.storage.benchmarks import RESULTS, PartRow
from mcvrp.storage.parquet import read_parquet
from mcvrp.storage.store.store import Store

ROW = PartRow(
    method="HGS",
    n=20,
    index=0,
    samples=(1, 2),
    seconds=(1.0, 2.0),
    costs=(5.0, 4.0),
    routes=((1, 2), (3,)),
    seed=1,
    device="1 CPU core",
    workers=2,
    machine="2 cores of a processor",
    version="1.0",
    configuration="as it comes",
)


def rows_of(
    method: str,
    n: int,
    costs: Sequence[float | None],
    samples: int = 1,
    failure: str | None = None,
    seconds: float = 0.5,
) -> pd.DataFrame:
    """Return one row of results per cost, as `results_frame` does; those without a cost have ``failure``."""
    return pd.DataFrame(
        {
            "method": method,
            "n": n,
            "index": range(len(costs)),
            "samples": samples,
            "cost": pd.array(costs, dtype="float64"),
            "seconds": seconds,
            "seed": 1,
            "device": "1 CPU core",
            "workers": 2,
            "machine": "2 cores of a processor",
            "version": "1.0",
            "configuration": f"{method} as it comes",
            "failure": [failure if cost is None else None for cost in costs],
        }
    )


def routed_rows(stream: InstanceStream, costs: Mapping[str, Mapping[int, Sequence[float]]]) -> list[PartRow]:
    """Return single answers with a route per customer, of the ``costs`` by method and size."""
    return [
        replace(
            ROW,
            method=method,
            n=n,
            index=index,
            samples=(1,),
            seconds=(1.0,),
            costs=(cost,),
            routes=Solution.of([i] for i in stream(n, index).ids.tolist()).routes,
        )
        for method, by_size in costs.items()
        for n, of_instances in by_size.items()
        for index, cost in enumerate(of_instances)
    ]


def read_results(store: Store, run: str) -> pa.Table:
    """Return the table of results that the benchmark ``run`` has stored."""
    return read_parquet(store, layout.benchmark_results(run), columns=RESULTS)
