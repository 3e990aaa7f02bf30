"""A distant, busy object store: python -m tests.benchmarks.bench_store [requests] [large] [kill] [pace].

Needs the S3 server of the tests (tests/support/s3_server.py), behind a proxy with the conditions:

requests  requests of each kind of work
large     seconds for a file of 1.65 GB at 30 ms per request over 50 MB/s
kill      seconds that a command waits for the lease of one that was killed before it
pace      labels of 0.2 s into a folder, and into the store at 100 ms per request with 2 % refused
"""

from __future__ import annotations

import argparse
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

# Ray's workers import the stand-in of a solver.
os.environ |= {"RAY_USAGE_STATS_ENABLED": "0", "PYTHONPATH": str(Path(__file__).parents[2])}

import numpy as np

from mcvrp.model.problem import City
from mcvrp.storage.store.lease import holding
from mcvrp.storage.store.store import Store, StoreError
from mcvrp.tasks.label import LabelSpec, label_missing
from mcvrp.tasks.support.machine import hardware
from mcvrp.tasks.support.ray_session import ray_session
from tests.benchmarks.common import arguments, heading, row
from tests.support.s3_proxy import DISTANT, KINDS, Conditions, Proxy
from tests.support.s3_server import S3Server, serving
from tests.support.stand_in import ASLEEP
from tests.support.store_requests import StoreRequests

LINK = Conditions(latency=0.03, bandwidth=50e6)


def requests(store: Store, proxy: Proxy, options: argparse.Namespace) -> None:
    """Print the requests of each work."""
    heading("work", "all", *KINDS, texts=1)
    with ray_session(2), tempfile.TemporaryDirectory() as folder:
        for work, counts in StoreRequests(store, proxy.counted, Path(folder)).all(nights=options.nights):
            row(work, counts.total(), *(counts[kind] for kind in KINDS))


def large(store: Store, proxy: Proxy, options: argparse.Namespace) -> None:
    """Print the seconds of a large file in each direction, and the share of the link that is used."""
    data = np.random.default_rng(1).bytes(round(options.megabytes * 1e6))
    proxy.conditions = LINK
    ideal = len(data) / LINK.bandwidth
    heading("", "seconds", "of the link", "requests", texts=1)
    for name, transfer in (("write", lambda: store.put("a", data)), ("read", lambda: store.get("a"))):
        with proxy.counted() as counts:
            seconds = _seconds(transfer)
        row(name, f"{seconds:.1f}", f"{100 * ideal / seconds:.0f} %", counts.total())
    store.delete("a")
    proxy.conditions = Conditions()


def kill(store: Store, proxy: Proxy, options: argparse.Namespace) -> None:
    """Print how long a command waits that follows at once on one that was killed, by age of the lease."""
    code = (
        "import os, sys, time\nfrom mcvrp.storage import Store\n"
        "from mcvrp.storage.store.lease import holding\n"
        "with holding(Store(sys.argv[1]), '.lease', 'it is done'):\n"
        "    time.sleep(float(sys.argv[2])); os.kill(os.getpid(), 9)"
    )
    heading("killed after, s", "folder, s", "object store, s")
    with tempfile.TemporaryDirectory() as folder:
        for age in (0, 5, 12):
            waits = []
            for place in (Store.open(folder), store):
                subprocess.run([sys.executable, "-c", code, place.uri, str(age)], check=False)
                began = time.monotonic()
                with holding(place, ".lease", "it is done"):
                    waits.append(f"{time.monotonic() - began:.1f}")
            row(age, *waits)


def _seconds(work: Callable[[], object]) -> float:
    began = time.monotonic()
    try:
        work()
    except StoreError as error:
        print(error, flush=True)
        return math.inf
    return time.monotonic() - began


def pace(store: Store, proxy: Proxy, options: argparse.Namespace) -> None:
    """Print the time of labels of 0.2 s in the slow store relative to a folder."""
    spec = LabelSpec(
        dataset="paced",
        smallest=20,
        largest=20,
        count=options.labels,
        shard_rows=options.labels // 4,
        solver=ASLEEP,
        time_limit=0.2,
        workers=2,
    )
    city, seconds = City.uniform(100, seed=1), []
    with ray_session(2), tempfile.TemporaryDirectory() as folder:
        for place in (Store.open(folder), store):
            proxy.conditions = DISTANT
            label_missing(place, city, spec.model_copy(update={"dataset": "warm", "count": 4}))
            with proxy.counted() as counts:
                seconds.append(label_missing(place, city, spec).seconds)
    proxy.conditions = Conditions()
    heading("labels", "solving alone, s", "folder, s", "slow store, s", "ratio", "requests")
    alone = 0.2 * options.labels / 2
    texts = (f"{each:.1f}" for each in (alone, *seconds))
    row(options.labels, *texts, f"{seconds[1] / seconds[0]:.2f}", counts.total())


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("what", nargs="*", choices=("requests", "large", "kill", "pace", []), default=[])
    parser.add_argument("--nights", type=int, default=4)
    parser.add_argument("--megabytes", type=float, default=1650)
    parser.add_argument("--labels", type=int, default=600)
    options = parser.parse_args()
    print(f"{hardware()}\n", flush=True)
    with serving() as endpoint:
        server, proxy = S3Server(endpoint), Proxy(endpoint)
        os.environ |= server.environment(endpoint=proxy.endpoint)
        for name, measure in (("requests", requests), ("large", large), ("kill", kill), ("pace", pace)):
            if not options.what or name in options.what:
                measure(Store.open(f"s3://{server.bucket()}/{name}"), proxy, options)
                print(flush=True)
        proxy.close()


if __name__ == "__main__":
    main()
