"""Shared looks of all pictures: colours, axes, sizes, and how they are written.

Colours are those of Okabe and Ito, which people with any colour vision tell apart; fonts are
large enough to read at half size. Nothing here touches pyplot's global state.
"""

from __future__ import annotations

import io
import math

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from mcvrp.tasks.support.text import readable_unit

BLUE, ORANGE, GREEN, PINK = "#0072B2", "#D55E00", "#009E73", "#CC79A7"
GREY = "#666666"
DPI = 150
_LEAST_WIDTH = 8.4  # inches: a legend of all methods has to fit
FONT = 12


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
    buffer = io.BytesIO()
    # not `savefig`, which lays everything out and draws it once more beforehand
    FigureCanvasAgg(figure).print_png(buffer, metadata={"Software": None})
    return buffer.getvalue()


def svg(figure: Figure) -> bytes:
    """Return ``figure`` as SVG, the same bytes for the same figure."""
    buffer = io.BytesIO()
    with rc_context({"svg.hashsalt": "mcvrp"}):
        FigureCanvasSVG(figure).print_svg(buffer, metadata={"Date": None, "Creator": None})
    return buffer.getvalue()
