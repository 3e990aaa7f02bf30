"""Plots of a run's losses: one row of two panels per phase, in the store and in Prefect."""

from __future__ import annotations

import io
import math
from dataclasses import asdict

import pandas as pd
import pytest
from matplotlib.image import imread

from mcvrp.flows.server.artifacts import training_curve
from mcvrp.storage.layout import run_losses
from mcvrp.storage.store.store import Store
from mcvrp.storage.training.metrics import StepMetrics, write_metrics
from mcvrp.tasks.support.pictures import png
from mcvrp.tasks.train.card import loss_figure, write_run_card
from tests.support.training import CITY, small_spec


def rows(count: int, *, encoder: bool = False, measured: bool = False) -> list[StepMetrics]:
    """Return metrics of a phase with a decreasing loss."""
    solution = (math.nan, math.nan) if encoder else (1.0, 0.5)
    return [
        StepMetrics(
            *(10 * k, 160 * k, 3.0 / k, 0.5, solution[0] * (1 + 1 / k), solution[1], 0.01, 1.0, 1e4, 0.1),
            greedy_gap=20.0 / k if measured and k % 3 == 0 else math.nan,
        )
        for k in range(1, count + 1)
    ]


def frame(count: int, **kind: bool) -> pd.DataFrame:
    return pd.DataFrame(map(asdict, rows(count, **kind)))


@pytest.mark.parametrize("count", [1, 2, 500])
def test_a_phase_is_a_row(count: int) -> None:
    """From the first row of metrics on, also if a stream is not trained or the gap not measured."""
    first = ("I", frame(count, encoder=True))
    one = imread(io.BytesIO(png(loss_figure([first]))))
    more = ("II", frame(count)), ("III", frame(count, measured=True))
    three = imread(io.BytesIO(png(loss_figure([first, *more]))))
    assert one.shape[1] == three.shape[1]
    assert three.shape[0] > 2.5 * one.shape[0]
    assert (one[..., :3].min(axis=-1) < 0.95).mean() > 0.01


def test_a_phase_by_policy_shows_what_its_samples_cost() -> None:
    """Instead of the loss on problem tokens, with both held-out gaps, which start before the first step."""
    frame = pd.DataFrame(
        asdict(row)
        | {"sampled_cost": 6.0 - row.step / 1000, "best_cost": 5.5, "best_gap": row.greedy_gap / 4}
        for row in rows(30, measured=True)
    )
    frame.loc[0, ["problem_loss", "solution_loss", "sampled_cost", "best_cost"]] = math.nan
    figure = loss_figure([("II", frame.assign(sampled_cost=math.nan)), ("III", frame)])
    titles = {axis.get_title() for axis in figure.axes}
    assert {"Phase II: problem tokens", "Phase III: samples"} < titles
    labels = {line.get_label() for axis in figure.axes for line in axis.lines}
    gap = "gap on the held-out set, best of several samples (right scale)"
    assert {"mean of the samples", "best of the samples", gap} < labels


def test_the_plot_has_the_phases_that_have_started(store: Store) -> None:
    """Without metrics of any phase there is no plot, neither in the store nor in Prefect."""
    write_run_card(store, CITY, small_spec(run="r"))
    assert not store.exists(run_losses("r"))
    assert training_curve(store, "r", ["I", "II"]) == ""
    write_metrics(store, "r", "I", rows(5, encoder=True))
    write_run_card(store, CITY, small_spec(run="r"))
    assert store.get(run_losses("r")) == png(loss_figure([("I", frame(5, encoder=True))]))
    markdown = training_curve(store, "r", ["I", "II"])
    assert markdown.startswith("![Losses of I](data:image/png;base64,")
