"""Plot of a trial: change of the cost of each instance from champion to challenger."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from mcvrp.tasks.retrain.decide import changes
from mcvrp.tasks.support.pictures import BLUE, DPI, FONT, GREY, ORANGE, png, style
from mcvrp.tasks.support.t_test import paired_t_test

_ROW = 0.55  # inches
_JITTER = 0.28  # rows


def comparison_figure(pairs: pd.DataFrame, worst: float) -> bytes:
    """Return a PNG with one row per part and size: instances as dots, their mean and its 95 % interval.

    A line marks ``worst``, the tolerated increase of a mean in percent.
    """
    both = changes(pairs)
    groups = [
        (f"{part}, {sizes} customers", rows["change"].to_numpy(np.float64))
        for (part, sizes), rows in both.groupby(["part", "sizes"], sort=False)
    ]
    figure = Figure(figsize=(9, 1.9 + _ROW * max(1, len(groups))), dpi=DPI, layout="constrained")
    axis = figure.subplots()
    style(axis)
    jitter = np.random.default_rng(0)  # seeded, so that the plot is reproducible
    for row, (_, change) in enumerate(groups):
        height = row + _JITTER * jitter.uniform(-1, 1, len(change))
        axis.plot(change, height, ".", color=GREY, alpha=0.35, markersize=5, label=_once(row, "instance"))
        mean = float(change.mean())
        if len(change) >= 2:
            test = paired_t_test(change, np.zeros(len(change)))
            label = _once(row, "95 % interval of the mean")
            axis.plot([test.ci_low, test.ci_high], [row, row], color=BLUE, linewidth=5, label=label)
        axis.plot(
            [mean], [row], "D", color=BLUE, markersize=8, markeredgecolor="white", label=_once(row, "mean")
        )
    axis.axvline(0, color="black", linewidth=1)
    axis.axvline(worst, color=ORANGE, linestyle="--", linewidth=1.4, label="tolerated increase of a mean")
    axis.set_yticks(range(len(groups)), [name for name, _ in groups], fontsize=FONT - 1)
    axis.set_ylim(max(1, len(groups)) - 0.5, -0.5)
    axis.set_xlabel("Change of the cost from champion to challenger (%), lower is better", fontsize=FONT)
    handles, labels = axis.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False, fontsize=FONT - 2)
    return png(figure)


def _once(row: int, label: str) -> str | None:
    return label if row == 0 else None
