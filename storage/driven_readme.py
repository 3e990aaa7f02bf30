"""The card of what was driven in a city: README.md with its days, and what became of each file of routes."""

from __future__ import annotations

from storage import layout
from storage.driven import receipts
from storage.store import Store

_SHOWN = 50  # files, the last ones; more are counted


def write_driven_card(store: Store, city: str) -> None:
    """Write README.md of what was driven in the city ``city``."""
    store.put(layout.driven_card(city), driven_readme(store, city).encode())


def driven_readme(store: Store, city: str) -> str:
    """Return the card as Markdown, from the receipts of all files taken so far."""
    files = sorted(receipts(store, city), key=lambda receipt: (receipt.days[:1], receipt.name))
    days = sorted(day for receipt in files for day in receipt.days)
    rows = [
        ("files of routes taken", f"{len(files):,}"),
        ("days", f"{len(days):,}" + (f", {days[0]} to {days[-1]}" if days else "")),
        ("rows", f"{sum(receipt.rows for receipt in files):,}"),
        ("rows in quarantine", f"{sum(receipt.rejected for receipt in files):,}"),
        ("files refused", f"{sum(receipt.refused is not None for receipt in files):,}"),
    ]
    lines = [
        f"| {receipt.name} | {receipt.rows:,} | {receipt.rejected:,} | {len(receipt.days):,} "
        f"| {_span(receipt.days)} | {receipt.key} | {receipt.refused or ''} |"
        for receipt in files[-_SHOWN:]
    ]
    more = f"\nThe last {_SHOWN} of {len(files):,}.\n" if len(files) > _SHOWN else ""
    head = ["| File | Rows | Quarantined | Days | Which | Key | Refused |", "|---|--:|--:|--:|---|---|---|"]
    return f"""# Driven in city `{city}`

What people drove, taken from files of routes: a day that keeps all rules is a label to learn from.

{chr(10).join(["| | |", "|---|---|", *(f"| {name} | {value} |" for name, value in rows)])}

## Files of routes

{chr(10).join([*head, *lines])}
{more}
## Files here

| File | Holds |
|---|---|
| `days/DATE.parquet` | a day's orders and routes, as a file of one label |
| `files/KEY.json` | what became of a file of routes: rows, days, or why it was refused |
| `quarantine/KEY.csv` | its rows that no day took, each with its `reason`; mended, they can be sent again |
"""


def _span(days: tuple[str, ...]) -> str:
    if not days:
        return ""
    return days[0] if len(days) == 1 else f"{min(days)} to {max(days)}"
