"""What all pictures share: colours, axes, how they are written; and the curves of a training run.

Colours are those of Okabe and Ito, which people with any colour vision tell apart; fonts are
large enough to read at half size. Nothing here touches pyplot's global state.
"""

from __future__ import annotations

import io
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, PercentFormatter

from tasks.lengths import readable_unit

BLUE, ORANGE, GREEN, PINK = "#0072B2", "#D55E00", "#009E73", "#CC79A7"
GREY = "#666666"
DPI = 150
_LEAST_WIDTH = 8.4  # inches: a legend of all methods has to fit
FONT = 12

Method = tuple[str, int]  # its label and its number of samples


def training_curves(phases: Sequence[tuple[str, pd.DataFrame]]) -> Figure:
    """Return loss and accuracy of both token streams over all phases' steps.

    Parameters
    ----------
    phases
        Name and metrics of each phase in order, with the columns step (from 1 in every
        phase), problem_loss, solution_loss, problem_accuracy, solution_accuracy (shares of
        1); what a phase does not train is NaN.
    """
    figure = Figure(figsize=(9, 6.4), dpi=DPI, layout="constrained")
    loss, accuracy = figure.subplots(2, 1, sharex=True)
    starts = _phase_starts(phases)
    streams = (
        ("problem", "Problem tokens (encoder)", BLUE),
        ("solution", "Solution tokens (decoder)", ORANGE),
    )
    for axis, quantity in ((loss, "loss"), (accuracy, "accuracy")):
        style(axis)
        for stream, label, colour in streams:
            curves = [frame[f"{stream}_{quantity}"].to_numpy(np.float64) for _, frame in phases]
            steps = [s + f["step"].to_numpy(np.float64) for (_, f), s in zip(phases, starts, strict=False)]
            for k, (x, y) in enumerate(zip(steps, curves, strict=True)):
                axis.plot(x, y, color=colour, alpha=0.25, linewidth=1)
                smooth = pd.Series(y).rolling(max(1, len(y) // 40), min_periods=1, center=True).mean()
                axis.plot(x, smooth, color=colour, linewidth=2.2, label=label if k == 0 else None)
        for boundary in starts[1:-1]:
            axis.axvline(boundary, color=GREY, linestyle=":", linewidth=1.4)
    for (name, _), start, stop in zip(phases, starts, starts[1:], strict=False):
        if stop > start:
            place: dict[str, Any] = {
                "xycoords": ("data", "axes fraction"),
                "ha": "center",
                "va": "bottom",
                "color": GREY,
            }
            loss.annotate(name, ((start + stop) / 2, 1.01), fontsize=FONT, **place)
    loss.set_xlim(0, 1.02 * max(1, starts[-1]))  # else a phase with one row has no place for its name
    loss.set_yscale("log")
    loss.set_ylabel("Loss per token (nats)")
    accuracy.set_ylabel("Accuracy (%)")
    accuracy.yaxis.set_major_formatter(PercentFormatter(1.0, symbol=""))
    accuracy.set_ylim(0, 1.03)
    accuracy.set_xlabel("Training step")
    handles, labels = accuracy.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=2, frameon=False, fontsize=FONT - 1)
    return figure


def method_name(method: Method) -> str:
    """Return a method as legends name it: "HGS", "HGS, best of 4", "FM-MCVRP (NS), best of 1,000"."""
    label, samples = method
    return label if samples == 1 else f"{label}, best of {samples:,}"


def _phase_starts(phases: Sequence[tuple[str, pd.DataFrame]]) -> list[int]:
    """Return the step at which each phase starts and, last, the step at which all ended."""
    lengths = [int(frame["step"].max()) if len(frame) else 0 for _, frame in phases]
    return [0, *np.cumsum(lengths).tolist()]


def in_unit(unit: str) -> str:
    """Return the unit as it follows an axis label: of a synthetic city the side of its square is 1."""
    return "" if unit == "" else " (city's side = 1)" if unit == "unit" else f" ({unit})"


def show_lengths(axis: Axes, largest: float, unit: str, names: tuple[str, str] = ("x", "y")) -> None:
    """Label the axes of a map whose coordinates are in ``unit``; many metres are shown as kilometres."""
    for side, title in zip((axis.xaxis, axis.yaxis), names, strict=True):
        label_lengths(side, largest, unit, title)


def label_lengths(side: Axis, largest: float, unit: str, title: str) -> None:
    """Label one axis whose values, up to ``largest``, are in ``unit``; many metres become kilometres."""
    factor, name = readable_unit(unit, largest)
    if factor != 1:
        side.set_major_formatter(FuncFormatter(lambda value, _: f"{value * factor:g}"))
    side.set_label_text(f"{title}{in_unit(name)}")


def panel_grid(count: int, columns: int, width: float, height: float) -> tuple[Figure, list[Axes]]:
    """Return a figure of ``count`` styled axes, each at least ``width`` by ``height`` inches, and them."""
    columns = min(count, columns)
    rows = math.ceil(count / columns)
    size = max(width * columns, _LEAST_WIDTH), height * rows
    figure = Figure(figsize=size, dpi=DPI, layout="constrained")
    axes = [figure.add_subplot(rows, columns, k + 1) for k in range(count)]
    for axis in axes:
        style(axis)
    return figure, axes


def style(axis: Axes) -> None:
    """Give ``axis`` the looks that all pictures share."""
    for side in ("top", "right"):
        axis.spines[side].set_visible(False)
    axis.grid(True, color="#E4E4E4", linewidth=0.8)
    axis.set_axisbelow(True)
    axis.tick_params(labelsize=FONT - 1)
    for text in (axis.xaxis.label, axis.yaxis.label, axis.title):
        text.set_fontsize(FONT)


def png(figure: Figure) -> bytes:
    """Return ``figure`` as PNG, the same bytes for the same figure."""
    FigureCanvasAgg(figure)
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", metadata={"Software": None})
    return buffer.getvalue()


def svg(figure: Figure) -> bytes:
    """Return ``figure`` as SVG, the same bytes for the same figure."""
    buffer = io.BytesIO()
    with rc_context({"svg.hashsalt": "mcvrp"}):
        FigureCanvasSVG(figure).print_svg(buffer, metadata={"Date": None, "Creator": None})
    return buffer.getvalue()
