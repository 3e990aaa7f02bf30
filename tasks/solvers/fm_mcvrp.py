"""FM-MCVRP as a solver: a trained network with a decoding strategy, many instances at once."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch

from model.decoding import Decoded, Greedy, Strategy, decode
from model.features import CityTable, problem_features
from model.network import FmMcvrp
from model.problem import City, Instance, canonical, infeasibility
from tasks.solvers import Answer

_CPU_BYTES = 1 << 30  # for keys and values of the paths decoded at once
_GPU_SHARE = 0.5  # of the memory that is free
_CPU_PATHS, _GPU_PATHS = 1024, 8192  # more at once is no faster
_SCORES = 1 << 25  # scores of all classes held at once
_COPIES = 3  # a batch's keys and values, and what moving them needs


@dataclass(frozen=True, eq=False)
class FmMcvrpSolver:
    """A trained network and how it decodes.

    Parameters
    ----------
    model
        In evaluation mode, on the device to use.
    strategy
        Greedy, or nucleus sampling with its p.
    rotations
        Whether the model was trained with rotation: samples after the first then turn the city.
    version
        Name and version of the model.
    max_batch
        Paths decoded at once; None takes what memory allows.
    """

    model: FmMcvrp
    strategy: Strategy
    rotations: bool = False
    version: str = ""
    max_batch: int | None = None

    @property
    def label(self) -> str:
        """Name in the tables."""
        return "FM-MCVRP (GS)" if isinstance(self.strategy, Greedy) else "FM-MCVRP (NS)"

    @cached_property
    def device(self) -> str:
        """What decoding runs on."""
        if self.model.output.weight.device.type != "cpu":
            return f"GPU ({torch.cuda.get_device_name()})"
        cores = torch.get_num_threads()
        return "1 CPU core" if cores == 1 else f"{cores} CPU cores"

    @property
    def configuration(self) -> str:
        """Model, strategy and rotation in one line."""
        model = f"model {self.version}, " if self.version else ""
        if isinstance(self.strategy, Greedy):
            return f"{model}greedy decoding"
        turned = "after the first rotated at random" if self.rotations else "not rotated"
        return f"{model}nucleus sampling with p = {self.strategy.p:g}, samples {turned}"

    def solve(
        self, city: City, instances: Sequence[Instance], *, samples: int, seed: int
    ) -> Iterator[Answer]:
        """Yield one answer an instance; its seconds are its share of the time of all.

        Raises
        ------
        McvrpError
            If the model does not know the city, or several samples are asked of greedy decoding.
        """
        if not instances:
            return
        start = time.perf_counter()
        decoded = decode(
            self.model,
            city,
            instances,
            strategy=self.strategy,
            samples=samples,
            rotations=self.rotations,
            seed=seed,
            max_batch=self.max_batch or self._paths_at_once(max(instance.n for instance in instances)),
            table=CityTable.of(city, self.model.output.weight.device),
        )
        seconds = (time.perf_counter() - start) / len(instances)
        for instance, answer in zip(instances, decoded, strict=True):
            yield _answer(city, instance, answer, seconds)

    def _paths_at_once(self, n: int) -> int:
        """Return how many paths through ``n`` customers memory has room for."""
        config = self.model.config
        tokens = 2 * n + (n + 1) * self.rotations  # own keys, and a group's where each has its own rotation
        path = 2 * 4 * config.decoder_layers * config.dim * tokens * _COPIES
        on_cpu = self.model.output.weight.device.type == "cpu"
        room = _CPU_BYTES if on_cpu else int(torch.cuda.mem_get_info()[0] * _GPU_SHARE)
        return max(1, min(room // path, _CPU_PATHS if on_cpu else _GPU_PATHS))


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


def _answer(city: City, instance: Instance, decoded: Decoded, seconds: float) -> Answer:
    best = decoded.best
    reason = infeasibility(instance, best)  # feasible by construction, and checked again
    if reason:
        return Answer(None, decoded.costs, seconds, reason)
    return Answer(canonical(city, best), decoded.costs, seconds)
