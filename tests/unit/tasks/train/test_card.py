"""Plots of a run's losses: one row of panels per phase."""

from __future__ import annotations

import math
from dataclasses import asdict

import pandas as pd

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
            *(10 * k, 160 * k, 3.0 / k, 0.5, solution[0] * (1 + 1 / k), solution[1], 0.01, 1.0, 1e4),
            greedy_gap=20.0 / k if measured and k % 3 == 0 else math.nan,
        )
        for k in range(1, count + 1)
    ]


def frame(count: int, **kind: bool) -> pd.DataFrame:
    return pd.DataFrame(map(asdict, rows(count, **kind)))


def test_the_plot_has_the_phases_that_have_started(store: Store) -> None:
    """Without metrics of any phase there is no plot."""
    write_run_card(store, CITY, small_spec(run="r"))
    assert not store.exists(run_losses("r"))
    write_metrics(store, "r", "I", rows(5, encoder=True))
    write_run_card(store, CITY, small_spec(run="r"))
    assert store.get(run_losses("r")) == png(loss_figure([("I", frame(5, encoder=True))]))
