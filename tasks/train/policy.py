"""Stream of instances of a policy-gradient phase: for which instances each step samples paths, on which rank.

Instances, rotations and the random numbers of each path are functions of the seed and the step, for any
number of ranks. The samples of an instance stay together, so that they share its encoding.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mcvrp.model.instances import InstanceStream
from mcvrp.model.partial_paths import Group
from mcvrp.model.problem import Instance
from mcvrp.model.random import philox_key, philox_uniforms
from mcvrp.storage.labels.cache import LabelCache
from mcvrp.tasks.train.job import RankJob

# Labels use the first block of so many instances of a stream; a phase uses one of the blocks beyond it.
_FRESH = 2**32


class PolicyStream:
    """Instances of each step of the policy-gradient phase of ``job``; ``cache`` has its labels, if any."""

    def __init__(self, job: RankJob, cache: LabelCache | None = None) -> None:
        self.job, self.cache, self.phase = job, cache, job.spec.phase(job.phase)
        assert self.phase.policy is not None
        self.policy = self.phase.policy
        stream = job.origin.fingerprint, str(job.spec.seed), job.phase, "policy"
        self._keys = {use: philox_key(use, *stream) for use in ("rotation", "paths", "size", "block")}
        self._labelled = (
            job.spec.curriculum(job.phase, job.counts, job.origin.fingerprint, paths=True)
            if self.policy.source == "labels"
            else None
        )

    def groups(self, step: int, rank: int) -> list[Group]:
        """Return ``rank``'s instances of ``step``, each with its rotation and random numbers."""
        count, samples = self.policy.instances, self.policy.samples
        share = range(rank * count // self.job.ranks, (rank + 1) * count // self.job.ranks)
        instances = self._labels(step, share) if self._labelled else self._fresh(step, share)
        angles = np.zeros(count)
        if self.phase.rotation:
            angles = philox_uniforms(self._keys["rotation"], (step, 0), count) * 2 * np.pi
        uniforms = (
            philox_uniforms(self._keys["paths"], (step, k), samples * 2 * instance.n).reshape(samples, -1)
            for k, instance in zip(share, instances, strict=True)
        )
        return [Group(*each) for each in zip(instances, angles[share].tolist(), uniforms, strict=True)]

    def micro_batches(self, step: int, rank: int) -> list[Sequence[Group]]:
        """Return the `groups` of ``step`` in micro-batches, limited in tokens.

        An instance is never divided. Sizes count as the largest of the phase, so that all ranks have
        equally many micro-batches.
        """
        groups, tokens = self.groups(step, rank), self.job.spec.micro_tokens
        longest = self.phase.last + 1 + self.policy.samples * 2 * self.phase.last  # tokens of an instance
        count = max(1, tokens // longest) if tokens else len(groups)
        return [groups[start : start + count] for start in range(0, len(groups), count)]

    def _labels(self, step: int, share: range) -> list[Instance]:
        assert self.cache is not None
        assert self._labelled is not None
        samples, instances = self._labelled.global_batch(step), []
        for k in share:
            labels, row = self.cache[int(samples.sizes[k])], int(samples.rows[k])
            ids, demands = np.array(labels.ids[row], np.uint32), np.array(labels.demands[row], np.uint16)
            instances.append(Instance(self.job.city.city_id, ids, demands, int(labels.capacities[row])))
        return instances

    def _fresh(self, step: int, share: range) -> list[Instance]:
        """Return new instances of one random size; all sets Cr_first, ..., Cr_last have as many steps."""
        job, phase, policy, smallest = self.job, self.phase, self.policy, self.job.spec.smallest
        largest = phase.first + (phase.last - phase.first + 1) * (step - 1) // policy.steps
        # One size per step, so that no instance is padded.
        n = smallest + int(philox_uniforms(self._keys["size"], (step, 0), 1)[0] * (largest - smallest + 1))
        stream = InstanceStream(job.city, job.spec.seed, "train", job.rules)
        block = 1 + self._keys["block"] % (_FRESH - 1)
        first = block * _FRESH + (step - 1) * policy.instances
        return [stream(n, first + k) for k in share]
