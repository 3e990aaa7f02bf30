from collections import Counter
from collections.abc import Sequence
from typing import Any, get_args

import numpy as np
import pytest
from hypothesis import assume, given, settings, strategies as st

from mcvrp.model.curriculum import Curriculum, Order, Samples
from mcvrp.model.errors import McvrpError


def curriculum(counts: Sequence[int], first: int, last: int, batch: int, **options: Any) -> Curriculum:
    return Curriculum(tuple(counts), 20, first, last, batch, ("data", "1", "I"), **options)


def pairs(samples: Samples) -> list[tuple[int, int]]:
    return list(zip(samples.sizes.tolist(), samples.rows.tolist(), strict=True))


def stream(phase: Curriculum) -> list[tuple[int, int]]:
    return [pair for step in range(1, phase.steps + 1) for pair in pairs(phase.global_batch(step))]


@pytest.mark.parametrize(
    ("first", "last", "trunc", "samples", "steps"),
    [
        (20, 400, 1_000, 72_771_000, 284_261),  # I: 72.77 M, 284 K
        (20, 50, None, 49_600_000, 193_750),  # II-A: 49.6 M, 194 K
        (200, 200, None, 18_100_000, 70_703),  # II-B: 18.1 M, 71 K
        (400, 400, None, 38_100_000, 148_828),  # II-C: 38.1 M, 149 K
    ],
)
def test_samples_and_steps_of_the_paper(
    first: int, last: int, trunc: int | None, samples: int, steps: int
) -> None:
    phase = curriculum([100_000] * 381, first, last, 256, trunc=trunc)
    assert (phase.samples, phase.steps) == (samples, steps)


@settings(deadline=None, max_examples=60)
@given(
    counts=st.lists(st.integers(3, 30), min_size=4, max_size=6),
    first=st.integers(20, 23),
    span=st.integers(0, 2),
    batch=st.integers(1, 9),
    passes=st.integers(1, 3),
    trunc=st.sampled_from([None, 1, 5, 100]),
    order=st.sampled_from(["paper", "bucketed"]),
)
def test_every_sample_occurs_once_per_set(
    counts: list[int], first: int, span: int, batch: int, passes: int, trunc: int | None, order: Order
) -> None:
    """The stream has the samples of each set once per pass, without the last partial batch."""
    last = min(first + span, 19 + len(counts))
    kept = [min(count, trunc or count) for count in counts]
    assume(batch <= sum(kept[: first - 19]))
    phase = curriculum(counts, first, last, batch, passes=passes, trunc=trunc, order=order)
    expected: Counter[tuple[int, int]] = Counter()
    for top in range(first, last + 1):
        for size in range(20, top + 1):
            rows = phase.subset(size).tolist()
            assert len(set(rows)) == min(counts[size - 20], trunc or 10**9)
            expected.update({(size, row): passes for row in rows})
    shown = Counter(stream(phase))
    assert shown <= expected
    assert expected.total() - shown.total() == phase.samples % batch < batch
    assert all(0 <= row < counts[size - 20] for size, row in shown)


def test_sets_follow_each_other_and_share_the_batch_between_them() -> None:
    """In the paper's order, the first samples are those of Cr_20, then those of Cr_21, whatever the batch."""
    phase = curriculum([10, 10], 20, 21, 8)
    shown = stream(phase)
    assert sorted(shown[:10]) == [(20, row) for row in range(10)]
    assert len(set(shown[10:24])) == 14
    assert {size for size, _ in shown[10:24]} == {20, 21}


def test_a_batch_does_not_depend_on_earlier_requests() -> None:
    for order in get_args(Order):
        first = curriculum([500] * 3, 20, 22, 16, order=order)
        batches = [pairs(first.global_batch(step)) for step in range(1, first.steps + 1)]
        for step in (first.steps, 1, first.steps // 2, 2):
            again = curriculum([500] * 3, 20, 22, 16, order=order)
            assert pairs(again.global_batch(step)) == batches[step - 1]


def test_streams_differ_and_passes_are_shuffled_again() -> None:
    one = curriculum([300], 20, 20, 100, passes=2)
    other = Curriculum((300,), 20, 20, 20, 100, ("data", "2", "I"))
    assert stream(one)[:300] != stream(one)[300:]
    assert sorted(stream(one)[:300]) == sorted(stream(one)[300:])
    assert stream(one)[:300] != stream(other)


def test_truncated_subsets_are_shared_by_phases_with_the_same_name() -> None:
    """The truncated data of a size is the same in every phase of a run, and no prefix."""
    one = Curriculum((1000,), 20, 20, 20, 10, ("a",), trunc_stream=("t",), trunc=50)
    other = Curriculum((1000, 9), 20, 20, 21, 10, ("b",), trunc_stream=("t",), trunc=50)
    assert one.subset(20).tolist() == other.subset(20).tolist() != list(range(50))


def test_every_row_is_as_likely_in_a_truncated_subset() -> None:
    counts, tries = np.zeros(60), 600
    for k in range(tries):
        phase = Curriculum((60,), 20, 20, 20, 4, ("order",), trunc_stream=(str(k),), trunc=16)
        counts[phase.subset(20)] += 1
    expected = tries * 16 / 60
    assert np.abs(counts - expected).max() < 5 * np.sqrt(expected)


def test_batches_of_the_stream_have_golden_values() -> None:
    """A change breaks the resume of every existing run."""
    assert pairs(curriculum([100] * 3, 20, 22, 4).global_batch(30)) == GOLDEN_BATCH
    assert pairs(curriculum([100] * 3, 20, 22, 4, order="bucketed").global_batch(30)) == GOLDEN_BUCKET
    np.testing.assert_allclose(curriculum([100] * 3, 20, 22, 4).angles(30), GOLDEN_ANGLES, rtol=1e-6)


def test_a_phase_without_a_whole_batch_is_rejected() -> None:
    with pytest.raises(McvrpError, match="fewer"):
        curriculum([10] * 3, 20, 20, 11)


GOLDEN_BATCH = [(21, 45), (21, 19), (20, 51), (21, 36)]
GOLDEN_BUCKET = [(20, 85), (20, 31), (20, 34), (20, 99)]
GOLDEN_ANGLES = [0.8349341154098511, 0.2614831030368805, 1.454047679901123, 3.6521589756011963]
