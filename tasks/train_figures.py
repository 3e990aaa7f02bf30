"""The picture of a run's losses as the paper draws them: a row a phase, problem beside solution tokens."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter
from numpy.typing import NDArray

from storage import layout
from storage.metrics import StepMetrics, read_metrics
from storage.store import Store
from tasks.figures import BLUE, FONT, GREEN, ORANGE, png, style

Phase = tuple[str, Sequence[StepMetrics]]  # its name and its rows of metrics
_WIDTH, _HEIGHT, _DPI = 4.8, 2.9, 120  # inches a panel; four phases stay below 300 kB
_LOG_FROM = 3  # a loss that falls by less has a linear scale
_SMOOTHED = 40  # the thick line is the mean over one of so many parts of a phase
_STREAMS = (("problem", "Problem tokens", BLUE), ("solution", "Solution tokens", ORANGE))


def write_loss_grid(store: Store, run: str, phases: Sequence[str]) -> None:
    """Write the picture of the losses of ``phases`` so far into the run's folder, none before the first."""
    begun = begun_phases(store, run, phases)
    if begun:
        store.put(layout.run_losses(run), loss_grid(begun))


def begun_phases(store: Store, run: str, phases: Sequence[str]) -> list[Phase]:
    """Return those of ``phases`` that have metrics, with them."""
    read = [(name, read_metrics(store, run, name)) for name in phases]
    return [(name, rows) for name, rows in read if rows]


def loss_grid(phases: Sequence[Phase]) -> bytes:
    """Return `loss_figure` as PNG."""
    return png(loss_figure(phases))


def loss_figure(phases: Sequence[Phase]) -> Figure:
    """Return the training loss of each phase, and the held-out gap where measured (Sec. 6)."""
    figure = Figure(figsize=(2 * _WIDTH, _HEIGHT * len(phases) + 0.4), dpi=_DPI, layout="constrained")
    axes = figure.subplots(len(phases), 2, squeeze=False)
    gaps = False
    for (name, rows), row in zip(phases, axes, strict=True):
        steps = np.array([metrics.step for metrics in rows])
        for (stream, title, colour), axis in zip(_STREAMS, row, strict=True):
            style(axis)
            axis.set_title(f"Phase {name}: {title.lower()}", fontsize=FONT)
            axis.set_xlabel("Training step")
            axis.xaxis.set_major_locator(MaxNLocator(5, integer=True))
            axis.xaxis.set_major_formatter("{x:,.0f}")
            _loss(axis, steps, np.array([getattr(m, f"{stream}_loss") for m in rows]), colour)
        gaps |= _gap(row[1], steps, np.array([metrics.greedy_gap for metrics in rows]))
    if gaps:
        handles, labels = next(a for a in figure.axes if a.get_ylabel() == _GAP).get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower right", frameon=False, fontsize=FONT - 1)
    return figure


_GAP = "Held-out gap (%)"


def _loss(axis: Axes, steps: NDArray[np.int64], loss: NDArray[np.float64], colour: str) -> None:
    if np.isnan(loss).all():
        axis.text(
            0.5, 0.5, "not trained in this phase", transform=axis.transAxes, ha="center", color="#666666"
        )
        axis.set_yticks([])
        axis.set_xlim(0, max(steps[-1], 1))
        return
    axis.set_ylabel("Loss per token (nats)")
    axis.plot(steps, loss, color=colour, alpha=0.3, linewidth=1)
    axis.plot(steps, _smooth(loss), color=colour, linewidth=2.2)
    if loss.max() > _LOG_FROM * loss.min():
        axis.set_yscale("log")
        axis.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axis.yaxis.set_minor_formatter(NullFormatter())
    axis.yaxis.set_major_formatter("{x:g}")


def _gap(axis: Axes, steps: NDArray[np.int64], gap: NDArray[np.float64]) -> bool:
    """Draw the gap where it was measured, on a scale of its own; return whether it was."""
    measured = ~np.isnan(gap)
    if measured.any():
        right = axis.twinx()
        right.plot(
            steps[measured],
            gap[measured],
            color=GREEN,
            marker="D",
            markersize=5,
            linewidth=1.4,
            label="greedy gap on the held-out set (right scale)",
        )
        right.set_ylabel(_GAP, color=GREEN, fontsize=FONT)
        right.set_ylim(0, 1.1 * max(gap[measured].max(), 1.0))
        right.spines["top"].set_visible(False)
        right.tick_params(labelsize=FONT - 1, labelcolor=GREEN)
    return bool(measured.any())


def _smooth(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the centred running mean, over fewer values at the ends."""
    half = max(1, len(values) // _SMOOTHED) // 2
    sums = np.concatenate([[0.0], np.cumsum(values)])
    places = np.arange(len(values))
    first, last = np.maximum(places - half, 0), np.minimum(places + half + 1, len(values))
    return (sums[last] - sums[first]) / (last - first)
