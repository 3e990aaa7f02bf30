"""Numbers in user files are exact; CSV has no formula, and every text survives a round trip."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable

import pandas as pd
import pytest
from hypothesis import given, settings, strategies as st

from mcvrp.model.errors import McvrpError
from mcvrp.tasks.files.cells import NUMBER, Dialect, Number, csv_bytes
from mcvrp.tasks.files.file_bytes import Faults
from mcvrp.tasks.files.tabular import column_key, read_tabular
from mcvrp.tasks.label.spec import LabelSpec
from mcvrp.tasks.solve.spec import Order, SolveSpec
from tests.support.workbook import xlsx

TITLE = st.text(st.sampled_from("'=+-@＝1a"), max_size=6)
TEXT = st.text(st.sampled_from("'=+-@＝1a. ,;\"\n\t"), max_size=6).map(str.strip)


def harmless(data: bytes) -> bool:
    """Return whether no cell except for numbers starts like a formula."""
    cells = [cell for row in csv.reader(io.StringIO(data.decode(), newline="")) for cell in row]
    return not any(c[:1] in set("=+-@＝＋－＠\t\r\n") and c and not NUMBER.fullmatch(c) for c in cells)


@settings(max_examples=10)  # each starts a reader
@given(st.lists(st.tuples(TEXT, TEXT), min_size=1, max_size=15), TITLE)
def test_no_text_is_a_formula_and_all_come_back(rows: list[tuple[str, str]], title: str) -> None:
    name = title or "a"
    data = csv_bytes(pd.DataFrame([("x", *row) for row in rows], columns=["id", name, "b"]))
    assert harmless(data)
    cells = list(csv.reader(io.StringIO(data.decode(), newline="")))
    for saved in (data, xlsx({"A": cells})):
        table = read_tabular("f", saved)
        assert list(table.titles.values()) == ["id", name, "b"]
        back = list(zip(table.text(column_key(name)), table.text("b"), strict=True))
        assert [tuple(map(_lines, row)) for row in back] == [tuple(map(_lines, row)) for row in rows]


def _lines(text: str) -> str:
    return text.replace("\r\n", "\n")


def test_numbers_stay_and_a_lone_return_ends_no_row() -> None:
    """Readers end a row there, which Python does not quote in every version, and a formula may follow."""
    table = pd.DataFrame({"text": ["-3.5", "+3", "1e-5"], "number": [-3.5, 3.0, 1e-5]})
    assert csv_bytes(table) == b"text,number\n-3.5,-3.5\n+3,3.0\n1e-5,1e-05\n"
    commas = pd.DataFrame({"text": ["-1,5", "-1.5", "-a"]})
    assert csv_bytes(commas, Dialect(";", ",")) == b"text\n-1,5\n-1.5\n'-a\n"
    data = csv_bytes(pd.DataFrame({"a": ["x\r=1+1", "z\r\n"], "b": [1, 2]}))
    assert harmless(data)
    assert read_tabular("f", data).frame["a"].tolist() == ["x\n=1+1", "z"]


NONE = ["true", "True", "1_0", "0x10", "３", "٣", "inf", "nan", "--3", "1.234,5", "3d", "0", "3.5", "1e5"]


@given(st.integers(1, 65_535), st.sampled_from(["", ".", ".0", ",00"]))
def test_a_whole_number_is_exact(number: int, end: str) -> None:
    table, faults = read_tabular("day.csv", f"demand;x\n{number}{end};1\n".encode()), Faults("day.csv")
    assert table.whole_numbers("demand", 1, 65_535, faults).tolist() == [number]
    faults.check()


@pytest.mark.parametrize("text", NONE)
def test_what_is_no_whole_number_is_told_by_row(text: str) -> None:
    table, faults = read_tabular("day.csv", f"demand;x\n{text};1\n3;1\n".encode()), Faults("day.csv")
    assert table.whole_numbers("demand", 1, 65_535, faults).tolist() == [1, 3]
    with pytest.raises(McvrpError, match=re.escape(f"day.csv: row 2: demand is '{text}', not a whole")):
        faults.check()


def test_whole_thousands_are_unclear_where_the_point_is_no_decimal_sign() -> None:
    """With commas as separators 1.000 is 1."""
    faults = Faults("day.csv")
    assert read_tabular("day.csv", b"a,b\n1.000,1\n").whole_numbers("a", 1, 9, faults).tolist() == [1]
    faults.check()
    read_tabular("day.csv", b"a;b\n1.000;1\n").whole_numbers("a", 1, 9, faults)
    with pytest.raises(McvrpError, match=r"row 2: a is '1\.000', which may have a separator of thousands"):
        faults.check()


def test_a_number_has_the_sign_of_its_file() -> None:
    """Codes, rounded numbers, and numbers in another sign stay text."""
    for text, decimal, value in (("70", ".", 70), ("1.50", ".", 1.5), ("1,5", ",", 1.5), ("-2", ",", -2)):
        number = Number.read(text, decimal)
        assert isinstance(number, Number)
        assert (number, number.value) == (text, value)
    for text, decimal in (
        ("07", "."),
        ("1,5", "."),
        ("1.5", ","),
        ("1e5", "."),
        ("123456789012", "."),
        ("", "."),
    ):
        assert not isinstance(Number.read(text, decimal), Number)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Order(customer="a", demand=True),
        lambda: Order(customer="a", demand="1_0"),  # type: ignore[arg-type]
        lambda: SolveSpec(time_limit=True),
        lambda: SolveSpec(version=True),
        lambda: LabelSpec.model_validate({"demand": [True, 9]}),
        lambda: LabelSpec.model_validate({"count": "1_0"}),
    ],
)
def test_truth_is_no_number_of_a_form(make: Callable[[], object]) -> None:
    with pytest.raises(ValueError, match="should be a valid"):
        make()


@pytest.mark.parametrize(
    ("data", "dialect"),
    [
        (b"id,demand\na,1\n", Dialect()),
        (b"id;demand\na;1\n", Dialect(";", ",", "utf-8-sig")),  # as Excel saves it where the comma is decimal
        ("id;lat;x\né;45,7;1.5\n".encode(), Dialect(";", ",")),
        (b"id\tlat\na\t45\n", Dialect("\t", ".")),
        (b"id|lat\na|48,86\n", Dialect("|", ".")),
        (b"\xef\xbb\xbfid,lat\na,1.5\n", Dialect(",", ".", "utf-8-sig")),
        ("id;name\na;Käse\n".encode("cp1252"), Dialect(";", ",", "utf-8-sig")),
        ("id,name\na,Käse\n".encode("utf-16"), Dialect(",", ".", "utf-8-sig")),
        (xlsx({"A": [["id", "lat"], ["a", "45,7"]]}), Dialect(encoding="utf-8-sig")),  # for Excel
    ],
)
def test_the_dialect_of_a_file_is_kept(data: bytes, dialect: Dialect) -> None:
    """CSV written in it has that dialect again, and the same cells."""
    assert read_tabular("f", data).dialect == dialect
    table = pd.DataFrame({"id": ["=a", "b;c,d\t", "é"], "length": [1.5, 2.25, -3.0]})
    written = csv_bytes(table, dialect)
    back = read_tabular("f", written)
    assert back.dialect == dialect
    assert back.frame["id"].tolist() == ["=a", "b;c,d", "é"]
    assert back.numbers("length", Faults("f")).tolist() == [1.5, 2.25, -3.0]
