"""Training tokens per second of a laptop-sized network: ranks against threads, orders, bf16, ZeRO.

Takes a minute or two.
"""

from __future__ import annotations

import statistics
import tempfile
from pathlib import Path
from typing import Any

from mcvrp.model.problem import City
from mcvrp.storage.store.store import Store
from mcvrp.storage.training.metrics import read_metrics
from mcvrp.tasks.train.phases import train_phase
from mcvrp.tasks.train.spec import NetworkSpec, PhaseSpec, TrainSpec
from tests.benchmarks.common import arguments
from tests.support.training import write_dataset

SIZES = range(20, 25)
CASES: list[dict[str, Any]] = [
    {"ranks": 1, "order": "paper"},
    {"ranks": 1, "order": "bucketed"},
    {"ranks": 2, "order": "paper"},
    {"ranks": 2, "order": "bucketed"},
    {"ranks": 2, "order": "bucketed", "precision": "bf16"},
    {"ranks": 2, "order": "bucketed", "zero": 1},
    {"ranks": 2, "order": "bucketed", "micro_batch": 8},
]


def main() -> None:
    arguments(__doc__).parse_args()
    with tempfile.TemporaryDirectory() as folder:
        store, city = Store.open(folder), City.uniform(100, 1)
        write_dataset(store, city, SIZES, 300)
        for case in CASES:
            run = "-".join(str(value) for value in case.values())
            spec = TrainSpec(
                run=run,
                dataset="tiny",
                network=NetworkSpec(dim=64, heads=4, encoder_layers=3, decoder_layers=3, ff=256),
                phases=(PhaseSpec(name="II", first=24, last=24, passes=5, lr=2e-3),),
                batch=64,
                **case,
            )
            train_phase(store, city, spec, "II", Path(folder, "cache"))
            rates = [row.tokens_per_second for row in read_metrics(store, run, "II")]
            print(f"{case}: {statistics.median(rates):,.0f} tokens/s")


if __name__ == "__main__":
    main()
