"""Style of all figures: colours, axes, sizes, and their files.

The palette is that of Okabe and Ito, which is safe for colour-blind readers; fonts are readable at half size.
pyplot's global state is not used.
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
_MIN_WIDTH = 8.4  # inches, for a legend of all methods
FONT = 12


def in_unit(unit: str) -> str:
    """Return the unit for an axis label; the unit of a synthetic city is the side of its square."""
    return "" if unit == "" else " (city's side = 1)" if unit == "unit" else f" ({unit})"


def show_lengths(axis: Axes, largest: float, unit: str, names: tuple[str, str] = ("x", "y")) -> None:
    """Label the axes of a map whose coordinates are in ``unit``; large values in metres become kilometres."""
    for side, title in zip((axis.xaxis, axis.yaxis), names, strict=True):
        label_lengths(side, largest, unit, title)


def label_lengths(side: Axis, largest: float, unit: str, title: str) -> None:
    """Label an axis with values up to ``largest`` in ``unit``; large values in metres become kilometres."""
    factor, name = readable_unit(unit, largest)
    if factor != 1:
        side.set_major_formatter(FuncFormatter(lambda value, _: f"{value * factor:g}"))
    side.set_label_text(f"{title}{in_unit(name)}")


def panel_grid(count: int, columns: int, width: float, height: float) -> tuple[Figure, list[Axes]]:
    """Return a figure and its ``count`` styled axes, each at least ``width`` by ``height`` inches."""
    columns = min(count, columns)
    rows = math.ceil(count / columns)
    size = max(width * columns, _MIN_WIDTH), height * rows
    figure = Figure(figsize=size, dpi=DPI, layout="constrained")
    axes = [figure.add_subplot(rows, columns, k + 1) for k in range(count)]
    for axis in axes:
        style(axis)
    return figure, axes


def style(axis: Axes) -> None:
    """Apply the common style to ``axis``."""
    for side in ("top", "right"):
        axis.spines[side].set_visible(False)
    axis.grid(True, color="#E4E4E4", linewidth=0.8)
    axis.set_axisbelow(True)
    axis.tick_params(labelsize=FONT - 1)
    for text in (axis.xaxis.label, axis.yaxis.label, axis.title):
        text.set_fontsize(FONT)


def png(figure: Figure) -> bytes:
    """Return ``figure`` as PNG, byte-identical for equal figures."""
    buffer = io.BytesIO()
    # `savefig` would compute the layout and draw the figure twice
    FigureCanvasAgg(figure).print_png(buffer, metadata={"Software": None})
    return buffer.getvalue()


def svg(figure: Figure) -> bytes:
    """Return ``figure`` as SVG, byte-identical for equal figures."""
    buffer = io.BytesIO()
    with rc_context({"svg.hashsalt": "mcvrp"}):
        FigureCanvasSVG(figure).print_svg(buffer, metadata={"Date": None, "Creator": None})
    return buffer.getvalue()
