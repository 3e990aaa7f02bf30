"""`mcvrp preset new`: an included preset with the names, sizes and costs of a city of the store."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from mcvrp.flows.cli.app import Common, Outcome
from mcvrp.flows.cli.output import reading
from mcvrp.flows.config.preset import DEFAULT, Preset, preset_names
from mcvrp.flows.config.spec import require_consistent
from mcvrp.model.errors import McvrpError, reason, shown
from mcvrp.model.instances import CAPACITY_TABLE, Range
from mcvrp.model.problem import City
from mcvrp.storage import layout
from mcvrp.storage.cities import Addresses, stored_city
from mcvrp.storage.driven import customers_per_day
from mcvrp.storage.store.store import Store
from mcvrp.tasks.city.importer import middle
from mcvrp.tasks.driven.rules import refuse_dates
from mcvrp.tasks.files.file_bytes import Faults, file_bytes
from mcvrp.tasks.files.tabular import read_tabular
from mcvrp.tasks.solve.orders import days_of
from mcvrp.tasks.solvers.registry import SOLVERS

_LARGER = "evening"  # base for larger days or cities than those of the demo
_DEMO_SIZE, _DEMO_CUSTOMERS = 30, 300
_LANDMARKS = 8  # 16 and 32 are not better: docs/experiments.md
_ITERATIONS = 200  # of PyVRP per label, as in the benchmark of the demo


def new_preset(
    common: Common, name: str, city: str | None, sizes: Range | None, history: str | None
) -> Outcome:
    """Write NAME.toml, a whole preset for a city, to the current folder; an existing file is kept."""
    store, file = reading(common), Path(f"{layout.checked_name('preset', name)}.toml")
    stored = stored_city(store, city or name)
    days = _days(store, history, stored.addresses) if history else customers_per_day(store, stored.name)
    wanted = sizes or (middle(np.array(days)) if days else None)
    large = stored.city.customers > _DEMO_CUSTOMERS or (wanted or (0, 0))[1] > _DEMO_SIZE
    base = common.preset or (_LARGER if large else DEFAULT)
    if base not in preset_names():
        raise McvrpError(f"--preset {shown(base)} is not included: give one of {', '.join(preset_names())}")
    label = Preset.read(base).spec(common.overrides).label
    low, high = wanted or (label.smallest, label.largest)
    if not 1 <= low <= high:
        raise McvrpError(f"--sizes {low} {high} is not a range from 1 upwards: give LO HI")
    fitting = _possible(low, stored.city), _possible(high, stored.city)
    data = Preset.read(base).document(common.overrides)
    data["city"] = {"name": stored.name, "source": "imported"}
    _fit(data, name, fitting, stored.city)
    text = "\n".join(["# All fields: docs/settings.md", *_lines(data, ""), ""])
    spec = Preset(file.name, text).spec()
    require_consistent(spec)
    spec.label.rules_in(stored.city).capacity_range(spec.label.largest)
    try:
        with file.open("x", encoding="utf-8") as written:
            written.write(text)
    except OSError as error:
        if not isinstance(error, FileExistsError):  # a full disk
            file.unlink(missing_ok=True)
        raise McvrpError(f"{file} cannot be written ({reason(error)})") from None
    described = f"customers per day: {fitting[0]} to {fitting[1]} (wanted: {low} to {high})"
    document = {"preset": str(file), "base": base, "sizes": fitting}
    return Outcome(document, f"{described}\n{file}: run mcvrp plan --preset {file}")


def _days(store: Store, history: str, addresses: Addresses) -> list[int]:
    """Return the number of customers of each day of the file ``history``."""
    table = read_tabular(*file_bytes(store, history)).calling(addresses.columns)
    date, customer = table.column("date"), table.column("customer", "id")
    if date is None or customer is None:
        raise McvrpError(f"{table.name} needs the columns date and customer: add them, or give --sizes")
    cells = pd.DataFrame({"text": table.text(date), "customer": table.ids(customer)}, table.rows)
    orders = cells[(cells != "").all(axis="columns")]
    text = orders["text"].astype("string")
    day, faults = days_of(text, addresses.dates), Faults(table.name)
    refuse_dates(text, day, addresses.dates, faults)
    faults.check()
    return orders.assign(day=day).drop_duplicates(["day", "customer"]).groupby("day").size().tolist()


def _possible(size: int, city: City) -> int:
    """Return ``size`` within the customers of ``city`` and the paper's table, if that has its capacities."""
    least, most = (1, city.customers) if city.capacity else (CAPACITY_TABLE[0][0], CAPACITY_TABLE[-1][1])
    return min(max(size, least), most, city.customers)


def _fit(data: dict[str, Any], name: str, sizes: Range, city: City) -> None:
    """Change names and sizes of ``data``, a preset, for as many labels in all, and what depends on costs."""
    label, train, benchmark = data["label"], data["train"], data["benchmark"]
    old, last, (low, high) = label["smallest"], label["largest"], sizes

    def fitting(n: int) -> int:
        return _possible(round(low + (n - old) * (high - low) / max(1, last - old)), city)

    label |= {"dataset": name, "smallest": low, "largest": high}
    train |= {"run": name, "dataset": name, "model": name, "smallest": low, "held_out": f"{name}-held-out"}
    for part in (label, *train["phases"]):
        for field in {"count", "held_out", "trunc"} & part.keys():
            part[field] = max(1, round(part[field] * (last - old + 1) / (high - low + 1)))
        for field in {"first", "last"} & part.keys():
            part[field] = min(max(fitting(part[field]), low), high)
    for part in (benchmark, data.get("attention", {})):
        part |= {"sizes": sorted(set(map(fitting, part["sizes"])))} if "sizes" in part else {}
    benchmark["run"] = name
    if isinstance(counts := benchmark.get("instances"), list):
        benchmark["instances"] = counts[: len(benchmark["sizes"])]
    if city.matrix is not None and train["network"].get("pointer"):
        train["network"].setdefault("landmarks", _LANDMARKS)
    try:
        SOLVERS["hgs"].require_costs(city)
    except McvrpError:
        label |= {"solver": "pyvrp", "iterations": _ITERATIONS}
        for option in ("budget", "tuned"):
            label.pop(option, None)


def _lines(table: Mapping[str, Any], path: str) -> Iterator[str]:
    """Yield the lines of a table in TOML."""
    parts = {key: value if isinstance(value, list) else [value] for key, value in table.items()}
    inner = [key for key, values in parts.items() if values and isinstance(values[0], dict)]
    yield from (f"{key} = {json.dumps(table[key], ensure_ascii=False)}" for key in table if key not in inner)
    for key in inner:
        below = f"{path}.{key}".strip(".")
        for part in parts[key]:
            yield f"\n[[{below}]]" if isinstance(table[key], list) else f"\n[{below}]"
            yield from _lines(part, below)
