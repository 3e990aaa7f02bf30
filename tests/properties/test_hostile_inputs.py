"""Hostile inputs: endless, huge, deep or absurd ones are refused in a sentence, at once, in little memory."""

from __future__ import annotations

import json
import os
import resource
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any
from unittest.mock import Mock, patch

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mcvrp.flows.cli import main as cli
from mcvrp.flows.cli.main import parse
from mcvrp.flows.config.preset import load_preset
from mcvrp.flows.config.spec import require_consistent
from mcvrp.model.errors import LONGEST, McvrpError
from mcvrp.model.problem import City
from mcvrp.storage.cities import load_city, save_city
from mcvrp.storage.store.store import Store
from mcvrp.tasks.city.make import AddressFile, CitySpec, plan_city
from mcvrp.tasks.label.spec import stored_spec
from mcvrp.tasks.solve.orders import checked_day, read_orders
from tests.support.malformed import NAMES, TOWN, TRIANGLE, Place, npy
from tests.support.workbook import SHEET, edited, with_cell, with_state, xlsx

PROCESSOR_SECONDS = 10.0  # of a case; the longest takes two
MEMORY = 400 * 2**20  # bytes beyond what the process has

MILLION = 10**6
DIGITS = "9" * 5000
NESTED = "[" * 5000 + "]" * 5000
LONG = "a" * 5000
Act = Callable[[], object]


# Ways in: each lays a file where people lay it, and returns what is then done.


def orders(place: Place, file: str) -> Act:
    return lambda: checked_day(read_orders(file, place.store), TOWN, NAMES, "town", 20)


def pipe(place: Place, name: str) -> str:
    os.mkfifo(place.folder / name)
    return str(place.folder / name)


def matrix(place: Place, costs: str) -> Act:
    addresses = AddressFile(file=place.file(TRIANGLE, "triangle"), matrix=costs)
    return lambda: plan_city(place.store, CitySpec(name="new", source="imported", addresses=addresses))


def stored(path: str, document: str, ask: Callable[[Store], object]) -> Callable[[Place], Act]:
    def lay(place: Place) -> Act:
        save_city(place.store, "c", City.uniform(5, seed=1))
        place.store.put(path, document.encode())
        return lambda: ask(place.store)

    return lay


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


CARD, SPEC = "cities/c/city.json", "labels/d/spec.json"
NULL = json.dumps({"city_id": "c", "schema_version": 2, "smallest": 20, "largest": 20, "count": None})
HUGE = npy(np.full((3, 3), 1e308))

# name: what lays it, and part of the message
HOSTILE: dict[str, tuple[Callable[[Place], Act], str]] = {
    "a pipe of orders": (lambda p: orders(p, pipe(p, "orders.csv")), "it is a pipe"),
    "a pipe for a preset": (lambda p: lambda: load_preset(pipe(p, "own.toml")), "it is a pipe"),
    "zeros without end": (lambda p: orders(p, "/dev/zero"), "it is a pipe or a device"),
    "noise without end": (lambda p: matrix(p, "/dev/urandom"), "it is a pipe or a device"),
    "a matrix of 1e308": (
        lambda p: matrix(p, p.file(HUGE)),
        "from 'a' to 'd' is 1e+308, not a number from 0",
    ),
    "a preset's name that moves the cursor": (lambda p: lambda: load_preset("a\x1b[2J"), r"'a\x1b[2J'"),
    "orders with a name of 5,000 letters": (lambda p: orders(p, LONG), "name too long"),
    "orders with a zero in their name": (lambda p: orders(p, "a\0b"), "cannot be read"),
    "5,000 levels in a card": (
        stored(CARD, NESTED, lambda s: load_city(s, "c")),
        "is not JSON (it is nested",
    ),
    "null in a spec": (
        stored(SPEC, NULL, lambda s: stored_spec(s, "d")),
        "spec.json is not a spec of labels",
    ),
}
CHANGES = {  # of a preset, and part of the message
    f"label.count={DIGITS}": "an integer of more than 64 bits",
    f"label.count={NESTED}": "nested more than 100 levels deep",
    f"label.solver={LONG}": "label.solver: Input should be 'hgs'",
    "label.largest=1e15": "label.largest: Input should be less than or equal to 1000000",
    f"benchmark.samples=[1, {10**18}]": "samples.1: Input should be less than or equal to 100000",
    "train.phases.2.policy.steps=1000000000": "should be less than or equal to 10000000",
    "train.phases.0.lr=inf": "lr: Input should be a finite number",
}
PRESETS = {  # content of a file
    f"x = {DIGITS}": "own.toml is not valid TOML: it has an integer of more than 64 bits",
    f"y = {NESTED}": "own.toml is not valid TOML: it is nested",
    "#" * 2 * MILLION: "own.toml cannot be read: it has 2,000,000 bytes, the limit is 1,048,576",
}
OPTIONS = {  # arguments of the command
    ("ui", "--port", DIGITS): "--port",
    ("solve", "o.csv", "--keep", ""): "--keep': the value is empty",
    ("solve", ""): "ORDERS': the value is empty",
}

PLAIN = xlsx({"Orders": [["customer", "demand"], ["C1", 1]]})


def far(place: str) -> bytes:
    return with_cell(PLAIN, f'<c r="{place}"><v>1</v></c>')


def swapped(old: str, new: str) -> bytes:
    return edited(PLAIN, {SHEET: lambda text: text.replace(old.encode(), new.encode())})


def far_and_hidden() -> bytes:
    """Return a workbook whose first sheet is hidden, and has cells that are far from each other."""
    data = xlsx({"Far": [["a"], ["b"]], "Orders": [["customer", "demand"], ["C1", 1]]})
    wide = edited(data, {SHEET: lambda text: text.replace(b'"A2"', b'"XFD1048576"')})
    return with_state(wide, "Far", "hidden")


# name: the file of orders, and part of the message; None where it is read
TABLES: dict[str, tuple[Callable[[], str | bytes], str | None]] = {
    "40 million rows in a few kB": (
        lambda: _repeated(40 * MILLION, "C1"),
        "has more than 1,000 columns, 20,000,000 cells or",
    ),
    "50 GB of one text in 1 kB": (
        lambda: _repeated(100_000, "x" * 500_000),
        "bytes when unpacked",
    ),
    "a list of 24 million": (lambda: _one_list(24 * MILLION), "no single values in column 'customer'"),
    "a row of a million fields": (
        lambda: f"customer,demand\nC1,1\n{'1,' * MILLION}",
        "row 3, has more than 1,000 columns",
    ),
    "many strangers": (
        lambda: "customer,demand\n" + "".join(f"x{k},1\n" for k in range(MILLION // 4)),
        "row 2: 'x0' is not a customer of city 'town'",
    ),
    "5,000 digits in a demand": (lambda: f"customer,demand\nC1,{DIGITS}\n", "not a whole number"),
    "a cell in XFD1048576": (lambda: far("XFD1048576"), "far from the table"),
    "a cell in J1048576": (lambda: far("J1048576"), "cells up to the last one"),
    "far cells in a hidden sheet": (far_and_hidden, None),
    "a formula with an error": (
        lambda: swapped('<c r="B2"><v>1</v>', '<c r="B2" t="e"><f>1/0</f><v>#DIV/0!</v>'),
        "row 2: demand is missing",
    ),
    "a date of 1e300 days": (
        lambda: swapped('<c r="B2"><v>1<', '<c r="B2" s="1"><v>1e300<'),
        "row 2: demand",
    ),
    "a workbook with a password": (
        lambda: b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + "EncryptedPackage".encode("utf-16-le"),
        "save it again without a password",
    ),
}


@contextmanager
def bounded() -> Iterator[None]:
    """Limit the context's processor time and memory; one that waits indefinitely is interrupted."""

    def over(number: int, frame: Any) -> None:
        raise AssertionError(f"stopped by {signal.Signals(number).name}")

    before = {number: signal.signal(number, over) for number in (signal.SIGPROF, signal.SIGALRM)}
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (psutil.Process().memory_info().data + MEMORY, hard))
    signal.setitimer(signal.ITIMER_PROF, PROCESSOR_SECONDS)
    signal.alarm(120)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.setitimer(signal.ITIMER_PROF, 0)
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))
        for number, handler in before.items():
            signal.signal(number, handler)


def _orders(table: Callable[[], str | bytes]) -> Callable[[Place], Act]:
    return lambda place: orders(place, place.file(table()))


def _change(change: str) -> Callable[[Place], Act]:
    return lambda _: lambda: require_consistent(load_preset("smoke", [change]))


def _preset(text: str) -> Callable[[Place], Act]:
    return lambda place: lambda: load_preset(place.file(text, "own.toml"))


def _command(arguments: tuple[str, ...]) -> Callable[[Place], Act]:
    return lambda _: lambda: parse(list(arguments))


CASES = {
    **HOSTILE,
    **{f"--set {change[:40]}": (_change(change), part) for change, part in CHANGES.items()},
    **{f"preset {text[:20]}": (_preset(text), part) for text, part in PRESETS.items()},
    **{f"mcvrp {' '.join(words)[:40]}": (_command(words), part) for words, part in OPTIONS.items()},
    **{name: (_orders(table), part) for name, (table, part) in TABLES.items()},
}


@pytest.mark.parametrize(("lay", "part"), CASES.values(), ids=list(CASES))
def test_a_hostile_input_is_read_or_one_sentence_at_once(
    lay: Callable[[Place], Act], part: str | None, tmp_path: Path
) -> None:
    """It fits into 300 characters that can be printed, and comes within bounds of time and memory."""
    act = lay(Place(tmp_path))
    with bounded(), nullcontext() if part is None else pytest.raises(McvrpError) as caught:
        act()
    if part is not None:
        message = str(caught.value)
        assert part in message
        assert message.isprintable()
        assert len(message) <= LONGEST


def test_the_command_says_it_in_a_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whatever a message has in it, the terminal gets one line that it can show, of 300 characters."""
    fail = Mock(side_effect=McvrpError(f"of \x1b[2J {LONG}\n{LONG}: the remedy"))
    monkeypatch.setattr("mcvrp.flows.cli.plan.plan_run", fail)
    with patch.dict(os.environ):  # the command sets variables for its children
        assert cli.run(["plan"]) == 2
    line = capsys.readouterr().err.removeprefix("mcvrp: ").rstrip("\n")
    assert line.isprintable()
    assert len(line) == LONGEST
    assert line.startswith(r"of \x1b[2J aaa")
    assert line.endswith("aaa: the remedy")
