"""Card of a dataset: README.md with statistics by size and the provenance of its labels."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from humanize import naturalsize

from mcvrp.model.problem import City
from mcvrp.storage import layout
from mcvrp.storage.labels.label_files import LabelFile
from mcvrp.storage.labels.statistics import SizeStatistics, size_statistics
from mcvrp.storage.markdown import card, code_block, section, table
from mcvrp.storage.provenance import provenance_in, provenance_line
from mcvrp.storage.store.store import Store
from mcvrp.tasks.support.progress import duration
from mcvrp.tasks.support.text import counted, unit_text

_MOST_ROWS = 40  # of the table by size; of more sizes `_SELECTED` are shown
_SELECTED = 20
COLUMNS = {  # of a label file
    "index": "i of instance (n, i); n is the folder's name",
    "ids": "customers: node numbers of the city in ascending order, without the depot (0)",
    "demands": "demand of each customer",
    "capacity": "capacity of a vehicle",
    "routes": "solution in canonical form: a list of node numbers per route, without the depot",
    "cost": "total travel cost in the city's unit, computed in float64 from the city",
    "source": "`solver`, `driven`, or `model` if our model found better routes",
    "solver": "solver of the routes",
    "version": "program and version of the solver",
    "seed": "random seed of the solver",
    "budget": "budget of the solver",
    "runtime": "wall-clock time of the solver in seconds, longer on busy cores",
    "cpu": "processor on which the solver ran",
}
_READING = """
`mcvrp verify {dataset}` verifies every label from its bytes. The folder `data/` beside this file holds the
labels and nothing else, partitioned by n: `pandas.read_parquet("data")` reads all of them. Node numbers in
`ids` and `routes` are rows of the city's `city.parquet`, row 0 is the depot. The columns `source` to `cpu`
say how each label was made. The fingerprint is that of city, instances and routes.
"""


def write_card(
    store: Store, city: City, dataset: str, manifest: Mapping[str, Any], files: Sequence[LabelFile]
) -> None:
    """Write README.md of ``dataset`` from its manifest and files, if it differs."""
    text = card_text(dataset, city, manifest, size_statistics(files)).encode()
    if store.find(layout.card(dataset)) != text:
        store.put(layout.card(dataset), text)


def card_text(
    dataset: str, city: City, manifest: Mapping[str, Any], statistics: Sequence[SizeStatistics]
) -> str:
    """Return the card as Markdown."""
    spec, rows = manifest.get("spec") or {}, sum(size.rows for size in statistics)
    sizes = " to ".join(dict.fromkeys(str(size.n) for size in (*statistics[:1], *statistics[-1:])))
    seconds = sum(size.seconds for size in statistics)
    kind = "straight lines" if city.matrix is None else "from a matrix, given or of roads"
    figures = {
        "city": f"`{city.city_id}`, {city.customers:,} addresses",
        "costs": f"{kind}, in {unit_text(city.unit)}",
        "instances": f"the {spec['split']} split of seed {spec['seed']}" if "seed" in spec else "",
        "solver time": f"{seconds / 3600:,.0f} core-hours"
        if seconds >= 3600
        else f"{duration(seconds)} of a core",
        "fingerprint": f"`{manifest.get('fingerprint')}`",
    }
    absent = sum(size.absent for size in statistics)
    columns = table(["Column", "Holds"], [[f"`{name}`", text] for name, text in COLUMNS.items()])
    return card(
        f"Labels `{dataset}`",
        {name: text for name, text in figures.items() if text},
        f"**Without a label: {counted(absent, 'instance')}** that no attempt has solved. `mcvrp inspect` of "
        "their file shows the reasons."
        if absent
        else "",
        section("By size", size_tables(statistics) if statistics else ""),
        section("Spec", code_block("json", json.dumps(manifest.get("spec"), indent=2))),
        section("Verifying and reading", _READING.format(dataset=dataset), columns),
        lead=f"{rows:,} solved instances of the Montreal capacitated vehicle routing problem"
        + (f", {sizes} customers each." if sizes else "."),
        made=provenance_line(provenance_in(manifest), layout.label_dir(dataset)),
    )


def size_tables(statistics: Sequence[SizeStatistics]) -> str:
    """Return two Markdown tables by size, of a selection if there are many: labels with totals, solutions."""
    # A single table of all columns would be wider than a page of Prefect, which truncates it.
    shown = selection(statistics, _SELECTED) if len(statistics) > _MOST_ROWS else list(statistics)
    rows = [
        [
            f"{size.n}",
            f"{size.rows:,}",
            f"{size.absent:,}",
            f"{size.runtime:.3g} s",
            naturalsize(size.bytes),
        ]
        for size in shown
    ]
    solutions = [[f"{size.n}", f"{size.cost:,.3f}", f"{size.routes:.2f}"] for size in shown]
    name = f"all {len(statistics)} sizes" if len(shown) < len(statistics) else "all"
    labels, absent, size_bytes = (
        sum(getattr(size, column) for size in statistics) for column in ("rows", "absent", "bytes")
    )
    seconds = duration(sum(size.seconds for size in statistics))
    rows.append([name, f"{labels:,}", f"{absent:,}", f"{seconds} in all", naturalsize(size_bytes)])
    counted = table(["Customers", "Labels", "Unsolved", "Solver time per label", "Size"], rows, right=True)
    distances = table(["Customers", "Distance", "Routes"], solutions, right=True)
    return f"{counted}\n\n{distances}"


def selection(statistics: Sequence[SizeStatistics], most: int) -> list[SizeStatistics]:
    """Return at most ``most`` of the sizes, evenly spaced, the first and the last included."""
    count = min(most, len(statistics))
    selected = np.unique(np.linspace(0, len(statistics) - 1, count).round().astype(int)).tolist()
    return [statistics[k] for k in selected]
