"""Invented rows of the shape of a whole benchmark of the paper, to try layouts on; nothing was solved."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from mcvrp.model.instances import InstanceStream
from mcvrp.model.problem import City
from mcvrp.storage.benchmarks import PartRow
from tests.support.labels import sweep

SIZES = {20: 5.0, 50: 8.3, 100: 12.3, 200: 19.1, 400: 34.0, 600: 43.8, 800: 56.3}  # with costs
HEURISTIC, GPU = "1 CPU core", "GPU (NVIDIA H200)"
_ALL, _LAST, _ONE = (1, 100, 1000), (1000,), (1,)
METHODS = {  # samples, cost relative to the best known, seconds of a sample of 20 customers, device
    "HGS": (_ALL, 1.005, 5.0, HEURISTIC),
    "PyVRP": (_ALL, 1.012, 5.0, HEURISTIC),
    "LKH-3": (_ALL, 1.03, 0.06, HEURISTIC),
    "AM (VS)": (_ALL, 1.06, 0.0005, GPU),
    "FM-MCVRP (GS)": (_ONE, 1.05, 0.02, GPU),
    "FM-MCVRP (NS)": (_ALL, 1.06, 0.0004, GPU),
    "FM-MCVRP (BS)": (_LAST, 1.045, 0.0004, GPU),
    "FM-MCVRP (NS) + local search": (_ALL, 1.03, 0.0009, f"{GPU}, then 1 CPU core"),
    "HGS (equal time)": (_ONE, 1.005, 5.0, HEURISTIC),
    "PyVRP (equal time)": (_ONE, 1.012, 5.0, HEURISTIC),
    "FM-MCVRP (NS) + HGS (equal time)": (_LAST, 1.004, 0.005, f"{GPU} + 1 CPU core"),
    "FM-MCVRP (NS) + PyVRP (equal time)": (_LAST, 1.009, 0.005, f"{GPU} + 1 CPU core"),
}
_OUTCOME_ONLY = ("(equal time)", "(BS)")  # stored with one cost, whatever was drawn


FAILURES = {  # smallest size that fails
    "LKH-3": (0, "LKH-3 is not installed: pip install elkai"),
    "AM (VS)": (400, "diverged in training at step 7 of 9"),
}


def paper_shaped(
    city: City, instances: int = 12, sizes: Sequence[int] = tuple(SIZES), failures: bool = True
) -> Iterator[PartRow]:
    """Yield one row per instance, method and size; routes, of two methods, are a sweep's.

    With ``failures`` the attention model diverged at 400 customers and more, and LKH-3 is not installed.
    """
    stream = InstanceStream(city, 1, "test")
    for method, (samples, factor, seconds, device) in METHODS.items():
        for n in sizes:
            least, text = FAILURES.get(method, (math.inf, ""))
            failure = text if failures and n >= least else None
            rng = np.random.default_rng(n + len(method))
            for index in range(instances):
                spread = 1 + 0.05 * np.random.default_rng(index + n).standard_normal()
                count = 1 if any(end in method for end in _OUTCOME_ONLY) else samples[-1]
                costs = SIZES[n] * factor * spread * (1 + 0.01 * rng.standard_normal(count))
                routed = failure is None and method in ("HGS", "FM-MCVRP (NS)")
                yield PartRow(
                    method=method,
                    n=n,
                    index=index,
                    samples=samples,
                    seconds=tuple(seconds * s * (1 if "time)" in method else n / 20) for s in samples),
                    costs=() if failure else tuple(costs.tolist()),
                    routes=sweep(city, stream(n, index)).routes if routed else None,
                    seed=1,
                    device="–" if failure else device,
                    workers=48 if device == HEURISTIC else 1,
                    machine="" if failure else "48 cores of a processor of the test, 1 GPU",
                    version="1.2.3",
                    configuration=f"{method} as the test has it, fleet default, 5 s"
                    if not failure
                    else "not run",
                    failure=failure,
                    other_cores=None if failure else 0.1,
                )
