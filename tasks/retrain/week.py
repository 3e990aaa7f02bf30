"""Summary of a model's nights of the last week: promotions, refused files, and how its costs have changed."""

from __future__ import annotations

import datetime
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.figure import Figure

from mcvrp.storage import layout
from mcvrp.storage.models.registry import pointer
from mcvrp.storage.nights import NightRecord, night_records
from mcvrp.storage.store.store import Store
from mcvrp.tasks.retrain.card import NightMetrics, drawn_means, read_metrics
from mcvrp.tasks.support.pictures import BLUE, DPI, FONT, GREY, ORANGE, png, style

DAYS = 7
CHANGE = "change of the cost of the champion (drawn instances)"


@dataclass(frozen=True)
class Night:
    """A decided night, when its record was written, and its metrics."""

    time: datetime.datetime
    record: NightRecord
    metrics: NightMetrics
    kept: bool  # its challenger has been promoted, and no rollback has left it

    @property
    def change(self) -> float:
        """Change of the mean cost from champion to challenger in percent, as in `nights_table`."""
        return drawn_means(self.metrics)[-1]


def week_of(store: Store, model: str, now: datetime.datetime) -> list[Night]:
    """Return the nights of ``model`` that were decided in the `DAYS` days before ``now``, by number."""
    nights, champion = [], pointer(store, model, "champion")
    standing = {champion.version, *champion.before}
    for record in night_records(store, model):
        entry = store.stat(layout.night_record(model, record.name))
        time = datetime.datetime.fromtimestamp(entry.modified, datetime.UTC) if entry else now
        if now - time <= datetime.timedelta(days=DAYS):
            kept = record.applied and record.challenger in standing
            nights.append(Night(time, record, read_metrics(store, model, record.name), kept))
    return [night for night in nights if drawn_means(night.metrics)]


def week_figures(nights: Sequence[Night]) -> dict[str, str]:
    """Return the key figures of a week."""
    promoted = [
        f"version {night.record.challenger}" + ("" if night.kept else " (rolled back)")
        for night in nights
        if night.record.applied
    ]
    first = f", from night {nights[0].record.number}" if nights else ""
    return {
        "nights": f"{len(nights)} in the last {DAYS} days{first}",
        "promotions": ", ".join(promoted) or "none",
        CHANGE: f"{_of_champion(nights)[-1]:+.2f} %" if nights else "none",
    }


def week_picture(nights: Sequence[Night]) -> bytes:
    """Return a PNG of the change of the cost in each night, and of that of the champion since the first."""
    figure = Figure(figsize=(9, 3.6), dpi=DPI, layout="constrained")
    axis = figure.subplots()
    style(axis)
    places, changes = range(len(nights)), [night.change for night in nights]
    colours = [BLUE if night.kept else GREY for night in nights]
    label = "challenger against champion (blue: promoted, not rolled back)"
    axis.bar(places, changes, color=colours, width=0.5, label=label)
    axis.plot(places, _of_champion(nights), "o-", color=ORANGE, label="champion since the first night")
    axis.axhline(0, color="black", linewidth=1)
    dates = {night.time.date() for night in nights}
    form = "%a %d %b" if len(dates) == len(nights) else "%a %d %b\n%H:%M UTC"
    labels = [f"{night.record.number}\n{night.time:{form}}" for night in nights]
    every = math.ceil(len(nights) / DAYS)  # for more labels there is no room
    axis.set_xticks(places[::every], labels[::every])
    axis.set_xlim(-0.5, max(DAYS, len(nights)) - 0.5)  # bars of a fixed width, also in the first night
    axis.set_ylabel("Change of the cost,\ndrawn instances (%)", fontsize=FONT)
    figure.legend(loc="outside lower center", ncols=2, frameon=False, fontsize=FONT - 2)
    return png(figure)


def _of_champion(nights: Sequence[Night]) -> list[float]:
    """Return the change of the champion's cost since before the first night in percent, after each night.

    Promotions that were rolled back are left out, as are those by hand, which nothing has measured.
    """
    factors = [1 + night.change / 100 if night.kept else 1.0 for night in nights]
    return [100 * (float(factor) - 1) for factor in np.cumprod(factors)]
