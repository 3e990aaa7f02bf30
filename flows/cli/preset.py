"""`mcvrp preset new`: an included preset with the names, sizes and costs of a city of the store."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from mcvrp.flows.cli.app import Outcome, WithPreset
from mcvrp.flows.cli.output import reading
from mcvrp.flows.cli.plan import make_plan
from mcvrp.flows.config.preset import DEFAULT, Preset
from mcvrp.flows.config.spec import PipelineSpec, require_consistent
from mcvrp.flows.config.validation import checked
from mcvrp.model.errors import McvrpError
from mcvrp.model.instances import CAPACITY_TABLE, Range
from mcvrp.model.problem import City
from mcvrp.storage import layout
from mcvrp.storage.cities import stored_city
from mcvrp.storage.driven import driven_days
from mcvrp.storage.store.store import Store

_LARGER = "evening"  # base for larger days or cities than those of the demo
_DEMO_SIZE, _DEMO_CUSTOMERS = 30, 300
_RESEARCH = {"am", "lkh3"}  # attention models, and a solver that is free for research only
_BENCHMARK_SECONDS, _MOST_INSTANCES = 120, 200  # of one core; per size
_LANDMARKS = 8  # 16 and 32 are not better: docs/experiments.md


def new_preset(common: WithPreset, name: str, city: str | None, sizes: Range | None) -> Outcome:
    """Write NAME.toml, a whole preset for a city, to the current folder; an existing file is kept."""
    name = layout.checked_name("preset", name.removesuffix(".toml"))
    store, file = reading(common), f"{name}.toml"
    stored = stored_city(store, city or name)
    days = [day.customers for day in driven_days(store, stored.name)]
    wanted = sizes or (_middle(days) if days else None)
    large = stored.city.customers > _DEMO_CUSTOMERS or (wanted or (0, 0))[1] > _DEMO_SIZE
    base = Preset.read(common.preset or (_LARGER if large else DEFAULT))
    spec = base.spec(common.overrides)
    low, high = wanted or (spec.label.smallest, spec.label.largest)
    if not 1 <= low <= high:
        raise McvrpError(f"--sizes {low} {high} is not a range from 1 upwards: give LO HI")
    fit = _possible(low, stored.city), _possible(high, stored.city)
    if sizes and fit != sizes:
        least, most = _possible(1, stored.city), _possible(stored.city.customers, stored.city)
        raise McvrpError(
            f"--sizes {low} {high}: days of city {stored.name!r} can have {least} to {most} customers"
        )
    data = base.document(common.overrides)
    data["city"] = {"name": stored.name, "source": "imported"}  # the store has it
    _adapt(data, spec, name, fit, stored.city)
    _shorten(data, stored.city)
    text = "\n".join(["# All fields: mcvrp preset fields", *_lines(data, ""), ""])
    spec = Preset(file, text).spec()
    require_consistent(spec)
    spec.label.rules_in(stored.city).capacity_range(spec.label.largest)
    if not Store.open(".").put_new(file, text.encode()):
        raise McvrpError(f"{file} exists: remove it, or give another name")
    document = {"preset": file, "base": base.name, "sizes": fit}
    described = f"customers per day: {fit[0]} to {fit[1]}"
    return Outcome(document, f"{described}\n{file}: run mcvrp plan --preset {file}")


def _middle(sizes: Sequence[int]) -> Range:
    """Return the range of the middle 99 % of ``sizes``."""
    low, high = map(int, np.quantile(sizes, (0.005, 0.995), method="inverted_cdf"))
    return low, high


def _possible(n: int, city: City) -> int:
    """Return ``n`` within the customers of ``city`` and the paper's table, if that has its capacities."""
    least, most = (1, n) if city.capacity else (CAPACITY_TABLE[0][0], CAPACITY_TABLE[-1][1])
    return min(max(n, least), most, city.customers)


def _adapt(data: dict[str, Any], spec: PipelineSpec, name: str, sizes: Range, city: City) -> None:
    """Change names and sizes of ``data``, that of ``spec``, for as many labels in all, and its solver."""
    label, train, benchmark = data["label"], data["train"], data["benchmark"]
    old, last, (low, high) = spec.label.smallest, spec.label.largest, sizes

    def fitting(n: int) -> int:
        return _possible(round(low + (n - old) * (high - low) / max(1, last - old)), city)

    label |= {"dataset": name, "smallest": low, "largest": high}
    train |= {"run": name, "dataset": name, "model": name, "smallest": low, "held_out": f"{name}-held-out"}
    for part in (label, *train["phases"]):
        for field in {"count", "held_out", "trunc"} & part.keys():
            part[field] = max(1, round(part[field] * (last - old + 1) / (high - low + 1)))
        for field in {"first", "last"} & part.keys():
            part[field] = fitting(part[field])
    for part in (benchmark, data.get("attention", {})):
        part |= {"sizes": sorted(set(map(fitting, part["sizes"])))} if "sizes" in part else {}
    benchmark["run"] = name
    if city.matrix is not None and spec.train.network.pointer:
        train["network"].setdefault("landmarks", _LANDMARKS)


def _shorten(data: dict[str, Any], city: City) -> None:
    """Leave methods for research out of the benchmark of ``data``, and instances beyond about a minute."""
    benchmark = data["benchmark"]
    data.pop("attention", None)
    benchmark.pop("attention", None)
    benchmark["methods"] = [name for name in benchmark["methods"] if name not in _RESEARCH]
    benchmark["instances"] = 1  # per size
    of_one = sum(cost.core_hours for cost in make_plan(checked(PipelineSpec, data), city)[-2:])
    benchmark["instances"] = min(max(round(_BENCHMARK_SECONDS / 3600 / of_one), 1), _MOST_INSTANCES)


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
