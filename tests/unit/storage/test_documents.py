"""JSON documents as dataclasses."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path

import pytest

from mcvrp.model.errors import McvrpError
from mcvrp.storage.documents import as_document, read_document
from mcvrp.storage.store.store import Store


@dataclass(frozen=True)
class Leaf:
    name: str
    size: float | None = None


@dataclass(frozen=True)
class Tree:
    leaves: tuple[Leaf, ...]
    rings: tuple[int, ...] = ()


def test_a_document_reads_back_as_written(tmp_path: Path) -> None:
    store, tree = Store(str(tmp_path)), Tree((Leaf("a", 1.5), Leaf("b")), (1, 2))
    store.put_json("tree.json", asdict(tree))
    assert read_document(store, "tree.json", Tree, named="tree", hint="plant another") == tree


@pytest.mark.parametrize(
    ("document", "fault"),
    [
        ([], "not an object"),
        (b"{", "Expecting property name enclosed in double quotes: line 1 column 2 (char 1)"),
        ({"rings": []}, "leaves: Field required"),
        ({"leaves": [{"name": 3}]}, "leaves.0.name: Input should be a valid string"),
        ({"leaves": [], "roots": 2}, "unknown field 'roots'"),
    ],
)
def test_an_invalid_document_is_refused_in_a_sentence(document: object, fault: str) -> None:
    with pytest.raises(McvrpError) as refusal:
        as_document(document, Tree, "s3://b/tree.json", named="tree", hint="plant another")
    assert str(refusal.value) == f"s3://b/tree.json is not a valid tree ({fault}): plant another"
