"""Held-out set: labelled instances of the split "valid", on which the gap is measured during training."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from mcvrp.model.errors import McvrpError
from mcvrp.model.problem import City, Instance, gap
from mcvrp.storage import layout
from mcvrp.storage.cities import require_city
from mcvrp.storage.labels.dataset import Dataset
from mcvrp.storage.labels.label_files import LabelFile
from mcvrp.storage.labels.schema import table_labels
from mcvrp.storage.store.store import Store
from mcvrp.tasks.train.spec import TrainSpec

if TYPE_CHECKING:
    from mcvrp.model.features import CityTable
    from mcvrp.model.network import FmMcvrp
    from mcvrp.model.strategies import Strategy

SPLIT = "valid"


def measured(spec: TrainSpec, phase: str) -> bool:
    """Return whether the phase has a held-out gap: it needs a held-out set, and to train the decoder."""
    return spec.held_out is not None and spec.phase(phase).trains != "encoder"


def require(store: Store, city: City, spec: TrainSpec, phase: str) -> None:
    """Raise McvrpError if the held-out set of the phase is missing, incomplete, of another split or city."""
    if spec.held_out is None or not measured(spec, phase):
        return
    ask = "run mcvrp label with the same preset and a label.held_out of at least"
    without = "or train without: --set train.held_out="
    hint = f"{ask} 1, {without}"
    path = layout.label_spec(spec.held_out)
    if not store.exists(path):
        raise McvrpError(f"train.held_out: there is no {store.url(path)}: {hint}")
    labelled = store.get_json(path)
    split = labelled.get("split") if isinstance(labelled, dict) else None
    if split != SPLIT:
        raise McvrpError(
            f"train.held_out: dataset {spec.held_out!r} is of split {split!r}, not {SPLIT!r}: the network "
            f"may be trained or benchmarked on it; {hint}"
        )
    sizes, labels = spec.sizes(phase), _opened(store, city, spec.held_out)
    match labelled:
        case {"smallest": int(low), "largest": int(high), "count": int(count)}:
            for n in (n for n in sizes if low <= n <= high):
                if labels.rows_until_gap(n) < count:
                    raise McvrpError(
                        f"train.held_out: dataset {spec.held_out!r} lacks some of its {count} labels of {n} "
                        f"customers: {ask} {count}, {without}"
                    )
    if not set(sizes) & set(labels.sizes()):
        raise McvrpError(
            f"train.held_out: dataset {spec.held_out!r} has no labels of {sizes[0]} to {sizes[-1]} "
            f"customers, which phase {phase!r} trains on: {hint}"
        )


@dataclass(frozen=True, eq=False)
class HeldOut:
    """Instances of ``city`` and the costs of their labels, float64 ``(N,)``, by size."""

    city: City
    instances: Sequence[Instance]
    costs: NDArray[np.float64]

    @classmethod
    def load(cls, store: Store, city: City, dataset: str, sizes: range) -> HeldOut:
        """Return the labels of ``dataset`` of these sizes; McvrpError if it is of another city."""
        stored = _opened(store, city, dataset)
        tables = [rows for n in stored.sizes() if n in sizes for rows in stored.read_rows(n)]
        labels = [label for rows in tables for label in table_labels(rows, city.city_id)]
        return cls(city, [label.instance for label in labels], np.array([label.cost for label in labels]))

    def gap(
        self, network: FmMcvrp, table: CityTable, strategy: Strategy, samples: int, rank: int, ranks: int
    ) -> float:
        """Return the mean gap of the best of ``samples`` solutions to the labels, in %.

        Every rank has to call this. The network's training mode and the random state stay as they were.
        """
        import torch  # here: the driver calls `require` without torch, whose import takes seconds

        from mcvrp.model.decoding import decode

        training = network.training
        network.eval()
        own = range(rank, len(self.instances), ranks)
        instances = [self.instances[i] for i in own]
        decoded = decode(network, self.city, instances, strategy=strategy, samples=samples, table=table)
        network.train(training)
        # Each rank decodes every ranks-th instance; the sum over ranks fills in the costs of the others.
        costs = torch.zeros(len(self.instances), dtype=torch.float64, device=table.delta.device)
        costs[own.start :: ranks] = torch.tensor([d.costs.min() for d in decoded], dtype=torch.float64)
        if ranks > 1:
            torch.distributed.all_reduce(costs)
        return float(np.mean(gap(costs.cpu().numpy(), self.costs)))


def require_labels(store: Store, city: City, file: LabelFile) -> None:
    """Raise McvrpError if the labels of ``file`` are not valid in ``city``."""
    labels = f"the labels {store.url(file.path)} are"
    require_city(store, city, file.footer.city_id, labels, "name that city, or another dataset")


def _opened(store: Store, city: City, dataset: str) -> Dataset:
    labels = Dataset.listed(store, dataset)
    for file in labels.label_files:
        require_labels(store, city, file)
    return labels
