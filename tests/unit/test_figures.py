"""Pictures: every picture is a PNG of the promised size, also where data is scarce."""

from __future__ import annotations

import io

import numpy as np
import pandas as pd
import pytest
from matplotlib.image import imread

from model.instances import InstanceStream, Rules
from model.problem import City, Solution, canonical
from tasks import figures
from tasks.figures import Panel

HGS, NS = ("HGS", 1), ("FM-MCVRP (NS)", 16)
CITY = City.uniform(60, seed=2)


def results(sizes: tuple[int, ...], count: int) -> pd.DataFrame:
    frames = []
    for n in sizes:
        base = np.linspace(4, 6, count) * n / 20
        for (method, samples), factor in ((HGS, 1.0), (NS, 1.02)):
            rows = {
                "method": method,
                "n": n,
                "index": range(count),
                "samples": samples,
                "cost": base * factor,
            }
            frames.append(pd.DataFrame(rows))
    return pd.concat(frames)


def pixels(png: bytes) -> np.ndarray:
    """The picture as an array (height, width, 4); fails when it is no PNG."""
    return imread(io.BytesIO(png), format="png")


def drawn(png: bytes) -> float:
    """The share of pixels that are not white."""
    return float((pixels(png)[..., :3].min(axis=-1) < 0.95).mean())


@pytest.mark.parametrize(("sizes", "count"), [((20,), 1), ((20, 22, 24, 50), 30)])
def test_distances_have_a_panel_a_size(sizes: tuple[int, ...], count: int) -> None:
    """One instance is enough; four sizes make two rows of three panels."""
    png = figures.distance_distributions(results(sizes, count), HGS, NS, "m")
    height, width = pixels(png).shape[:2]
    assert drawn(png) > 0.01
    assert height == pytest.approx(-(-len(sizes) // 3) * 3.4 * 150, abs=2)
    assert width == pytest.approx(min(len(sizes), 3) * 3.7 * 150, abs=2)


def test_a_method_without_answers_is_left_out_of_the_gaps() -> None:
    """The picture with a method that failed everywhere is the one without it."""
    rows = results((20,), 10)
    failed = rows[rows["method"] == "HGS"].assign(method="LKH-3", cost=np.nan)
    with_failed = figures.gap_boxes(pd.concat([rows, failed]), HGS, [("LKH-3", 1), NS])
    assert with_failed == figures.gap_boxes(rows, HGS, [NS])


def test_pictures_are_the_same_for_the_same_data() -> None:
    """No clock and no version inside: equal data, equal bytes."""
    rows = results((20,), 10)
    assert figures.distance_distributions(rows, HGS, NS) == figures.distance_distributions(rows, HGS, NS)


@pytest.mark.parametrize("n", [1, 25, 60])
def test_solutions_of_any_number_of_routes_can_be_drawn(n: int) -> None:
    """A route a customer needs more routes than there are colours; both panels are drawn."""
    instance = InstanceStream(CITY, 1, "test", Rules(capacity=(9, 9)))(n, 0)
    alone = canonical(CITY, Solution.of([i] for i in instance.ids.tolist()))
    one = figures.solutions(CITY, instance, [Panel("one", alone)])
    two = figures.solutions(CITY, instance, [Panel("one", alone), Panel("two", alone)])
    assert pixels(two).shape[1] == 2 * pixels(one).shape[1]
    assert drawn(two) > 0.02


def test_training_curves_take_phases_that_train_only_the_encoder() -> None:
    """NaN for the solution stream, a phase without rows, and a loss of zero draw without complaint."""
    first = pd.DataFrame(
        {
            "step": [5, 10],
            "problem_loss": [3.0, 0.0],
            "solution_loss": [np.nan, np.nan],
            "problem_accuracy": [0.1, 1.0],
            "solution_accuracy": [np.nan, np.nan],
        }
    )
    second = first.assign(solution_loss=[2.0, 1.0], solution_accuracy=[0.3, 0.6])
    png = figures.training_curves([("I", first), ("II-A", second), ("II-B", second.iloc[:0])])
    assert drawn(png) > 0.01
    assert png != figures.training_curves([("I", first), ("II-A", first), ("II-B", second.iloc[:0])])
