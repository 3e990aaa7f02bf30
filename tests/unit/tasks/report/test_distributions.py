"""Figures of costs: their size, and the values that they name, also with little data."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from mcvrp.tasks.report import distributions
from mcvrp.tasks.report.paper_values import published_distances
from mcvrp.tasks.support.pictures import png, svg
from tests.support.figures import drawn, pixels
from tests.support.results import rows_of

HGS, NS = ("HGS", 1), ("FM-MCVRP (NS)", 16)


def results(sizes: tuple[int, ...], count: int) -> pd.DataFrame:
    costs = {n: np.linspace(4, 6, count) * n / 20 for n in sizes}
    return pd.concat(
        rows_of(method, n, (costs[n] * factor).tolist(), samples)
        for n in sizes
        for (method, samples), factor in ((HGS, 1.0), (NS, 1.02))
    )


@pytest.mark.parametrize(("sizes", "count"), [((20,), 1), ((20, 22, 24, 50), 30)])
def test_distances_have_one_panel_per_size(sizes: tuple[int, ...], count: int) -> None:
    picture = distributions.distance_distributions(results(sizes, count), HGS, NS, "m")
    height, width = pixels(picture).shape[:2]
    assert drawn(picture) > 0.01
    assert height == pytest.approx(-(-len(sizes) // 3) * 3.4 * 150, abs=2)
    least = 8.4  # a legend of all methods has to fit
    assert width == pytest.approx(max(min(len(sizes), 3) * 3.7, least) * 150, abs=2)


def test_a_method_without_answers_is_left_out_of_the_gaps() -> None:
    rows = results((20,), 10)
    failed = rows[rows["method"] == "HGS"].assign(method="LKH-3", cost=np.nan)
    with_failed = distributions.gap_boxes(pd.concat([rows, failed]), HGS, [("LKH-3", 1), NS])
    assert png(with_failed) == png(distributions.gap_boxes(rows, HGS, [NS]))


def test_the_papers_figure_names_means_and_their_difference() -> None:
    figure = distributions.paper_distances(results((20,), 10), 20, HGS, NS, "m")
    (axis,) = figure.axes
    assert axis.get_title(loc="left").endswith("mean relative difference +2.00 %")
    assert axis.get_xlabel() == "Total distance (m)"
    (legend,) = figure.legends
    labels = [text.get_text() for text in legend.get_texts()]
    assert labels == ["HGS: mean 5.00", "FM-MCVRP (NS), best of 16: mean 5.10"]
    assert drawn(figure) > 0.01


def test_published_values_are_shown() -> None:
    """-1.05 % and 0.81 %, means 35.08, 34.43 and 34.71 (Sec. 6.2, 6.3); none for other samples."""
    ours = ("FM-MCVRP (NS)", 1000)
    single, best = (published_distances(("HGS", samples), ours) for samples in (1, 1000))
    assert single == (35.08, 34.71, -1.05)
    assert best == (34.43, 34.71, 0.81)
    assert published_distances(("HGS", 100), ours) is None
    assert published_distances(("HGS", 1), ("FM-MCVRP (NS)", 100)) is None
    figure = distributions.paper_distances(results((20,), 10), 20, HGS, NS, published=single)
    assert figure.axes[0].get_title(loc="left").endswith("+2.00 % (the paper: -1.05 %)")
    labels = [text.get_text() for text in figure.legends[0].get_texts()]
    assert labels[-1] == "the paper's FM-MCVRP (NS), best of 16: mean 34.71"


def test_equal_data_are_equal_bytes() -> None:
    rows = results((20,), 10)
    one, other = (distributions.distance_distributions(rows, HGS, NS) for _ in range(2))
    assert png(one) == png(other)
    assert svg(one) == svg(other)
