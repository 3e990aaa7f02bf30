"""README, docs and the other pages as text: their links, headings, tables and examples."""

from __future__ import annotations

import re
from itertools import takewhile
from pathlib import Path

ROOT = Path(__file__).parents[3]
DOCS = ROOT / "docs"
PAGES = sorted(
    [
        *DOCS.glob("*.md"),
        *(
            ROOT / name
            for name in ("README.md", "BENCHMARKS.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md")
        ),
        *ROOT.glob("tests/*/README.md"),
    ]
)
_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#{1,6} +(.+)$", re.MULTILINE)


def name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def examples(page: Path, language: str) -> list[str]:
    return [block for fenced, block in _FENCE.findall(page.read_text()) if fenced == language]


def links(page: Path) -> list[str]:
    return _LINK.findall(_FENCE.sub("", page.read_text()))


def anchors(page: Path) -> list[str]:
    slugs: list[str] = []
    for heading in _HEADING.findall(_FENCE.sub("", page.read_text())):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).strip().lower()
        slug = re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")
        again = sum(other == slug or other.startswith(f"{slug}-again") for other in slugs)
        slugs.append(f"{slug}-{again}" if again else slug)
    return slugs


def section(page: Path, heading: str) -> str:
    depth = heading.split()[0]
    text = f"\n{page.read_text()}"
    assert f"\n{heading}\n" in text, f"{name(page)} has no heading {heading!r}"
    return text.split(f"\n{heading}\n")[1].split(f"\n{depth} ")[0]


def rows(text: str, first: str) -> list[list[str]]:
    """Return the cells of the table in ``text`` whose first heading is ``first``."""
    lines = text.splitlines()
    start = next(k for k, line in enumerate(lines) if line.startswith(f"| {first} |"))
    table = takewhile(lambda line: line.startswith("|"), lines[start + 2 :])
    return [[cell.strip() for cell in line.strip().strip("|").split(" | ")] for line in table]


def code(text: str) -> list[str]:
    return re.findall(r"`([^`\n]+)`", text)


def commands(page: Path) -> list[str]:
    """Return the example lines of ``page`` that call `mcvrp`, without lists of commands."""
    lines = re.findall(r"^ {4}(?:\.venv/bin/)?(mcvrp .*)$", page.read_text(), re.MULTILINE)
    return [line for line in lines if not re.search(r"\S {2,}(?!#)\S", line)]
