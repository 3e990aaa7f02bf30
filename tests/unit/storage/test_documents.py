"""JSON documents as dataclasses: equal after a round trip, refused in a sentence otherwise."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path

import pytest

from mcvrp.model.errors import McvrpError
from mcvrp.storage.documents import as_document, read_document
from mcvrp.storage.store.store import Store


@dataclass(frozen=True)
class Leaf:
    """A leaf."""

    name: str
    size: float | None = None


@dataclass(frozen=True)
class Tree:
    """A tree of leaves."""

    leaves: tuple[Leaf, ...]
    rings: tuple[int, ...] = ()


def test_a_document_comes_back_as_it_was(tmp_path: Path) -> None:
    """Nested dataclasses and tuples survive the way through JSON."""
    store, tree = Store(str(tmp_path)), Tree((Leaf("a", 1.5), Leaf("b")), (1, 2))
    store.put_json("tree.json", asdict(tree))
    assert read_document(store, "tree.json", Tree, named="tree", hint="plant another") == tree


@pytest.mark.parametrize(
    ("document", "found"),
    [
        ([], "not an object"),
        (b"{", "Expecting property name enclosed in double quotes: line 1 column 2 (char 1)"),
        ({"rings": []}, "leaves: Field required"),
        ({"leaves": [{"name": 3}]}, "leaves.0.name: Input should be a valid string"),
        ({"leaves": [], "roots": 2}, "unknown field 'roots'"),
    ],
)
def test_what_is_none_is_refused_in_a_sentence(document: object, found: str) -> None:
    """The sentence names the place, what it should be, what is wrong, and the hint."""
    with pytest.raises(McvrpError) as refusal:
        as_document(document, Tree, "s3://b/tree.json", named="tree", hint="plant another")
    assert str(refusal.value) == f"s3://b/tree.json is not a valid tree ({found}): plant another"
