"""`mcvrp preset new`: a preset for a city of the store, adapted from an included one to its days."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePath
from typing import Any

import numpy as np
import pandas as pd
from pydantic import BaseModel

from mcvrp.flows.cli.output import Outcome, aligned, plain, reading
from mcvrp.flows.cli.plan import make_plan
from mcvrp.flows.config.parameters import submodel
from mcvrp.flows.config.preset import DEFAULT, Preset
from mcvrp.flows.config.spec import PipelineSpec, require_sizes
from mcvrp.model.errors import McvrpError, reason
from mcvrp.model.instances import CAPACITY_TABLE, Range
from mcvrp.model.problem import City
from mcvrp.storage import layout
from mcvrp.storage.cities import Addresses, StoredCity, stored_city
from mcvrp.storage.driven import customers_per_day
from mcvrp.storage.store.parsing import parse_toml
from mcvrp.storage.store.store import Store
from mcvrp.tasks.city.importer import middle
from mcvrp.tasks.driven.rules import refuse_dates
from mcvrp.tasks.files.file_bytes import Faults, file_bytes
from mcvrp.tasks.files.tabular import read_tabular
from mcvrp.tasks.solve.orders import days_of
from mcvrp.tasks.solvers.registry import SOLVERS, SolverEntry
from mcvrp.tasks.support.progress import duration
from mcvrp.tasks.support.text import listed

_LARGER = "evening"  # base for larger days or cities than those of the demo
_DEMO_SIZE, _DEMO_CUSTOMERS = 30, 300
_LANDMARKS = 8  # 16 and 32 are not better: docs/experiments.md
_ITERATIONS = 200  # of PyVRP per label, as in the benchmark of the demo
# Fields of a base of one's own that name models and datasets of its city, or depend on its sizes.
_OF_ANOTHER_CITY = {
    "benchmark": ["attention"],
    "attention": ["model"],
    "nightly": ["model", "old", "sizes", "dates"],
    "improve": ["model", "old", "sizes"],
}


def new(options: argparse.Namespace) -> Outcome:
    """Write NAME.toml, a whole preset for a city, to the current folder; an existing file is kept."""
    if options.overrides:
        raise McvrpError("--set: mcvrp preset new writes a file: omit the option, change its fields there")
    store, name = reading(options), layout.checked_name("preset", options.name)
    city, file = stored_city(store, options.city or name), Path(f"{name}.toml")
    wanted, source = _sizes(store, city, options)
    large = city.city.customers > _DEMO_CUSTOMERS or (wanted or (0, 0))[1] > _DEMO_SIZE
    base = Preset.read(options.preset or (_LARGER if large else DEFAULT))
    base.spec()  # valid, even if it is the user's own
    data = parse_toml(base.toml)
    low, high = wanted or (data["label"]["smallest"], data["label"]["largest"])
    sizes = _possible(low, city.city), _possible(high, city.city)
    if wanted and sizes != wanted:
        table = "" if city.city.capacity else " (without capacities of the city, city import --capacity)"
        source = f"{source}, {low} to {high}, which is limited to what is possible{table}"
    _fit(data, name, sizes, city.city)
    data["city"] = {"name": city.name, "source": "imported"}
    text = "".join(f"{line}\n" for line in _lines(data, PipelineSpec, "", set()))
    require_sizes(spec := Preset(file.name, text).spec(), city.city)
    plan = make_plan(spec, file.name, city=city.city)
    figures = {
        "city": f"{city.name}, {plan.customers:,} customers",
        "customers per day": f"{sizes[0]} to {sizes[1]}: {source}",
        "adapted from": f"the preset {base.name}",
        "time of mcvrp run": f"about {duration(plan.seconds)} on {plan.cores} cores (mcvrp plan)",
    }
    head = "".join(f"# {key}: {value}\n" for key, value in figures.items())
    try:
        with file.open("x", encoding="utf-8") as written:
            written.write(f"{head}# All fields: docs/settings.md\n{text}")
    except FileExistsError as error:
        raise McvrpError(f"{file} cannot be written ({reason(error)}): choose another name") from None
    except OSError as error:
        file.unlink(missing_ok=True)
        raise McvrpError(
            f"{file} cannot be written ({reason(error)}): free space, or use another folder"
        ) from None
    document = {"preset": str(file), "base": base.name, "plan": plain(plan)}
    return Outcome(document, f"{aligned(figures)}\n\n{file}: run mcvrp run --preset {file}")


def _sizes(store: Store, city: StoredCity, options: argparse.Namespace) -> tuple[Range | None, str]:
    """Return the range of customers per day, None if it is unknown, and its source."""
    if options.sizes:
        low, high = options.sizes
        if not 1 <= low <= high:
            raise McvrpError(f"--sizes {low} {high} is not a range from 1 upwards: give LO HI")
        return (low, high), "as given"
    if options.history:
        counts, source = _counts(store, options.history, city.addresses), PurePath(options.history).name
    else:
        counts, source = customers_per_day(store, city.name), layout.driven_dir(city.name)
    if not counts:
        return None, "those of the preset: for your days, give --sizes LO HI or --history FILE"
    return middle(np.array(counts)), f"the middle 99 % of {len(counts):,} days in {source}"


def _counts(store: Store, file: str, addresses: Addresses) -> list[int]:
    table = read_tabular(*file_bytes(store, file)).calling(addresses.columns)
    date, customer = table.column("date"), table.column("customer", "id")
    if date is None or customer is None:
        columns = listed(table.frame.columns, most=8)
        raise McvrpError(
            f"{table.name} needs the columns date and customer (columns: {columns}): add them, or "
            "give --sizes"
        )
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
    label["dataset"] = train["run"] = train["dataset"] = train["model"] = benchmark["run"] = name
    if "held_out" in train:
        train["held_out"] = f"{name}-held-out"
    (old, last), (low, high), phases = (label["smallest"], label["largest"]), sizes, train["phases"]
    share = (last - old + 1) / (high - low + 1)

    def fitting(n: int) -> int:
        return _possible(round(low + (n - old) * (high - low) / max(1, last - old)), city)

    train["smallest"], label["smallest"], label["largest"] = low, low, high
    for part, field in ((label, "count"), (label, "held_out"), *((phase, "trunc") for phase in phases)):
        if part.get(field):
            part[field] = max(1, round(part[field] * share))
    for phase in phases:
        phase |= {field: min(max(fitting(phase[field]), low), high) for field in ("first", "last")}
    if isinstance(counts := benchmark.get("instances"), list):
        by_size = dict(zip(map(fitting, benchmark["sizes"]), counts, strict=True))
        benchmark["instances"] = [count for _, count in sorted(by_size.items())]
    for part in (benchmark, data.get("attention", {})):
        if "sizes" in part:
            part["sizes"] = sorted(set(map(fitting, part["sizes"])))
    for section, fields in _OF_ANOTHER_CITY.items():
        for field in fields:
            data.get(section, {}).pop(field, None)
    network = train.get("network", {})
    # Networks like the paper's stay as they are, and a base model has a network of its own.
    if city.matrix is not None and network.get("pointer") and "base" not in train:
        network.setdefault("landmarks", _LANDMARKS)
    solver = SOLVERS[label.get("solver", "hgs")]
    if not _supports(solver, city):
        label["solver"] = "pyvrp"
        if "budget" in label or "time_limit" not in solver.takes:  # its iterations are none of PyVRP's
            label["iterations"] = benchmark.get("pyvrp_iterations", _ITERATIONS)
        for option in set(solver.takes) - set(SOLVERS["pyvrp"].takes):
            label.pop(option, None)


def _supports(solver: SolverEntry, city: City) -> bool:
    try:
        solver.require_costs(city)
    except McvrpError:
        return False
    return True


def _lines(
    table: Mapping[str, Any], model: type[BaseModel] | None, path: str, described: set[str]
) -> Iterator[str]:
    """Yield the lines of a table in TOML; the first of each field has its description as a comment."""
    inner: dict[str, Any] = {}
    for key, value in table.items():
        if isinstance(value, dict) or (isinstance(value, list) and value and isinstance(value[0], dict)):
            inner[key] = value
            continue
        text, name = model.model_fields[key].description if model else None, f"{path}.{key}"
        comment = f"  # {text}" if text and name not in described else ""
        described.add(name)
        yield f"{key} = {json.dumps(value, ensure_ascii=False)}{comment}"
    for key, value in inner.items():
        below = f"{path}.{key}".strip(".")
        for part in value if isinstance(value, list) else [value]:
            yield f"\n[[{below}]]" if isinstance(value, list) else f"\n[{below}]"
            yield from _lines(part, submodel(key, model) if model else None, below, described)
