"""Tests of the summary of a week of nights."""

from __future__ import annotations

import datetime
import itertools
from dataclasses import asdict
from pathlib import Path

import pytest
from matplotlib.figure import Figure

from mcvrp.storage import layout
from mcvrp.storage.models.registry import move_champion, pointer, roll_back
from mcvrp.storage.nights import NightRecord, write_record
from mcvrp.storage.store.store import Store
from mcvrp.tasks.retrain import week
from mcvrp.tasks.retrain.card import NightMetrics
from mcvrp.tasks.retrain.decide import DRAWN, HELD_OUT, Bucket
from mcvrp.tasks.retrain.labels import Mix
from mcvrp.tasks.retrain.week import CHANGE, DAYS, week_figures, week_of, week_picture


def write_night(store: Store, number: int, change: float, *, promoted: bool) -> None:
    name = f"{layout.NIGHT}{number:012x}"
    buckets = (Bucket(DRAWN, "20", 30, 2.0, 2.0, change), Bucket(HELD_OUT, "20", 10, 2.0, 2.0, 9.0))
    metrics = NightMetrics(Mix(name, {20: 60}, 18, 1), buckets, {}, 1.0)
    store.put_json(layout.night_metrics("m", name), asdict(metrics))
    reasons, days = ("it is better",), ("2026-02-01 checksum",)
    if promoted:
        store.put_json(layout.model_card("m", number + 1), {})
        move_champion(store, "m", number + 1, pointer(store, "m", "champion"))
    write_record(
        store, "m", NightRecord(name, number, 1, number + 1, "d", promoted, reasons, days, applied=promoted)
    )


def test_a_week_counts_promotions_and_multiplies_their_gains(tmp_path: Path) -> None:
    """The champion's cost changes by that of promoted challengers alone, without what was rolled back."""
    store, now = Store.open(tmp_path / "store"), datetime.datetime.now(datetime.UTC)
    for number, change in ((1, -10.0), (2, 5.0), (3, -10.0)):
        write_night(store, number, change, promoted=change < 0)
    nights = week_of(store, "m", now)
    assert [night.record.number for night in nights] == [1, 2, 3]
    assert [night.change for night in nights] == pytest.approx([-10, 5, -10])
    figures = week_figures(nights)
    assert figures["promotions"] == "version 2, version 4"
    assert figures[CHANGE] == "-19.00 %"
    assert week_picture(nights).startswith(b"\x89PNG")
    roll_back(store, "m")
    figures = week_figures(week_of(store, "m", now))
    assert figures["promotions"] == "version 2, version 4 (rolled back)"
    assert figures[CHANGE] == "-10.00 %"
    assert week_of(store, "m", now + datetime.timedelta(days=DAYS + 1)) == []
    assert week_figures([])["promotions"] == "none"


def test_the_labels_of_many_nights_do_not_overlap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    figures: list[Figure] = []
    monkeypatch.setattr(week, "png", figures.append)
    store = Store.open(tmp_path / "store")
    for number in range(1, 31):
        write_night(store, number, -1.0, promoted=False)
    week_picture(week_of(store, "m", datetime.datetime.now(datetime.UTC)))
    [axis] = figures[0].axes
    figures[0].draw_without_rendering()
    labels = axis.get_xticklabels()
    assert all(label.get_text().endswith("UTC") for label in labels)  # nights of one date
    boxes = [label.get_window_extent() for label in labels]
    assert all(left.x1 < right.x0 for left, right in itertools.pairwise(boxes))
