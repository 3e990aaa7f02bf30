"""Instances and draws of a phase by policy: the same whoever shares a step, and no labelled ones again."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mcvrp.model.instances import InstanceStream, Rules
from mcvrp.model.paths import Group
from mcvrp.model.problem import City
from mcvrp.tasks.train.memory import policy_tokens
from mcvrp.tasks.train.policy import PolicyStream, micro_groups
from mcvrp.tasks.train.spec import PhaseSpec, PolicySpec
from tests.support.training import small_spec

CITY = City.uniform(60, seed=3)


def stream(ranks: int = 1, seed: int = 1, data: str = "f", **policy: Any) -> PolicyStream:
    tuned = PolicySpec(**{"steps": 30, "instances": 12, "samples": 3} | policy)
    phase = PhaseSpec(name="tune", first=20, last=22, trains="policy", lr=1e-3, rotation=True, policy=tuned)
    spec = small_spec(phases=(*small_spec().phases, phase), seed=seed)
    return PolicyStream(spec, "tune", CITY, Rules(), data, ranks=ranks)


def shown(groups: list[Group]) -> list[tuple[bytes, float, bytes]]:
    return [(g.instance.ids.tobytes(), g.angle, g.uniforms.tobytes()) for g in groups]


@pytest.mark.parametrize("ranks", [2, 3, 12])
def test_ranks_share_what_one_would_have(ranks: int) -> None:
    """In its order: instances, rotations and random numbers are functions of the step alone."""
    alone, shared = stream(), stream(ranks)
    for step in (1, 17):
        parts = [shown(shared.groups(step, rank)) for rank in range(ranks)]
        assert [each for part in parts for each in part] == shown(alone.groups(step, 0))


def test_nothing_is_drawn_twice() -> None:
    """Not in another step, phase, seed or dataset, and no instance that labels may have."""
    streams = [stream(), stream(seed=2), stream(data="other")]
    drawn = [each for one in streams for step in (1, 2, 3) for each in one.groups(step, 0)]
    keys = [(g.instance.n, g.instance.ids.tobytes(), g.instance.demands.tobytes()) for g in drawn]
    assert len(set(keys)) == len(keys)
    assert len({g.uniforms.tobytes() for g in drawn}) == len(drawn)
    assert len({g.angle for g in drawn}) == len(drawn)
    labelled = InstanceStream(CITY, 1, "train")
    some = {
        (n, labelled(n, i).ids.tobytes(), labelled(n, i).demands.tobytes())
        for n in (20, 21, 22)
        for i in range(50)
    }
    assert not some & set(keys)


def test_sizes_are_those_of_the_curriculums_sets() -> None:
    """Cr_20, Cr_21 and Cr_22 in turn, ten steps each, every step of one size."""
    sizes = [{group.instance.n for group in stream().groups(step, 0)} for step in range(1, 31)]
    assert all(len(found) == 1 for found in sizes)
    largest = np.maximum.accumulate([max(found) for found in sizes])
    assert set(largest[:10]) == {20}
    assert set(largest[10:20]) <= {20, 21}
    assert largest[-1] == 22


def test_micro_batches_keep_an_instance_whole() -> None:
    """As many instances as paths and tokens allow, their paths as long as they can be; at least one."""
    groups = stream().groups(1, 0)
    five = policy_tokens(5, 22, 3)
    for paths, tokens, parts in [
        (None, None, [12]),
        (None, five, [5, 5, 2]),
        (None, 1, [1] * 12),
        (36, None, [12]),
        (15, None, [5, 5, 2]),
        (2, None, [1] * 12),
        (15, five - 1, [4, 4, 4]),
        (14, five, [4, 4, 4]),
    ]:
        assert [len(part) for part in micro_groups(groups, 22, paths=paths, tokens=tokens)] == parts
