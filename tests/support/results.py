"""A row of a benchmark, for tests to vary."""

from __future__ import annotations

from mcvrp.storage.benchmarks import PartRow

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
    other_cores=2.5,
)
