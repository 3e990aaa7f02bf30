"""Provenance: makers, the commit, and the line in cards; those of all artifacts are in test_pipeline."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from mcvrp.storage import provenance
from mcvrp.storage.provenance import Maker, Parent, Provenance, made, provenance_line


def test_who_resumes_is_a_maker_beside_the_earlier_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each once; only the parents of now count."""
    first, second = Maker("1", None, False), Maker("9.9", "f" * 40, True, ("torch 3",))
    monkeypatch.setattr(provenance, "installation", lambda: second)
    earlier = Provenance((Parent("labels/old"),), (first, second))
    assert made([Parent("cities/c", "ab"), None], earlier) == Provenance(
        (Parent("cities/c", "ab"),), (first, second)
    )


def test_a_card_links_what_is_in_its_store() -> None:
    told = Provenance((Parent("labels/d"), Parent("file:a.csv")), (Maker("1", None, False),))
    line = provenance_line(told, "models/m/0001")
    assert line.endswith(" from [labels/d](../../../labels/d), `a.csv`.")
    assert "](" not in provenance_line(told, "")
    assert provenance_line(None, "models/m/0001") == ""


def test_a_checkout_names_its_commit_and_whether_it_is_modified(tmp_path: Path) -> None:
    """Only the package counts, not other files; a folder without git has no commit."""

    def git(*words: str) -> None:
        identity = ["-c", "user.name=a", "-c", "user.email=a@b.c"]
        subprocess.run(["git", "-C", str(tmp_path), *identity, *words], check=True, capture_output=True)

    assert provenance._checkout(tmp_path) == (None, False)
    git("init")
    assert provenance._checkout(tmp_path) == (None, False)
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "a.py").write_text("1")
    git("add", ".")
    git("commit", "-m", "first")
    commit, modified = provenance._checkout(tmp_path)
    assert commit
    assert len(commit) == 40
    assert not modified
    (tmp_path / "notes.txt").write_text("")
    assert provenance._checkout(tmp_path) == (commit, False)
    (tmp_path / "model" / "b.py").write_text("")
    assert provenance._checkout(tmp_path) == (commit, True)
    assert str(Maker("1", commit, True)) == f"mcvrp 1+g{commit[:12]}.modified"
    assert str(Maker("1", None, False, ("torch 3",))) == "mcvrp 1, torch 3"
