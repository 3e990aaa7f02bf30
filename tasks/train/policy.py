"""The work of a phase by policy besides its labels: whose paths each step draws, and on which rank.

What a step sees is a function of the seed and its number, whoever shares it: instances, rotations, and the
random numbers of each path. An instance's samples are drawn together, so that they share its keys.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from mcvrp.model.curriculum import Curriculum
from mcvrp.model.instances import InstanceStream, Rules
from mcvrp.model.paths import Group
from mcvrp.model.problem import City, Instance
from mcvrp.model.random import philox_key, philox_uniforms
from mcvrp.storage.labels.cache import LabelCache
from mcvrp.tasks.train.memory import policy_tokens
from mcvrp.tasks.train.spec import PhaseSpec, PolicySpec, TrainSpec

_FRESH = 2**32  # instances of a stream that labels may have; a phase draws from one of the blocks beyond


@dataclass(frozen=True)
class PolicyStream:
    """The instances of each step of a phase by policy.

    Parameters
    ----------
    spec, phase
        The run, and the phase's name.
    city
        Whose customers are drawn.
    rules
        Ranges of demand and capacity of fresh instances.
    data
        Names what the phase learns from; "" where it has no labels.
    curriculum, cache
        The labelled instances, where those are drawn for.
    ranks
        Processes that share a step.
    """

    spec: TrainSpec
    phase: str
    city: City
    rules: Rules
    data: str
    curriculum: Curriculum | None = None
    cache: LabelCache | None = None
    ranks: int = 1

    @cached_property
    def _stream(self) -> tuple[str, ...]:
        return self.data, str(self.spec.seed), self.phase, "policy"

    @property
    def _policy(self) -> PolicySpec:
        policy = self._phase.policy
        assert policy is not None
        return policy

    @property
    def _phase(self) -> PhaseSpec:
        return self.spec.phase(self.phase)

    def groups(self, step: int, rank: int) -> list[Group]:
        """Return the instances of ``step`` that are ``rank``'s, each with its rotation and random numbers."""
        policy, count = self._policy, self._policy.instances
        share = range(rank * count // self.ranks, (rank + 1) * count // self.ranks)
        instances = self._instances(step, share)
        angles = np.zeros(count)
        if self._phase.rotation:
            angles = philox_uniforms(philox_key("rotation", *self._stream), (step, 0), count) * 2 * np.pi
        key = philox_key("paths", *self._stream)
        return [
            Group(
                instance,
                float(angles[k]),
                philox_uniforms(key, (step, k), policy.samples * 2 * instance.n).reshape(policy.samples, -1),
            )
            for k, instance in zip(share, instances, strict=True)
        ]

    def micro_batches(self, step: int, rank: int) -> list[Sequence[Group]]:
        """Return the `groups` of ``step``, as many at once as the run allows."""
        groups, spec = self.groups(step, rank), self.spec
        return micro_groups(groups, self._phase.last, paths=spec.micro_batch, tokens=spec.micro_tokens)

    def _instances(self, step: int, share: range) -> Sequence[Instance]:
        if self.curriculum is None:
            return self._fresh(step, share)
        assert self.cache is not None
        samples = self.curriculum.global_batch(step)
        return [self._labelled(self.cache, int(samples.sizes[k]), int(samples.rows[k])) for k in share]

    def _labelled(self, cache: LabelCache, n: int, row: int) -> Instance:
        labels = cache.labels(n)
        ids, demands = np.array(labels.ids[row], np.uint32), np.array(labels.demands[row], np.uint16)
        return Instance(self.city.city_id, ids, demands, int(labels.capacities[row]))

    def _fresh(self, step: int, share: range) -> Sequence[Instance]:
        """Draw instances of one size: no padding. The sets Cr_first, ..., Cr_last have equally many steps."""
        phase, policy, smallest = self._phase, self._policy, self.spec.smallest
        largest = phase.first + (phase.last - phase.first + 1) * (step - 1) // policy.steps
        u = philox_uniforms(philox_key("size", *self._stream), (step, 0), 1)[0]
        n = smallest + int(u * (largest - smallest + 1))
        stream = InstanceStream(self.city, self.spec.seed, "train", self.rules)
        block = 1 + philox_key("block", *self._stream) % (_FRESH - 1)
        first = block * _FRESH + (step - 1) * policy.instances
        return [stream(n, first + k) for k in share]


def micro_groups(
    groups: Sequence[Group], largest: int, *, paths: int | None, tokens: int | None
) -> list[Sequence[Group]]:
    """Return ``groups`` cut into micro-batches of at most ``paths`` and ``tokens``; None is no limit.

    An instance stays whole with its samples. ``largest`` is the largest size of the phase: every rank cuts
    its share alike, whatever its instances are.
    """
    samples = len(groups[0].uniforms)
    limits = [(paths, samples), (tokens, policy_tokens(1, largest, samples))]
    most = max(1, min([len(groups), *(limit // each for limit, each in limits if limit is not None)]))
    return [groups[start : start + most] for start in range(0, len(groups), most)]
