"""The attention model as a solver: one network per size, sampling from its probabilities."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray

from mcvrp.model.attention_model import AttentionModel, Orders, rollout
from mcvrp.model.decoding import Decoded
from mcvrp.model.features import CityTable
from mcvrp.model.instances import InstanceRows
from mcvrp.model.problem import City, Instance, require_instances
from mcvrp.model.random import philox_key, philox_rows
from mcvrp.tasks.solvers.devices import cores_of, decoding_map, device_text
from mcvrp.tasks.solvers.solver import Answer, network_answers
from mcvrp.tasks.support.pool import Pool

_CPU_TOKENS, _GPU_TOKENS = 1 << 13, 1 << 23  # paths times nodes per batch


@dataclass(frozen=True, eq=False)
class AttentionSolver:
    """Trained attention models with their decoding settings.

    Without a ``pool`` of processes for decoding on a CPU, this process decodes with its threads.
    """

    models: Mapping[int, AttentionModel]  # by number of customers; in evaluation mode, on the device to use
    version: str = ""  # name of the models
    pool: Pool | None = None

    @property
    def label(self) -> str:
        """Name in the tables; VS is the paper's "vanilla sampling"."""
        return "AM (VS)"

    @property
    def device(self) -> str:
        """Device whose seconds answers take."""
        return device_text(self._one)

    @property
    def _one(self) -> AttentionModel:
        return next(iter(self.models.values()))

    @property
    def configuration(self) -> str:
        """Models and decoding in one line."""
        models = f"models {self.version}, " if self.version else ""
        return f"{models}one a size, sampled as it is"

    def solve(
        self, city: City, instances: Sequence[Instance], *, samples: int, seed: int
    ) -> Iterator[Answer]:
        """Return one answer per instance; its seconds are its share of the total core time.

        Raises McvrpError if an instance belongs to another city.
        """
        decode = partial(self.decoded, city, instances, samples, seed)
        return network_answers(city, instances, decode, lambda: cores_of(self._one, self.pool))

    def decoded(self, city: City, instances: Sequence[Instance], samples: int, seed: int) -> list[Decoded]:
        """Return all samples of each instance.

        Sample k of an instance is a function of (seed, instance, k): fewer samples are a prefix of more.
        """
        require_instances(city, instances)
        decoded: dict[int, Iterator[Decoded]] = {}
        for n in {instance.n for instance in instances}:
            alike = [instance for instance in instances if instance.n == n]
            decoded[n] = iter(list(self._decode(city, self.models[n], alike, samples, seed)))
        return [next(decoded[instance.n]) for instance in instances]

    def _decode(
        self, city: City, model: AttentionModel, instances: Sequence[Instance], samples: int, seed: int
    ) -> Iterator[Decoded]:
        """Yield the samples of ``instances`` of one size."""
        tokens = _CPU_TOKENS if model.device.type == "cpu" else _GPU_TOKENS
        paths = max(1, tokens // (instances[0].n + 1))
        together = max(1, paths // samples)
        pieces = [range(first, min(first + paths, samples)) for first in range(0, samples, paths)]
        chunks = [instances[start : start + together] for start in range(0, len(instances), together)]
        batches = [_Batch(chunk, piece, seed) for chunk in chunks for piece in pieces]
        with decoding_map(model, self.pool) as mapped:
            found = iter(mapped(_paths, (model, CityTable.of(city, model.device)), batches))
            for chunk in chunks:
                parts = [next(found) for _ in pieces]
                longest = max(part.shape[2] for part in parts)
                padded = [np.pad(part, ((0, 0), (0, 0), (0, longest - part.shape[2]))) for part in parts]
                for instance, positions in zip(chunk, np.concatenate(padded, axis=1), strict=True):
                    yield Decoded.of(city, instance.nodes[positions].astype(np.int32))


@dataclass(frozen=True)
class _Batch:
    """Samples of instances of one size that are decoded together."""

    instances: Sequence[Instance]
    samples: range
    seed: int


def _paths(context: tuple[AttentionModel, CityTable], batch: _Batch) -> NDArray[np.int64]:
    """Return paths in positions, ``(instances, samples, L)``."""
    model, table = context
    instances = batch.instances
    rows = InstanceRows(
        np.stack([instance.nodes for instance in instances]),
        np.stack([np.concatenate([[0], i.demands]) for i in instances]).astype(np.int64),
        np.array([instance.capacity for instance in instances], dtype=np.int64),
    )
    drawn = np.stack([_uniforms(batch.seed, instance, batch.samples) for instance in instances])
    uniforms = torch.from_numpy(drawn).to(model.device)
    orders = Orders.of(table, rows)
    with torch.inference_mode():
        return rollout(model, model.encode(orders), orders, uniforms).cpu().numpy()


def _uniforms(seed: int, instance: Instance, samples: range) -> NDArray[np.float64]:
    """Return the random numbers of ``samples``, ``(samples, 2n)``, one stream per sample."""
    key = philox_key("attention", str(seed), instance.city_id, instance.orders_hash)
    return philox_rows(key, [(sample, 0) for sample in samples], 2 * instance.n)
