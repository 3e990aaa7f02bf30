"""Instances a second: what the training stream gives on one core, and what training takes on one core or GPU.

Takes about two minutes. The stream draws, cuts and gathers global batches of 256; features and rotation are
the device's work. Training is the engine's whole step on micro-batches of the same stream. Rates are those
of the median step.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from torch import Tensor

from mcvrp.model.curriculum import Curriculum, Order
from mcvrp.model.features import CityTable
from mcvrp.model.network import FmMcvrp, NetworkConfig
from mcvrp.model.problem import City
from mcvrp.storage.labels.cache import LabelCache
from mcvrp.storage.labels.dataset import Dataset
from mcvrp.storage.store.store import Store
from mcvrp.tasks.support.processes import free_port
from mcvrp.tasks.train.batches import SampleStream
from mcvrp.tasks.train.distributed import distributed
from mcvrp.tasks.train.engine import Engine, EngineOptions, Totals
from tests.benchmarks.common import arguments
from tests.support.only_rank import group_environment
from tests.support.training import write_dataset

SIZES = (20, 50, 100, 200, 400)
MIXED = range(20, 51)
ROWS, BATCH = 512, 256
MICRO_TOKENS = 2048  # a step of the larger network takes a second
SECONDS = 2.0
NETWORKS = {
    "laptop (d=64, 3+3)": NetworkConfig(1001, dim=64, heads=4, encoder_layers=3, decoder_layers=3, ff=256),
    "d=256, 4+4": NetworkConfig(1001, dim=256, heads=8, encoder_layers=4, decoder_layers=4, ff=1024),
}


def main() -> None:
    arguments(__doc__).parse_args()
    city = City.uniform(1000, 1)
    with tempfile.TemporaryDirectory() as folder:
        store = Store.open(f"{folder}/store")
        for n in SIZES:
            write_dataset(store, city, range(n, n + 1), ROWS)
        write_dataset(store, city, MIXED, ROWS // 8, "mixed")
        os.environ |= group_environment(0, 1, free_port())
        with (
            labels_cache(folder, store, "tiny", dict.fromkeys(SIZES, ROWS)) as cache,
            labels_cache(folder, store, "mixed", dict.fromkeys(MIXED, ROWS // 8)) as mixed,
            distributed(cores=1) as device,
        ):
            engines = {name: engine(config, CityTable.of(city, device)) for name, config in NETWORKS.items()}
            print(f"{'n':>8} {'stream':>10}" + "".join(f" {name:>20} {'ratio':>7}" for name in engines))
            for n in SIZES:
                one = stream(cache, range(n, n + 1), ROWS, "bucketed")
                alone = rate(one)
                line = f"{n:>8} {alone:>10,.0f}"
                for trained in engines.values():
                    takes = training_rate(trained, one)
                    line += f" {takes:>20,.1f} {alone / takes:>7,.0f}"
                print(line, flush=True)
            for order in ("paper", "bucketed"):
                alone = rate(stream(mixed, MIXED, ROWS // 8, order))
                print(f"{'20-50':>8} {alone:>10,.0f} {order}")


def labels_cache(folder: str, store: Store, dataset: str, counts: dict[int, int]) -> LabelCache:
    return LabelCache.open(Path(folder), store, dataset, Dataset.open(store, dataset).fingerprint(), counts)


def stream(cache: LabelCache, sizes: range, rows: int, order: Order) -> SampleStream:
    counts = (rows,) * len(sizes)
    phase = Curriculum(counts, sizes[0], sizes[-1], sizes[-1], BATCH, ("bench",), passes=20_000, order=order)
    return SampleStream(phase, cache, rotation=True, micro_tokens=MICRO_TOKENS)


def rate(source: SampleStream) -> float:
    return BATCH / median_seconds(source.steps(1, source.curriculum.steps, 0))


def training_rate(trained: Engine, source: SampleStream) -> float:
    batch = source.global_batch(1)
    piece = source.tensors(batch, batch.pieces[0][0])

    def steps() -> Iterator[Tensor]:
        while True:
            totals = Totals(batch.problem_tokens, batch.solution_tokens)
            yield trained.step([piece], totals, 1e-4)["problem"].cpu()

    return len(piece.lengths) / median_seconds(steps())


def median_seconds(steps: Iterator[object]) -> float:
    next(steps)
    durations: list[float] = []
    while len(durations) < 3 or sum(durations) < SECONDS:
        began = time.perf_counter()
        next(steps)
        durations.append(time.perf_counter() - began)
    return statistics.median(durations)


def engine(config: NetworkConfig, table: CityTable) -> Engine:
    options = EngineOptions(train_decoder=True, zero=0, bf16=False, weight_decay=0.01, clip=1.0)
    return Engine(FmMcvrp(config), table, options)


if __name__ == "__main__":
    main()
