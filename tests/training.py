"""Small labelled datasets and small training runs for the tests of training; no solver needed."""

from __future__ import annotations

from model.instances import InstanceStream
from model.problem import City, cost
from storage.labels import write_labels
from storage.layout import label_shard
from storage.schemas import SOLVED, Label
from storage.store import Store
from tasks.train_spec import NetworkSpec, PhaseSpec, TrainSpec
from tests.sweep import sweep


def write_dataset(store: Store, city: City, sizes: range, count: int, name: str = "tiny") -> None:
    """Write ``count`` sweep solutions of each size, one shard a size."""
    stream = InstanceStream(city, 1, "train")
    for n in sizes:
        labels = []
        for i in range(count):
            instance = stream(n, i)
            solution = sweep(city, instance)
            price = cost(city, solution)
            labels.append(Label(i, instance, solution, price, SOLVED, "sweep", "1", 0, "none", 0.0, "abacus"))
        write_labels(store, label_shard(name, n, 0), city, "tests", labels)


def small_spec(**changes: object) -> TrainSpec:
    """Return a run of two phases on sizes 20 to 22, a few dozen steps of a tiny network."""
    values: dict[str, object] = {
        "run": "small",
        "dataset": "tiny",
        "model": "small",
        "network": NetworkSpec(dim=16, heads=2, encoder_layers=1, decoder_layers=1, ff=32, dropout=0.1),
        "phases": (
            PhaseSpec(name="I", first=20, last=22, trunc=24, trains="encoder", lr=0.01),
            PhaseSpec(
                name="II", first=22, last=22, schedule="knee", lr=0.005, warmup=4, tail=0.3, rotation=True
            ),
        ),
        "batch": 12,
        "checkpoint_every": 5,
        "log_every": 1,
    }
    return TrainSpec(**values | changes)  # type: ignore[arg-type]
