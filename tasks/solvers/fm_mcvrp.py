"""FM-MCVRP as a solver: a trained network with a decoding strategy, for batches of instances."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from mcvrp.model.decoding import Decoded, decode
from mcvrp.model.network import FmMcvrp
from mcvrp.model.problem import City, Instance
from mcvrp.model.strategies import Strategy
from mcvrp.tasks.solvers.devices import cores_of, decoding_map, device_text
from mcvrp.tasks.solvers.solver import Answer, network_answers
from mcvrp.tasks.support.pool import Pool


@dataclass(frozen=True, eq=False)
class FmMcvrpSolver:
    """A trained network with its decoding settings.

    ``max_batch`` is the maximum number of paths decoded at once, None: what fits in memory. Without a
    ``pool`` of processes for decoding on a CPU, this process decodes with its threads.
    """

    model: FmMcvrp  # in evaluation mode, on the device to use
    strategy: Strategy
    rotations: int = 1  # of the city among the samples; 1 for a model trained without rotation
    version: str = ""  # name and version of the model
    max_batch: int | None = None
    pool: Pool | None = None

    @property
    def label(self) -> str:
        return f"FM-MCVRP ({self.strategy.kind})"

    @property
    def device(self) -> str:
        """Device whose seconds answers take."""
        return device_text(self.model)

    @property
    def cores(self) -> int:
        """Number of cores of the last decoding."""
        return cores_of(self.model, self.pool)

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
        """Yield one answer per instance; its seconds are its share of the total core time."""
        decode = partial(self.decoded, city, instances, samples, seed)
        return network_answers(city, instances, decode, lambda: self.cores)

    def decoded(self, city: City, instances: Sequence[Instance], samples: int, seed: int) -> list[Decoded]:
        """Return all samples of each instance."""
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
                mapped=mapped,
            )
