"""Card of a dataset: README.md with statistics by size and the provenance of its labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from humanize import naturalsize

from mcvrp.model.problem import City
from mcvrp.storage import layout
from mcvrp.storage.labels.label_files import LabelFile
from mcvrp.storage.labels.statistics import SizeStatistics, size_statistics
from mcvrp.storage.markdown import card, section, table
from mcvrp.storage.provenance import provenance_in, provenance_line
from mcvrp.storage.store.store import Store
from mcvrp.tasks.support.progress import duration
from mcvrp.tasks.support.text import unit_text

_MOST_ROWS = 40  # of the table by size; of more sizes every second, third, … is shown


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
    absent = sum(size.absent for size in statistics)
    return card(
        f"Labels `{dataset}`",
        {
            "city": f"`{city.city_id}`, {city.customers:,} addresses",
            "labels": f"{sum(size.rows for size in statistics):,}",
            **({"unsolved instances": f"{absent:,}"} if absent else {}),
            "solver time": f"{duration(sum(size.seconds for size in statistics))} of a core",
            "fingerprint": f"`{manifest.get('fingerprint')}`",
        },
        section("By size", _size_table(statistics, city.unit)) if statistics else "",
        lead=f'`mcvrp verify {dataset}` verifies all, `pandas.read_parquet("data")` reads them.',
        made=provenance_line(provenance_in(manifest)),
    )


def _size_table(statistics: Sequence[SizeStatistics], unit: str) -> str:
    header = ["Customers", "Labels", "Solver time", "Size", f"Mean cost ({unit_text(unit)})", "Routes"]
    rows = [
        [
            f"{size.n}",
            f"{size.rows:,}",
            f"{size.runtime:.3g} s",
            naturalsize(size.bytes),
            f"{size.cost:,.3f}",
            f"{size.routes:.2f}",
        ]
        for size in statistics[:: -(-len(statistics) // _MOST_ROWS)]
    ]
    return table(header, rows, right=True)
