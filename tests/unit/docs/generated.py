"""Generation of what pages take from the registries and specs: `python -m tests.unit.docs.generated`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from mcvrp.tasks.benchmark.methods import all_methods
from mcvrp.tasks.label.spec import LabelSpec
from mcvrp.tasks.solvers.registry import SOLVERS
from tests.unit.docs.pages import DOCS

BUDGETS = ("budget", "time_limit", "iterations")  # settings of labels
COSTS = {"any": "any, also asymmetric", "straight": "straight lines"}


def pages() -> dict[Path, str]:
    """Return each page with a generated part, up to date."""
    labels, benchmark = DOCS / "labels.md", DOCS / "benchmark.md"
    return {
        labels: with_rows(labels.read_text(), "`label.solver`", solver_rows()),
        benchmark: with_rows(benchmark.read_text(), "method", method_rows()),
    }


def solver_rows() -> list[Sequence[str]]:
    default = LabelSpec.model_fields["solver"].default
    return [
        (
            f"`{name}`",
            f"{entry.text} (default)" if name == default else entry.text,
            ", ".join(f"`label.{option}`" for option in BUDGETS if option in entry.takes) or "–",
            COSTS[entry.costs],
        )
        for name, entry in SOLVERS.items()
    ]


def method_rows() -> list[Sequence[str]]:
    return [(f"`{name}`", method.label, method.text) for name, method in all_methods().items()]


def with_rows(text: str, first: str, rows: Sequence[Sequence[str]]) -> str:
    """Return ``text`` with the rows of the table whose first heading is ``first`` replaced by ``rows``."""
    assert all(all(row) for row in rows), "a built-in solver, strategy or method has a text"
    head = re.compile(rf"(^\| {re.escape(first)} \|.*\n\|[-:|]+\n)(?:\|.*\n)*", re.MULTILINE)
    lines = "".join(f"| {' | '.join(row)} |\n" for row in rows)
    assert len(head.findall(text)) == 1, f"one table begins with {first}"
    return head.sub(lambda match: match[1] + lines, text)


if __name__ == "__main__":
    for path, page in pages().items():
        path.write_text(page)
