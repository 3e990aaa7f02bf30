"""Pictures: every picture can be written, in the promised size, also where data is scarce."""

from __future__ import annotations

import io
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure
from matplotlib.image import imread

from mcvrp.model.canonical_form import canonical
from mcvrp.model.instances import InstanceStream, Rules
from mcvrp.model.problem import City, Solution
from mcvrp.tasks.report import distributions, time_curves
from mcvrp.tasks.report.paper_values import PublishedDistances, published_distances
from mcvrp.tasks.report.routes_picture import Panel, solutions
from mcvrp.tasks.report.time_curves import Curve, SizeCurves, cost_against_time
from mcvrp.tasks.support.pictures import png, svg
from mcvrp.tasks.train.curves import training_curves

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


def pixels(figure: Figure) -> np.ndarray:
    """The picture as an array (height, width, 4); fails when it is no PNG."""
    return imread(io.BytesIO(png(figure)), format="png")


def drawn(figure: Figure) -> float:
    """The share of pixels that are not white."""
    return float((pixels(figure)[..., :3].min(axis=-1) < 0.95).mean())


@pytest.mark.parametrize(("sizes", "count"), [((20,), 1), ((20, 22, 24, 50), 30)])
def test_distances_have_a_panel_a_size(sizes: tuple[int, ...], count: int) -> None:
    """One instance is enough; four sizes make two rows of three panels."""
    picture = distributions.distance_distributions(results(sizes, count), HGS, NS, "m")
    height, width = pixels(picture).shape[:2]
    assert drawn(picture) > 0.01
    assert height == pytest.approx(-(-len(sizes) // 3) * 3.4 * 150, abs=2)
    least = 8.4  # a legend of all methods has to fit
    assert width == pytest.approx(max(min(len(sizes), 3) * 3.7, least) * 150, abs=2)


def test_a_method_without_answers_is_left_out_of_the_gaps() -> None:
    """The picture with a method that failed everywhere is the one without it."""
    rows = results((20,), 10)
    failed = rows[rows["method"] == "HGS"].assign(method="LKH-3", cost=np.nan)
    with_failed = distributions.gap_boxes(pd.concat([rows, failed]), HGS, [("LKH-3", 1), NS])
    assert png(with_failed) == png(distributions.gap_boxes(rows, HGS, [NS]))


def test_pictures_are_the_same_for_the_same_data() -> None:
    """No clock and no version inside: equal data, equal bytes."""
    rows = results((20,), 10)
    one, other = (distributions.distance_distributions(rows, HGS, NS) for _ in range(2))
    assert png(one) == png(other)
    assert svg(one) == svg(other)


def test_a_picture_is_also_an_svg_without_a_clock() -> None:
    """For print: vector graphics, addresses without an order as one image inside."""
    instance = InstanceStream(CITY, 1, "test", Rules(capacity=(9, 9)))(5, 0)
    alone = canonical(CITY, Solution.of([i] for i in instance.ids.tolist()))
    text = svg(solutions(CITY, instance, [Panel("one", alone)])).decode()
    root = ElementTree.fromstring(text)
    assert root.tag.endswith("svg")
    assert text.count("<image") == 1
    assert "<dc:date>" not in text


def test_the_papers_picture_names_means_and_their_difference() -> None:
    """Costs 2 % apart: the title says so, as the paper says it of its two pictures."""
    figure = distributions.paper_distances(results((20,), 10), 20, HGS, NS, "m")
    (axis,) = figure.axes
    assert axis.get_title(loc="left").endswith("mean relative difference +2.00 %")
    assert axis.get_xlabel() == "Total distance (m)"
    (legend,) = figure.legends
    labels = [text.get_text() for text in legend.get_texts()]
    assert labels == ["HGS: mean 5.00", "FM-MCVRP (NS), best of 16: mean 5.10"]
    assert drawn(figure) > 0.01


def test_the_papers_figures_stand_in_its_pictures() -> None:
    """-1.05 % and 0.81 %, means 35.08, 34.43 and 34.71 (Sec. 6.1); of other numbers of samples nothing."""
    ours = ("FM-MCVRP (NS)", 1000)
    single, best = (published_distances(("HGS", samples), ours) for samples in (1, 1000))
    assert single == PublishedDistances(35.08, 34.71, -1.05)
    assert best == PublishedDistances(34.43, 34.71, 0.81)
    assert published_distances(("HGS", 100), ours) is None
    assert published_distances(("HGS", 1), ("FM-MCVRP (NS)", 100)) is None
    figure = distributions.paper_distances(results((20,), 10), 20, HGS, NS, published=single)
    assert figure.axes[0].get_title(loc="left").endswith("+2.00 % (the paper: -1.05 %)")
    labels = [text.get_text() for text in figure.legends[0].get_texts()]
    assert labels[-1] == "the paper's FM-MCVRP (NS), best of 16: mean 34.71"


def test_no_two_methods_look_alike_in_the_curves() -> None:
    """Thirteen markers; colours that two share have different lines."""
    looks = [*time_curves._KNOWN.values(), *time_curves._OTHERS]
    assert len({marker for _, _, marker in looks}) == len(looks)
    assert len({(colour, dash) for colour, dash, _ in looks}) == len(looks)


def test_cost_against_time_has_a_panel_a_size_and_any_number_of_methods() -> None:
    """Twelve methods, more than looks, and a size without answers; a single answer is a mark and a line."""
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
    assert drawn(cost_against_time([])) >= 0


@pytest.mark.parametrize("n", [1, 25, 60])
def test_solutions_of_any_number_of_routes_can_be_drawn(n: int) -> None:
    """A route a customer needs more routes than there are colours; both panels are drawn."""
    instance = InstanceStream(CITY, 1, "test", Rules(capacity=(9, 9)))(n, 0)
    alone = canonical(CITY, Solution.of([i] for i in instance.ids.tolist()))
    one = solutions(CITY, instance, [Panel("one", alone)])
    two = solutions(CITY, instance, [Panel("one", alone), Panel("two", alone)])
    assert pixels(two).shape[1] > pixels(one).shape[1]
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
    curves = training_curves([("I", first), ("II-A", second), ("II-B", second.iloc[:0])])
    assert drawn(curves) > 0.01
    assert png(curves) != png(training_curves([("I", first), ("II-A", first), ("II-B", second.iloc[:0])]))


@pytest.mark.filterwarnings("error:constrained_layout")
def test_training_curves_of_a_single_row_are_a_picture() -> None:
    """A phase of three steps that logged its last has room for its curves, and its name above them."""
    row = pd.DataFrame({"step": [3], "problem_loss": [4.6], "solution_loss": [1.7]})
    figure = training_curves([("II", row.assign(problem_accuracy=0.1, solution_accuracy=0.2))])
    assert png(figure)
