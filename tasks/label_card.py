"""The card of a dataset: README.md with its figures, statistics by size, and where its labels come from."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from model.problem import City
from storage import layout
from storage.statistics import QUANTITIES, Maker, SizeStatistics, read_statistics
from storage.store import Store
from tasks.label_statistics import update_statistics
from tasks.lengths import unit_words
from tasks.markdown import table
from tasks.progress import duration

_ROWS = 40  # of the table by size; of more sizes a selection is shown
_SHOWN = 20
FIGURES = {
    "cost": "Total distance of a label, in the unit of the city",
    "routes": "Routes of a label",
    "runtime": "Time that the solver took for a label",
}
# What each column of a label file holds.
COLUMNS = {
    "index": "i of instance (n, i); n is the folder's name",
    "ids": "the customers: node numbers of the city, ascending, the depot (0) left out",
    "demands": "the demand of each",
    "capacity": "what a vehicle holds",
    "routes": "the solution: a list of node numbers a route, in canonical form, the depot left out",
    "cost": "its total travel cost in the city's unit, in float64 from the city",
    "source": "`solver`, `driven`, or `model` where a model of ours found better routes",
    "solver": "who found it",
    "version": "the program and its version",
    "seed": "the solver's seed",
    "budget": "what the solver might spend",
    "runtime": "seconds that it took",
    "cpu": "the processor that it took them on",
}


def write_card(store: Store, city: City, dataset: str, workers: int | None = None) -> None:
    """Write README.md, figures and statistics of ``dataset``, whose manifest has to be up to date.

    Only the sizes whose shards have changed are read.

    Raises
    ------
    McvrpError
        If a shard cannot be read.
    """
    before = read_statistics(store, dataset)
    statistics = update_statistics(store, dataset, workers)
    for quantity in QUANTITIES:
        path = figure_path(dataset, quantity)
        if statistics and (statistics != before or not store.exists(path)):
            from tasks.label_figures import spread_figure  # here: matplotlib takes its time to import

            store.put(path, spread_figure(statistics, quantity, city.unit))
    manifest = store.get_json(layout.manifest(dataset))
    text = card_text(dataset, city, manifest, statistics)
    store.put(layout.card(dataset), text.encode())


def figure_path(dataset: str, quantity: str) -> str:
    """Return where the card's picture of ``quantity`` lies."""
    return f"{layout.label_dir(dataset)}/figures/{quantity}.png"


def card_text(
    dataset: str, city: City, manifest: Mapping[str, Any], statistics: Sequence[SizeStatistics]
) -> str:
    """Return the card as Markdown; pictures are links relative to it."""
    parts = [f"# Labels `{dataset}`", _lead(city, manifest, statistics)]
    if statistics:
        parts += [f"![{text}](figures/{quantity}.png)" for quantity, text in FIGURES.items()]
        parts += ["## By size", size_table(statistics)]
        parts += ["## Where the labels come from", "\n".join(_makers(statistics))]
    parts += [
        "## How they were asked for",
        f"```json\n{json.dumps(manifest.get('spec'), indent=2)}\n```",
        f"Fingerprint of city, instances and routes: `{manifest.get('fingerprint')}`.",
        "## Proving and reading",
        _USE.replace("DATASET", dataset),
        table(["Column", "Holds"], [[f"`{name}`", text] for name, text in COLUMNS.items()]),
    ]
    return "\n\n".join(parts) + "\n"


def size_table(statistics: Sequence[SizeStatistics]) -> str:
    """Return the table by size as Markdown, of many sizes a selection, with the totals."""
    from tasks.label_figures import selection

    shown = selection(statistics, _SHOWN) if len(statistics) > _ROWS else list(statistics)
    header = ["Customers", "Labels", "Unsolved", "Distance", "80 %", "Routes", "80 %", "Solver time", "MB"]
    rows = [_size_row(size) for size in shown]
    total = f"{sum(size.rows for size in statistics):,}"
    absent = f"{sum(size.absent for size in statistics):,}"
    seconds = sum(size.rows * size.runtime.mean for size in statistics)
    megabytes = f"{sum(size.bytes for size in statistics) / 1e6:,.1f}"
    name = f"all {len(statistics)} sizes" if len(shown) < len(statistics) else "all"
    rows.append([name, total, absent, "", "", "", "", f"{duration(seconds)} in all", megabytes])
    return table(header, rows, right=True)


def _size_row(size: SizeStatistics) -> list[str]:
    cost, routes = size.cost, size.routes
    return [
        f"{size.n}",
        f"{size.rows:,}",
        f"{size.absent:,}",
        f"{cost.mean:,.3f} ± {cost.std:,.3f}",
        f"{cost.p10:,.2f} – {cost.p90:,.2f}",
        f"{routes.mean:.2f}",
        f"{routes.p10:.0f} – {routes.p90:.0f}",
        f"{size.runtime.mean:.3g} s",
        f"{size.bytes / 1e6:,.1f}",
    ]


def _lead(city: City, manifest: Mapping[str, Any], statistics: Sequence[SizeStatistics]) -> str:
    spec = manifest.get("spec") or {}
    rows = sum(size.rows for size in statistics)
    text = f"{rows:,} solved instances of the Montreal capacitated vehicle routing problem"
    sizes = sorted({statistics[k].n for k in (0, -1)}) if statistics else []
    if sizes:
        text += f", {' to '.join(map(str, sizes))} customers each"
    costs = "straight lines" if city.matrix is None else "costs from a matrix"
    costs += f", in {unit_words(city.unit)}"
    text += f", on a city of {city.customers:,} addresses ({costs}; id `{city.city_id}`)."
    if spec.get("split") and "seed" in spec:
        text += f" The {spec['split']} split of seed {spec['seed']}."
    if absent := sum(size.absent for size in statistics):
        text += (
            f"\n\n**{absent:,} instances have no label so far**: no solver has solved them "
            "(`quarantine.json` says why; `mcvrp label` tries them again)."
        )
    return text


def _makers(statistics: Sequence[SizeStatistics]) -> Iterator[str]:
    labels: Counter[Maker] = Counter()
    for size in statistics:
        for maker in size.makers:
            labels[replace(maker, rows=0)] += maker.rows
    cells = [
        [maker.source, maker.solver, maker.version, maker.budget, maker.cpu, f"{rows:,}"]
        for maker, rows in labels.most_common()
    ]
    yield table(["Source", "Solver", "Version", "Budget", "Processor", "Labels"], cells)
    seconds = sum(size.rows * size.runtime.mean for size in statistics)
    yield f"\nIn all {seconds / 3600:,.2f} core-hours of the solver."


_USE = """`mcvrp verify DATASET` proves every label from its bytes. Below the store:

```python
import glob, pyarrow.dataset as ds
files = glob.glob("labels/DATASET/n=*/*.parquet")
labels = ds.dataset(files, partitioning="hive").to_table(columns=["n", "index", "routes", "cost"])
```"""
