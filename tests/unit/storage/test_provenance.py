"""Provenance: makers, and the line in cards; those of all artifacts are in test_pipeline."""

from __future__ import annotations

import pytest

from mcvrp.storage import provenance
from mcvrp.storage.provenance import Maker, Parent, Provenance, made, provenance_line


def test_who_resumes_is_a_maker_beside_the_earlier_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each once; only the parents of now count."""
    first, second = Maker("1"), Maker("9.9", ("torch 3",))
    monkeypatch.setattr(provenance, "installation", lambda: second)
    earlier = Provenance((Parent("labels/old"),), (first, second))
    assert made([Parent("cities/c", "ab"), None], earlier) == Provenance(
        (Parent("cities/c", "ab"),), (first, second)
    )


def test_a_card_names_makers_and_parents() -> None:
    told = Provenance((Parent("labels/d"), Parent("file:a.csv")), (Maker("1", ("torch 3",)),))
    assert provenance_line(told) == "Made by mcvrp 1, torch 3 from `labels/d`, `a.csv`."
    assert provenance_line(None) == ""
