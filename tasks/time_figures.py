"""The picture of cost against time: how good each method's best answer is after t seconds, by size."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import cycle
from typing import Any

from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator, NullLocator

from tasks.figures import BLUE, FONT, GREEN, ORANGE, PINK, label_lengths, panel_grid
from tasks.paper_tables import AM, GREEDY, HGS, LKH3, SAMPLED
from tasks.time_curves import SizeCurves

_SKY, _AMBER, _WINE, _BROWN, _INK, _SLATE = "#56B4E9", "#E69F00", "#882255", "#5B3A00", "#000000", "#6B6B6B"
_KNOWN = {  # colour, dash and marker, no two markers alike; HGS and the model as in the other pictures
    HGS: (BLUE, "-", "o"),
    "PyVRP": (_SKY, "-", "s"),
    LKH3: (GREEN, "-", "p"),
    AM: (PINK, "--", "v"),
    GREEDY: (_AMBER, "--", "^"),
    SAMPLED: (ORANGE, "-", "D"),
    "FM-MCVRP (BS)": (_AMBER, ":", "P"),
    "FM-MCVRP (NS) + local search": (_WINE, "-", "X"),
    "FM-MCVRP (NS) + re-construction": (_BROWN, "--", "*"),
    "HGS (equal time)": (BLUE, ":", "<"),
    "PyVRP (equal time)": (_SKY, ":", ">"),
    "FM-MCVRP (NS) + HGS (equal time)": (_INK, "-.", "h"),
    "FM-MCVRP (NS) + PyVRP (equal time)": (_SLATE, "-.", "d"),
}
_OTHERS = ((_INK, ":", "$1$"), (_SLATE, "-", "$2$"), (_BROWN, ":", "$3$"), (_WINE, ":", "$4$"))
_TICKS = {1e-3: "1 ms", 0.01: "10 ms", 0.1: "0.1 s", 1: "1 s", 10: "10 s", 60: "1 min", 600: "10 min"}
_TICKS |= {3600: "1 h", 36_000: "10 h"}
_COARSE, _CROWDED = (1e-3, 0.1, 10, 600, 36_000), 1e4  # the ticks of an axis that spans more than so much
_COLUMNS = 3
_LEGEND_WIDTH, _LEGEND_LINE = 4.1, 0.25  # inches that the longest label takes, and a line of labels
_MARGIN = 2.0  # of the time axis beyond the first and the last answer, a factor


def cost_against_time(sizes: Sequence[SizeCurves], unit: str = "") -> Figure:
    """Return the mean cost of each method's best answer so far over the time of an instance, a panel a size.

    A method has nothing before its first answer, and keeps its best after its last; marks are
    the numbers of samples at which the time was measured.
    """
    drawn = [size for size in sizes if size.curves]
    methods = list(dict.fromkeys(curve.method for size in drawn for curve in size.curves))
    others = [method for method in methods if method not in _KNOWN]
    looks = {**_KNOWN, **dict(zip(others, cycle(_OTHERS), strict=False))}
    figure, axes = panel_grid(max(len(drawn), 1), columns=_COLUMNS, width=4.2, height=3.5)
    for axis, size in zip(axes, drawn, strict=False):
        first = min(curve.seconds[0] for curve in size.curves) / _MARGIN
        last = max(curve.seconds[-1] for curve in size.curves) * _MARGIN
        for curve in size.curves:
            colour, dash, marker = looks[curve.method]
            line: dict[str, Any] = {"color": colour, "linestyle": dash, "linewidth": 2}
            seconds, cost = [*curve.seconds, last], [*curve.cost, curve.cost[-1]]
            axis.step(seconds, cost, where="post", **line)
            x, y = curve.seconds[curve.marks], curve.cost[curve.marks]
            axis.plot(
                x, y, linestyle="none", marker=marker, color=colour, markersize=9, markeredgecolor="white"
            )
        axis.set_xscale("log")
        ticks = _TICKS if last < _CROWDED * first else {t: _TICKS[t] for t in _COARSE}
        axis.set_xticks(list(ticks), list(ticks.values()))
        axis.set_xlim(first, last)
        axis.xaxis.set_minor_locator(NullLocator())
        axis.yaxis.set_major_locator(MaxNLocator(5))
        axis.set_title(f"{size.n} customers, {size.instances:,} instances", fontsize=FONT)
        axis.set_xlabel("Time per instance", fontsize=FONT)
    dearest = max((float(curve.cost[0]) for size in drawn for curve in size.curves), default=0.0)
    for k, axis in enumerate(axes):
        label_lengths(axis.yaxis, dearest, unit, "Mean distance of the\nbest answer")
        axis.yaxis.label.set_fontsize(FONT - 1)
        if k % _COLUMNS:
            axis.set_ylabel("")
    handles = [
        Line2D([], [], color=colour, linestyle=dash, linewidth=2, marker=marker, label=method)
        for method, (colour, dash, marker) in ((method, looks[method]) for method in methods)
    ]
    if handles:
        columns = max(1, int(figure.get_figwidth() // _LEGEND_WIDTH))
        figure.set_figheight(figure.get_figheight() + _LEGEND_LINE * math.ceil(len(handles) / columns))
        figure.legend(
            handles=handles, loc="outside lower center", ncols=columns, frameon=False, fontsize=FONT - 1
        )
    return figure
