"""Best cost after t seconds: against a loop over samples, and with missing answers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from mcvrp.storage.benchmarks import PartRow, read_results, write_results
from mcvrp.storage.store.store import Store
from mcvrp.tasks.report.time_curves import _KNOWN, _OTHERS, Curve, SizeCurves, cost_against_time, time_curves
from tests.support.figures import drawn
from tests.support.results import ROW


def row(method: str, index: int, costs: list[float], seconds: dict[int, float], n: int = 20) -> PartRow:
    return replace(
        ROW,
        method=method,
        n=n,
        index=index,
        samples=tuple(seconds),
        seconds=tuple(seconds.values()),
        costs=tuple(costs),
        routes=((1,),) if costs else None,
        failure=None if costs else "none",
    )


def curves(store: Store, *rows: PartRow) -> list[SizeCurves]:
    write_results(store, "b", rows)
    return time_curves(read_results(store, "b"))


def test_the_cost_is_the_mean_of_the_best_so_far(store: Store) -> None:
    """Reference: after k samples, the mean over instances of the minimum of the first k."""
    costs = np.random.default_rng(0).uniform(4, 6, (3, 8))
    seconds = {1: 2.0, 4: 5.0, 8: 13.0}
    (size,) = curves(store, *(row("A", i, values.tolist(), seconds) for i, values in enumerate(costs)))
    (curve,) = size.curves
    expected = [np.mean([min(values[:k]) for values in costs]) for k in range(1, 9)]
    np.testing.assert_allclose(curve.cost, expected)
    np.testing.assert_allclose(curve.seconds, [2, 3, 4, 5, 7, 9, 11, 13])  # interpolated
    assert curve.marks.tolist() == [0, 3, 7]


def test_beams_of_several_widths_have_a_point_each(store: Store) -> None:
    """Each width is a search of its own: the costs of a beam of 4 say nothing on one of 1."""
    (size,) = curves(
        store,
        *(row("BS", i, [10.0 + i], {1: 1.0}) for i in range(2)),
        *(row("BS", i, [4.0 + i], {4: 3.0}) for i in range(2)),
    )
    (curve,) = size.curves
    assert (curve.seconds.tolist(), curve.cost.tolist()) == ([1.0, 3.0], [10.5, 4.5])
    assert curve.marks.tolist() == [0, 1]


def test_methods_are_compared_on_the_instances_that_all_solved(store: Store) -> None:
    """Instance 1, without an answer by B, is excluded; so is C, without any answer."""
    (size,) = curves(
        store,
        row("A", 0, [4.0], {1: 1.0}),
        row("A", 1, [8.0], {1: 1.0}),
        row("B", 0, [5.0], {1: 3.0}),
        row("B", 1, [], {1: 3.0}),
        row("C", 0, [], {1: 1.0}),
        row("C", 1, [], {1: 1.0}),
    )
    assert (size.n, size.instances) == (20, 1)
    assert {curve.method: curve.cost.tolist() for curve in size.curves} == {"A": [4.0], "B": [5.0]}


def test_a_curve_begins_when_every_instance_has_an_answer(store: Store) -> None:
    """If the first sample is infeasible on one instance, the curve starts at the second."""
    (size,) = curves(store, row("A", 0, [float("inf"), 4.0], {2: 2.0}), row("A", 1, [6.0, 5.0], {2: 4.0}))
    (curve,) = size.curves
    assert (curve.seconds.tolist(), curve.cost.tolist(), curve.marks.tolist()) == ([3.0], [4.5], [0])


def test_an_outcome_is_a_point_at_its_time(store: Store) -> None:
    """A search from 100 samples has one cost per instance, and no curve before it."""
    (size,) = curves(store, row("A", 0, [4.0], {100: 5.0}), row("A", 1, [6.0], {100: 7.0}))
    (curve,) = size.curves
    assert (curve.seconds.tolist(), curve.cost.tolist(), curve.marks.tolist()) == ([6.0], [5.0], [0])


def test_sizes_ascend_and_a_long_curve_is_thinned(store: Store) -> None:
    long = np.linspace(9, 5, 1000).tolist()
    sizes = curves(
        store, row("A", 0, long, {1: 1.0, 100: 60.0, 1000: 600.0}, n=50), row("A", 0, [4.0], {1: 1.0})
    )
    assert [size.n for size in sizes] == [20, 50]
    (curve,) = sizes[1].curves
    assert len(curve.cost) <= 203
    assert curve.seconds[curve.marks].tolist() == [1.0, 60.0, 600.0]


def test_methods_look_different_in_the_curves() -> None:
    looks = [*_KNOWN.values(), *_OTHERS]
    assert len({marker for _, _, marker in looks}) == len(looks)
    assert len({(colour, dash) for colour, dash, _ in looks}) == len(looks)


def test_cost_against_time_has_one_panel_per_size_and_any_number_of_methods() -> None:
    curves = [
        Curve(f"method {k}", np.array([0.1 * k, 1.0 * k]), np.array([5.0 + k, 4.0 + k]), np.array([0, 1]))
        for k in range(1, 12)
    ]
    once = Curve("once", np.array([3.0]), np.array([4.5]), np.array([0]))
    sizes = [SizeCurves(20, 9, (*curves, once)), SizeCurves(50, 0, ())]
    figure = cost_against_time(sizes, "m")
    assert len(figure.axes) == 1
    assert figure.axes[0].get_ylabel() == "Mean distance of the\nbest answer (m)"
    assert drawn(figure) > 0.02
    assert drawn(cost_against_time([])) > 0
