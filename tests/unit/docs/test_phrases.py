"""The list of phrases to avoid: what it finds, and that pages, messages and docstrings contain none."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.unit.docs import phrases


@pytest.mark.parametrize(
    ("name", "text", "found"),
    [
        ("docs/page.md", "It writes a row an instance.", ["a row an instance"]),
        ("docs/page.md", "One row per instance; a run is told apart by its name.", []),
        ("tasks/a.py", 'raise ValueError("the run\\n goes on")', ["goes on"]),
        ("tasks/a.py", "x = 1  # nobody reads it", ["nobody"]),
        ("tasks/a.py", 'def f():\n    """What f does."""', ["What …"]),
        ("tasks/a.py", "nobody = things = 1", []),
    ],
)
def test_phrases_are_found_in_text_and_not_in_code(
    name: str, text: str, found: list[str], tmp_path: Path
) -> None:
    """Pages are checked line by line, Python in its strings, comments and docstrings."""
    file = tmp_path / name
    file.parent.mkdir()
    file.write_text(text + "\n")
    for command in (["init", "-q"], ["add", "."]):
        subprocess.run(["git", *command], cwd=tmp_path, check=True)
    assert [hit.phrase for hit in phrases.hits(tmp_path)] == found


def test_the_tree_contains_none_of_them(capsys: pytest.CaptureFixture[str]) -> None:
    """`make check` runs the same."""
    assert phrases.main() == 0, capsys.readouterr().out
