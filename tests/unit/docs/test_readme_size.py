"""The README is a page for ten minutes."""

from __future__ import annotations

from tests.unit.docs.pages import PAGES, ROOT, links

LINES, WORDS = 150, 1500
README = (ROOT / "README.md").read_text()


def test_the_readme_is_short() -> None:
    """150 lines and 1,500 words at most."""
    assert len(README.splitlines()) <= LINES
    assert len(README.split()) <= WORDS


def test_the_readme_leads_on() -> None:
    """To the index, the figures, and what contributors need."""
    there = set(links(ROOT / "README.md"))
    assert {"docs/README.md", "BENCHMARKS.md", "CONTRIBUTING.md", "CHANGELOG.md"} <= there


def test_lines_fit_a_terminal() -> None:
    """But for tables, links and drawings, no line of a page is longer than 120 characters."""
    for page in PAGES:
        if page.name == "BENCHMARKS.md":
            continue
        for number, line in enumerate(page.read_text().splitlines(), 1):
            assert len(line) <= 120 or line.lstrip().startswith(("|", "[", "<!--")), f"{page.name}:{number}"
