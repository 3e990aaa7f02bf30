"""Stream of instances of a policy-gradient phase: for which instances each step samples paths, on which rank.

Instances, rotations and the random numbers of each path are functions of the seed and the step, for any
number of ranks. The samples of an instance stay together, so that they share its encoding.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from mcvrp.model.curriculum import Curriculum
from mcvrp.model.instances import InstanceStream
from mcvrp.model.paths import Group
from mcvrp.model.problem import Instance
from mcvrp.model.random import philox_key, philox_uniforms
from mcvrp.storage.labels.cache import LabelCache
from mcvrp.tasks.train.job import RankJob
from mcvrp.tasks.train.memory import policy_tokens
from mcvrp.tasks.train.spec import PhaseSpec, PolicySpec

# Labels use the first block of so many instances of a stream; a phase uses one of the blocks beyond it.
_FRESH = 2**32


@dataclass(frozen=True)
class PolicyStream:
    """Instances of each step of the policy-gradient phase of ``job``; ``cache`` has its labels, if any."""

    job: RankJob
    cache: LabelCache | None = None

    @cached_property
    def _stream(self) -> tuple[str, ...]:
        return self.job.origin.fingerprint, str(self.job.spec.seed), self.job.phase, "policy"

    @cached_property
    def _curriculum(self) -> Curriculum | None:
        """Samples of labelled instances; None if the instances are new ones."""
        if self._policy.source == "fresh":
            return None
        job = self.job
        return job.spec.curriculum(job.phase, job.counts, job.origin.fingerprint, paths=True)

    @property
    def _policy(self) -> PolicySpec:
        policy = self._phase.policy
        assert policy is not None
        return policy

    @property
    def _phase(self) -> PhaseSpec:
        return self.job.spec.phase(self.job.phase)

    def groups(self, step: int, rank: int) -> list[Group]:
        """Return ``rank``'s instances of ``step``, each with its rotation and random numbers."""
        policy, count = self._policy, self._policy.instances
        share = range(rank * count // self.job.ranks, (rank + 1) * count // self.job.ranks)
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
        """Return the `groups` of ``step`` as micro-batches."""
        groups, spec = self.groups(step, rank), self.job.spec
        return micro_groups(groups, self._phase.last, paths=spec.micro_batch, tokens=spec.micro_tokens)

    def _instances(self, step: int, share: range) -> Sequence[Instance]:
        if self._curriculum is None:
            return self._fresh(step, share)
        assert self.cache is not None
        samples = self._curriculum.global_batch(step)
        return [self._labelled(self.cache, int(samples.sizes[k]), int(samples.rows[k])) for k in share]

    def _labelled(self, cache: LabelCache, n: int, row: int) -> Instance:
        labels = cache.labels(n)
        ids, demands = np.array(labels.ids[row], np.uint32), np.array(labels.demands[row], np.uint16)
        return Instance(self.job.city.city_id, ids, demands, int(labels.capacities[row]))

    def _fresh(self, step: int, share: range) -> Sequence[Instance]:
        """Return new instances of one random size; all sets Cr_first, ..., Cr_last have as many steps."""
        job, phase, policy, smallest = self.job, self._phase, self._policy, self.job.spec.smallest
        largest = phase.first + (phase.last - phase.first + 1) * (step - 1) // policy.steps
        # One size per step, so that no instance is padded.
        u = philox_uniforms(philox_key("size", *self._stream), (step, 0), 1)[0]
        n = smallest + int(u * (largest - smallest + 1))
        stream = InstanceStream(job.city, job.spec.seed, "train", job.rules)
        block = 1 + philox_key("block", *self._stream) % (_FRESH - 1)
        first = block * _FRESH + (step - 1) * policy.instances
        return [stream(n, first + k) for k in share]


def micro_groups(
    groups: Sequence[Group], largest: int, *, paths: int | None, tokens: int | None
) -> list[Sequence[Group]]:
    """Return ``groups`` as micro-batches of at most ``paths`` and ``tokens``; None: no limit.

    An instance is never divided. Sizes count as ``largest``, the largest of the phase, so that all ranks
    have equally many micro-batches.
    """
    samples = len(groups[0].uniforms)
    limits = [(paths, samples), (tokens, policy_tokens(1, largest, samples))]
    count = max(1, min([len(groups), *(limit // each for limit, each in limits if limit is not None)]))
    return [groups[start : start + count] for start in range(0, len(groups), count)]
