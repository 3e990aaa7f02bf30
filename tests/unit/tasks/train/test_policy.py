"""Instances of a policy-gradient phase: the same for any number of ranks, and none that labels may have."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mcvrp.model.instances import InstanceStream, Rules
from mcvrp.model.partial_paths import Group
from mcvrp.storage.store.store import Store
from mcvrp.storage.training.checkpoints import Origin
from mcvrp.tasks.train.policy import PolicyStream
from mcvrp.tasks.train.spec import PhaseSpec, PolicySpec
from tests.support.training import CITY, rank_job, small_spec


def stream(ranks: int = 1, data: str = "f", rules: Rules = Rules(), **spec: Any) -> PolicyStream:  # noqa: B008
    policy = PolicySpec(steps=30, instances=12, samples=3)
    phase = PhaseSpec(name="tune", first=20, last=22, trains="policy", lr=1e-3, rotation=True, policy=policy)
    changed = small_spec(phases=(*small_spec().phases, phase), **spec)
    origin = Origin(CITY.city_id, data, {}, {}, "")
    return PolicyStream(
        rank_job(Store("/nowhere"), "tune", spec=changed, ranks=ranks, rules=rules, origin=origin)
    )


def shown(groups: list[Group]) -> list[tuple[bytes, float, bytes]]:
    return [(g.instance.ids.tobytes(), g.angle, g.uniforms.tobytes()) for g in groups]


@pytest.mark.parametrize("ranks", [2, 3, 12])
def test_any_number_of_ranks_has_the_same_instances(ranks: int) -> None:
    alone, shared = stream(), stream(ranks)
    for step in (1, 17):
        parts = [shown(shared.groups(step, rank)) for rank in range(ranks)]
        assert [each for part in parts for each in part] == shown(alone.groups(step, 0))


def test_no_instance_repeats() -> None:
    """Not in another step, seed or dataset, and none that labels may have."""
    streams = [stream(), stream(seed=2), stream(data="other")]
    drawn = [each for one in streams for step in (1, 2, 3) for each in one.groups(step, 0)]
    keys = [(g.instance.n, g.instance.ids.tobytes(), g.instance.demands.tobytes()) for g in drawn]
    assert len(set(keys)) == len(keys)
    assert len({g.uniforms.tobytes() for g in drawn}) == len(drawn)
    assert len({g.angle for g in drawn}) == len(drawn)
    labels = InstanceStream(CITY, 1, "train")
    labelled = [labels(n, i) for n in (20, 21, 22) for i in range(50)]
    assert not {(each.n, each.ids.tobytes(), each.demands.tobytes()) for each in labelled} & set(keys)


def test_sizes_are_those_of_the_curriculums_sets() -> None:
    """Cr_20, Cr_21 and Cr_22 in turn, ten steps each, one size per step."""
    sizes = [{group.instance.n for group in stream().groups(step, 0)} for step in range(1, 31)]
    assert all(len(of_step) == 1 for of_step in sizes)
    largest = np.maximum.accumulate([max(of_step) for of_step in sizes])
    assert set(largest[:10]) == {20}
    assert set(largest[10:20]) <= {20, 21}
    assert largest[-1] == 22


FIVE = 5 * (23 + 3 * 2 * 22)  # tokens of five instances


@pytest.mark.parametrize(
    ("tokens", "parts"), [(None, [12]), (FIVE, [5, 5, 2]), (FIVE - 1, [4, 4, 4]), (1, [1] * 12)]
)
def test_micro_batches_never_divide_an_instance(tokens: int | None, parts: list[int]) -> None:
    """As many instances as tokens allow, with paths of the maximum length; at least one."""
    groups = stream(micro_tokens=tokens).micro_batches(1, 0)
    assert [len(part) for part in groups] == parts


def test_instances_have_the_rules_of_the_job() -> None:
    for group in stream(rules=Rules((2, 3), (40, 50))).groups(1, 0):
        assert set(group.instance.demands) <= {2, 3}
        assert 40 <= group.instance.capacity <= 50
