"""FM-MCVRP as a solver: a trained network with a decoding strategy, many instances at once."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from mcvrp.model.decoding import Decoded, decode
from mcvrp.model.features import CityTable, problem_features
from mcvrp.model.network import FmMcvrp
from mcvrp.model.problem import City, Instance
from mcvrp.model.strategies import Strategy
from mcvrp.tasks.solvers.devices import decoding_map, device_text, torch_threads
from mcvrp.tasks.solvers.solver import Answer, network_answers
from mcvrp.tasks.solvers.warm_start import Start
from mcvrp.tasks.support.pool import Pool

_SCORES = 1 << 25  # scores of all classes held at once


@dataclass(frozen=True, eq=False)
class FmMcvrpSolver:
    """A trained network and how it decodes.

    Parameters
    ----------
    model
        In evaluation mode, on the device to use.
    strategy
        How it chooses nodes.
    rotations
        How many ways the samples see the city turned; 1 where the model was trained without rotation.
    version
        Name and version of the model.
    max_batch
        Paths decoded at once; None takes what memory allows.
    pool
        Processes that share decoding on a CPU; None leaves it to this one and its threads.
    """

    model: FmMcvrp
    strategy: Strategy
    rotations: int = 1
    version: str = ""
    max_batch: int | None = None
    pool: Pool | None = None

    @property
    def label(self) -> str:
        """Name in the tables."""
        return f"FM-MCVRP ({self.strategy.kind})"

    @property
    def device(self) -> str:
        """Device that decoding runs on, or has run on last."""
        return device_text(self.model, self.pool)

    @property
    def configuration(self) -> str:
        """Model, strategy and rotation in one line."""
        model = f"model {self.version}, " if self.version else ""
        if self.strategy.answers == 1:  # rotation 0, the city as it is
            return f"{model}{self.strategy.description}"
        turned = f"in up to {self.rotations} rotations" if self.rotations > 1 else "not rotated"
        return f"{model}{self.strategy.description}, samples {turned}"

    def solve(
        self, city: City, instances: Sequence[Instance], *, samples: int, seed: int
    ) -> Iterator[Answer]:
        """Yield one answer an instance; its seconds are its share of the time of all.

        Raises
        ------
        McvrpError
            If the model does not know the city, or more samples are asked than the strategy has answers.
        """
        if not instances:
            return
        yield from network_answers(city, instances, lambda: self.decoded(city, instances, samples, seed))

    def starts(
        self, city: City, instances: Sequence[Instance], *, samples: int, seed: int
    ) -> Iterator[Start]:
        """Yield the samples of each instance for a search to start from, and what they took.

        One instance at a time. Seconds are of processor time, on one core, where the model is on the
        CPU, as those of the search will be, and wall-clock where it is on a GPU. The city's table, and
        what PyTorch does once, are not in them.
        """
        on_cpu = self.model.output.weight.device.type == "cpu"
        clock = time.thread_time if on_cpu else time.perf_counter
        table = CityTable.of(city, self.model.output.weight.device)
        alone = replace(self, pool=None)
        for k, instance in enumerate(instances):
            with torch_threads(1):
                if k == 0:
                    alone.decoded(city, [instance], 1, seed, table)
                began = clock()
                (decoded,) = alone.decoded(city, [instance], samples, seed, table)
                seconds = clock() - began
            yield Start(tuple(decoded.solution(sample).routes for sample in range(samples)), seconds)

    def decoded(
        self,
        city: City,
        instances: Sequence[Instance],
        samples: int,
        seed: int,
        table: CityTable | None = None,
    ) -> list[Decoded]:
        """Return all samples of each instance; ``table`` is the city's on the model's device."""
        with decoding_map(self.model, self.pool) as mapped:
            return decode(
                self.model,
                city,
                instances,
                strategy=self.strategy,
                samples=samples,
                rotations=self.rotations,
                seed=seed,
                max_batch=self.max_batch,
                table=table,
                mapped=mapped,
            )


def problem_accuracy(model: FmMcvrp, city: City, instances: Iterable[Instance]) -> float:
    """Return the share of problem tokens, depots included, whose node the encoder names first."""
    device = model.output.weight.device
    table = CityTable.of(city, device)
    correct = tokens = 0
    for n, group in itertools.groupby(instances, key=lambda instance: instance.n):
        for chunk in _chunks(group, max(1, _SCORES // ((n + 1) * model.config.classes))):
            ids = torch.from_numpy(np.stack([instance.nodes for instance in chunk])).to(device)
            demands = torch.zeros(ids.shape)
            demands[:, 1:] = torch.from_numpy(np.stack([i.demands for i in chunk]).astype(np.float32))
            capacity = torch.tensor([float(instance.capacity) for instance in chunk], device=device)
            with torch.inference_mode():
                features = problem_features(table, ids, demands.to(device), capacity)
                named = model.output(model.encode(features)).argmax(-1)  # (B, T)
            correct += int((named == ids).sum())
            tokens += ids.numel()
    return correct / tokens


def _chunks(instances: Iterable[Instance], size: int) -> Iterator[list[Instance]]:
    rest = iter(instances)
    while chunk := list(itertools.islice(rest, size)):
        yield chunk
