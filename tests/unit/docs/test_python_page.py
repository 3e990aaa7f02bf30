"""The Python examples of docs/python.md that need no store; the one that does is run where there is one."""

from __future__ import annotations

import pytest

from tests.unit.docs.pages import DOCS, examples

EXAMPLES = examples(DOCS / "python.md", "python")


def test_the_first_example_is_of_the_smoke_preset() -> None:
    """Store and names are those of tests/e2e/test_pipeline.py, which runs it."""
    assert len(EXAMPLES) == 2
    assert 'Store.open("store")' in EXAMPLES[0]
    assert '"smoke"' in EXAMPLES[0]


def test_orders_of_your_own(capsys: pytest.CaptureFixture[str]) -> None:
    """A city and a day made of arrays: two routes there and back cost 1.632 in the city's sides."""
    exec(EXAMPLES[1], {})
    assert capsys.readouterr().out.startswith("1.632")
