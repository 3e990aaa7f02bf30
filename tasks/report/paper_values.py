"""Published figures of the paper (Tables 3 to 8), shown beside ours if the setting is the paper's."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from io import StringIO
from typing import Any

import pandas as pd

from mcvrp.model.instances import Rules
from mcvrp.model.problem import City
from mcvrp.tasks.report.metrics import Line, Percentiles

PAPERS_HGS = (
    "The paper's HGS probably ran with 10,000 vehicles, as in its authors' public code, which makes it 2 to "
    "4 % worse from N = 100 on (benchmark.hgs_fleet = 10000)."
)
PAPER_CUSTOMERS = 10_000  # addresses of the paper's city (Sec. 5.1)
_DIFFERENCES = {1: -1.05, 1000: 0.81}  # percent, of the model to HGS best of so many (Sec. 6.2 and 6.3, text)
_LARGEST_OF_MANY, _MANY, _FEW = 400, 1_000, 100  # customers; instances a size up to it, and beyond (Sec. 5.3)

TestFigures = dict[str, float]  # by column of published/tests.csv


def is_papers_setting(city: City, rules: Rules) -> bool:
    """Return whether costs on ``city`` with orders of ``rules`` are comparable with the paper's.

    That is for 10,000 addresses in the unit square, the depot in the centre, and the paper's demands and
    capacities (Sec. 5.1, Table 1). Uniformity of the addresses is not checked.
    """
    return (
        city.customers == PAPER_CUSTOMERS
        and city.matrix is None
        and (city.origin, city.scale, city.unit) == ((0.0, 0.0), 1.0, "unit")
        and city.xy[0].tolist() == [0.5, 0.5]
        and rules == Rules()
    )


@cache
def published(table: str) -> dict[tuple[int, str, int], Line]:
    """Return the figures of a table ("training", "larger", "lkh3" or "am") by (n, method, samples)."""
    lines = {}
    for row in _records("tables.csv"):
        if row["table"] == table:
            key = row["n"], row["method"], row["samples"]
            lines[key] = Line(
                *key,
                instances=_MANY if row["n"] <= _LARGEST_OF_MANY else _FEW,
                wins=None if pd.isna(row["wins"]) else int(row["wins"]),
                cost=_range(row, "cost"),
                gap=_range(row, "gap"),
                seconds=None if pd.isna(row["seconds"]) else row["seconds"],
            )
    return lines


@cache
def published_tests() -> dict[tuple[tuple[str, int], tuple[str, int]], TestFigures]:
    """Return the figures of Tables 7 and 8 by their methods ((x, samples), (y, samples))."""
    return {
        ((row.pop("x"), row.pop("x_samples")), (row.pop("y"), row.pop("y_samples"))): row
        for row in _records("tests.csv")
    }


def published_distances(base: tuple[str, int], other: tuple[str, int]) -> tuple[float, float, float] | None:
    """Return the paper's mean distances of ``base`` and ``other`` and their mean relative difference (%).

    It compares its model's best of 1,000 samples with one run of HGS and the best of 1,000, on 400 customers
    (Sec. 6.2 and 6.3; means from Tables 7 and 8); None for other methods.
    """
    for one, name in (((other, base), "xy"), ((base, other), "yx")):
        figures = published_tests().get(one)
        if figures:
            mean = {method: figures[f"{axis}_mean"] for method, axis in zip((other, base), name, strict=True)}
            return mean[base], mean[other], _DIFFERENCES[base[1]]
    return None


def _range(row: dict[str, Any], name: str) -> Percentiles | None:
    mean, low, high = (row[f"{name}_{part}"] for part in ("mean", "p10", "p90"))
    return None if pd.isna(mean) else Percentiles(mean, low, high)


def _records(name: str) -> list[dict[str, Any]]:
    text = (files(__package__) / "published" / name).read_text()
    rows: list[dict[Any, Any]] = pd.read_csv(StringIO(text), comment="#").to_dict("records")
    return rows
