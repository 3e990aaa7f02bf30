"""Inputs that cost a reader its memory or its patience, and workbooks that ask for gigabytes."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from mcvrp.flows.config.preset import load_preset
from mcvrp.model.problem import City
from mcvrp.storage.cities import load_city, save_city
from mcvrp.storage.labels.manifest import read_manifest
from mcvrp.storage.store.store import Store
from mcvrp.tasks.city.make import AddressFile, CitySpec, plan_city
from mcvrp.tasks.label.spec import stored_spec
from mcvrp.tasks.solve.orders import checked_day, read_orders
from tests.support.malformed import NAMES, TOWN, TRIANGLE, as_bytes, npy, parquet
from tests.support.workbook import Rows, edited, with_cell, with_state, xlsx

MILLION = 10**6
DIGITS = "9" * 5000
NESTED = "[" * 5000 + "]" * 5000
LONG = "a" * 5000
Act = Callable[[], object]


@dataclass(frozen=True)
class Place:
    """A store, and a folder beside it for what people bring."""

    folder: Path

    @property
    def store(self) -> Store:
        return Store.open(self.folder / "store")

    def file(self, data: str | bytes, name: str = "table") -> str:
        (self.folder / name).write_bytes(as_bytes(data))
        return str(self.folder / name)

    def pipe(self, name: str = "pipe") -> str:
        os.mkfifo(self.folder / name)
        return str(self.folder / name)

    # Ways in: each lays a file where people lay it, and returns what is then done.

    def orders(self, file: str) -> Act:
        return lambda: checked_day(read_orders(file, self.store), TOWN, NAMES, "town", 20)

    def city(self, **options: str) -> Act:
        spec = AddressFile.model_validate({"file": self.file(TRIANGLE, "triangle")} | options)
        return lambda: plan_city(self.store, CitySpec(name="new", source="imported", addresses=spec))

    def stored(self, path: str, document: str, ask: Callable[[Store], object]) -> Act:
        save_city(self.store, "c", City.uniform(5, seed=1))
        self.store.put(path, document.encode())
        return lambda: ask(self.store)


def _repeated(rows: int, value: str) -> bytes:
    """Return a Parquet file of a few kB in which every row says the same."""
    group, sink = min(rows, 2 * MILLION), pa.BufferOutputStream()
    customers = pa.DictionaryArray.from_arrays(pa.array(np.zeros(group, np.int32)), [value])
    table = pa.table({"customer": customers, "demand": pa.array(np.ones(group, np.int32))})
    with pq.ParquetWriter(sink, table.schema, compression="zstd") as writer:
        for _ in range(rows // group):
            writer.write_table(table, row_group_size=group)
    return bytes(sink.getvalue())


def _one_list(length: int) -> bytes:
    """Return a Parquet file of one row, which holds so many numbers."""
    row = pa.ListArray.from_arrays([0, length], pa.array(np.zeros(length, np.int8)))
    pq.write_table(pa.table({"customer": row}), sink := pa.BufferOutputStream())
    return bytes(sink.getvalue())


def _city_card(store: Store) -> object:
    return load_city(store, "c")


CARD, SPEC = "cities/c/city.json", "labels/d/spec.json"
NULL = {"city_id": "c", "schema_version": 2, "smallest": 20, "largest": 20, "count": None}

# name: what lays it, and part of the message
HOSTILE: dict[str, tuple[Callable[[Place], Act], str]] = {
    "a pipe of orders": (lambda p: p.orders(p.pipe()), "it is a pipe"),
    "a pipe for a preset": (lambda p: lambda: load_preset(p.pipe("own.toml")), "it is a pipe"),
    "zeros without end": (lambda p: p.orders("/dev/zero"), "it is a pipe or a device"),
    "noise without end": (lambda p: p.city(matrix="/dev/urandom"), "it is a pipe or a device"),
    "a matrix of 1e308": (
        lambda p: p.city(matrix=p.file(npy(np.full((3, 3), 1e308)))),
        "from 'a' to 'd' is 1e+308, not a number from 0 to 1e+12",
    ),
    "a preset's name of 5,000 letters": (lambda p: lambda: load_preset(LONG), "there is no preset 'aaa"),
    "a preset's path of 5,000 letters": (lambda p: lambda: load_preset(f"{LONG}/x.toml"), "too long"),
    "a preset's name that moves the cursor": (lambda p: lambda: load_preset("a\x1b[2J"), r"'a\x1b[2J'"),
    "orders with a name of 5,000 letters": (lambda p: p.orders(LONG), "name too long"),
    "orders with a zero in their name": (lambda p: p.orders("a\0b"), "cannot be read"),
    "5,000 levels in a city's card": (
        lambda p: p.stored(CARD, NESTED, _city_card),
        "city.json is not JSON (it is nested",
    ),
    "5,000 digits in a city's card": (
        lambda p: p.stored(CARD, f'{{"customers": {DIGITS}}}', _city_card),
        "city.json is not JSON (it has an integer of more than 64 bits",
    ),
    "null in a spec": (
        lambda p: p.stored(SPEC, json.dumps(NULL), lambda store: stored_spec(store, "d")),
        "spec.json is not a spec of labels (count: Input should be a valid integer)",
    ),
    "null in a manifest": (
        lambda p: p.stored(
            "labels/d/manifest.json", '{"files": null}', lambda store: read_manifest(store, "d")
        ),
        "manifest.json is not a manifest (files is not an object)",
    ),
}

CHANGES = {  # of a preset, and part of the message
    "label.count=true": "label.count: Input should be a valid integer",
    "benchmark.samples=[1, true]": "benchmark.samples",
    "solve.p=true": "solve.p: Input should be a valid number",
    f"label.count={DIGITS}": "an integer of more than 64 bits",
    f"label.seed=0x{'f' * 5000}": "more than 64 bits",
    f"label.count={NESTED}": "nested more than 100 levels deep",
    f"label.seed={'[' * 300}{']' * 300}": "nested more than 100 levels deep",
    f"{'a.' * 5000}b=1": "a: Extra inputs",
    f"{LONG}=1": "Extra inputs",
    LONG: "write key=value",
    f"label.solver={LONG}": "label.solver: Input should be 'hgs'",
    "train.phases.０.lr=1": "no such field in smoke",
    "label.largest=1e15": "label.largest: Input should be less than or equal to 1000000",
    f"train.phases.0.last={10**12}": "last: Input should be less than or equal to 1000000",
    f"train.phases.0.passes={10**18}": "passes: Input should be less than or equal to 10000",
    f"benchmark.samples=[1, {10**18}]": "samples.1: Input should be less than or equal to 100000",
    f"train.phases.2.policy.samples={10**18}": "samples: Input should be less than or equal to 100000",
    "train.phases.2.policy.steps=1000000000": "sets, 10,000,000 are the most: lower its passes or its steps",
    f"train.batch={10**18}": "train.batch: Input should be less than or equal to 4294967295",
    "label.iterations=2147483648": "label.iterations: Input should be less than or equal to 2147483647",
    "train.phases.0.lr=inf": "lr: Input should be a finite number",
}
PRESETS = {  # content of a file
    f"x = {DIGITS}": "own.toml is not valid TOML: it has an integer of more than 64 bits",
    f"y = {NESTED}": "own.toml is not valid TOML: it is nested",
    f"[{'a.' * 5000}a]": "it is nested more than 100 levels deep",
    "#" * 2 * MILLION: "own.toml cannot be read: it has 2,000,000 bytes, the limit is 1,048,576",
}
TABLES: dict[str, tuple[Callable[[], str | bytes], str]] = {  # of orders
    "40 million rows in a few kB": (
        lambda: _repeated(40 * MILLION, "C1"),
        "has more than 1,000 columns, 20,000,000 cells or",
    ),
    "50 GB of one text in 1 kB": (lambda: _repeated(100_000, "x" * 500_000), "bytes when unpacked"),
    "a list of 24 million": (lambda: _one_list(24 * MILLION), "20,000,000 cells"),
    "10,000 columns": (
        lambda: ",".join(f"c{k}" for k in range(10_000)) + "\n1" * 100,
        "row 1, has more than 1,000 columns",
    ),
    "2,000 columns of Parquet": (
        lambda: parquet(pd.DataFrame({f"c{k}": [1] for k in range(2000)})),
        "has more than 1,000 columns",
    ),
    "a row of a million fields": (
        lambda: "customer,demand\nC1,1\n" + "1," * MILLION,
        "row 3, has more than 1,000 columns",
    ),
    "a million strangers": (
        lambda: "customer,demand\n" + "".join(f"x{k},1\n" for k in range(MILLION)),
        "row 2: 'x0' is not a customer of city 'town'",
    ),
    "5,000 digits in a demand": (lambda: f"customer,demand\nC1,{DIGITS}\n", "not a whole number"),
}


ROWS: Rows = [["customer", "demand"], ["C1", 1]]
PLAIN = xlsx({"Orders": ROWS})
MEMORY, CELLS, NO_WORKBOOK = "far from the table", "cells up to the last one", "not a valid spreadsheet"
_SHEET = "xl/s1.xml"
_ENCRYPTED = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + "EncryptedPackage".encode("utf-16-le")


def _far(place: str) -> Callable[[], bytes]:
    return lambda: with_cell(PLAIN, f'<c r="{place}"><v>1</v></c>')


def _swapped(old: str, new: str) -> Callable[[], bytes]:
    return lambda: edited(PLAIN, {_SHEET: lambda text: text.replace(old.encode(), new.encode())})


def _with_far_sheet(number: int) -> bytes:
    """Return a workbook with a sheet ``number`` whose cells are far from each other, hidden if the first."""
    sheets: dict[str, Rows] = {"Orders": ROWS, "Far": [["a"], ["b"]]}
    data = xlsx(dict(sorted(sheets.items(), reverse=number == 2)))
    far = {f"xl/s{number}.xml": lambda text: text.replace(b'"A2"', b'"XFD1048576"')}
    return with_state(edited(data, far), "Far", "hidden" if number == 1 else "visible")


# name: the workbook as orders, and part of the message; None where it is read
SPREADSHEETS: dict[str, tuple[Callable[[], bytes], str | None]] = {
    "a cell in XFD1048576": (_far("XFD1048576"), MEMORY),
    "a cell in J1048576": (_far("J1048576"), CELLS),
    "far cells in a hidden sheet": (lambda: _with_far_sheet(1), None),
    "far cells in a later sheet": (lambda: _with_far_sheet(2), None),
    "3,000 empty sheets before": (lambda: xlsx({**{f"S{k}": [] for k in range(3000)}, "Orders": ROWS}), None),
    "a formula with an error": (
        _swapped('<c r="B2"><v>1</v>', '<c r="B2" t="e"><f>1/0</f><v>#DIV/0!</v>'),
        "row 2: demand is missing",
    ),
    "a date of 1e300 days": (_swapped('<c r="B2"><v>1<', '<c r="B2" s="1"><v>1e300<'), "row 2: demand"),
    "a sheet without a cell": (lambda: xlsx({"Orders": []}), "no visible sheet with content"),
    "hidden sheets only": (lambda: with_state(PLAIN, "Orders", "veryHidden"), "or unhide its sheet"),
    "a workbook with a password": (lambda: _ENCRYPTED, "save it again without a password"),
}
OPTIONS = {  # arguments of the command
    ("inspect", "d", "--draw", "x", "1"): "--draw",
    ("ui", "--port", DIGITS): "--port",
    ("solve", "o.csv", "--keep", ""): "--keep': the value is empty",
    ("solve", "o.csv", "--model", ""): "--model': the value is empty",
    ("city", "import", "a.csv", "--history", " "): "--history': the value is empty",
    ("solve", ""): "ORDERS': the value is empty",
    ("plan", f"--{LONG}"): "No such option",
}
