"""Pages: their links and names exist, sizes are as agreed, the store's tree is complete."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from pkgutil import resolve_name

import pytest

from mcvrp.flows.cli.main import parse
from mcvrp.storage import layout
from mcvrp.storage.provenance import PLUGINS
from tests.support.store_page import lines, unknown
from tests.unit.docs.pages import DOCS, PAGES, ROOT, anchors, code, commands, links, name

_FLOORS = ("flows", "tasks", "storage", "model")
_FOLDERS = (*_FLOORS, "docker", "docs", "src", r"\.ci", "tests")
_PATH = re.compile(rf"(?:{'|'.join(_FOLDERS)})/[\w./-]*")
_MODULE_FILE = re.compile(rf"(?<![\w/.])(?:{'|'.join(_FLOORS)})/[\w/]+\.py\b")
_MADE = "docker/.env"  # `make up` makes it
_DOTTED = re.compile(r"(?<![\w/.])mcvrp(?:\.\w+)+")

every_page = pytest.mark.parametrize("page", PAGES, ids=name)
# The changelog names files, headings and modules that have gone.
current_page = pytest.mark.parametrize("page", [p for p in PAGES if p.name != "CHANGELOG.md"], ids=name)


@current_page
def test_every_link_leads_somewhere(page: Path) -> None:
    for target in links(page):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        linked = (page.parent / path).resolve() if path else page
        assert linked.exists(), f"{name(page)} links to {target}"
        assert linked.is_relative_to(ROOT), f"{name(page)} links out of the repository: {target}"
        if anchor:
            assert anchor in anchors(linked), f"{name(page)} links to {target}, headings: {anchors(linked)}"


@current_page
def test_every_path_exists(page: Path) -> None:
    """Paths of the repository in backticks exist; capitals and dots are placeholders."""
    paths = [text for text in code(page.read_text()) if _PATH.fullmatch(text)]
    paths += _MODULE_FILE.findall(page.read_text())
    for path in paths:
        if path != _MADE and not re.search(r"[A-Z]{2,}(?!.*\.md)|…", path):
            assert (ROOT / path).exists(), f"{name(page)} names {path}"


@current_page
def test_every_module_exists(page: Path) -> None:
    for dotted in set(_DOTTED.findall(page.read_text())) - {PLUGINS}:  # a group of entry points
        resolve_name(dotted)


@every_page
def test_every_example_is_a_command_line(page: Path) -> None:
    for line in commands(page):
        parse(shlex.split(line, comments=True)[1:])


@every_page
def test_every_target_of_make_exists(page: Path) -> None:
    makefile = (ROOT / "Makefile").read_text()
    text = page.read_text()
    for target in re.findall(r"(?:`|^ {4})make ([a-z][\w-]*[a-z0-9])\b(?!-…)", text, re.MULTILINE):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), f"{name(page)} names make {target}"


def test_every_page_is_in_the_index() -> None:
    index = DOCS / "README.md"
    assert {target for target in links(index) if "/" not in target} == {
        page.name for page in DOCS.glob("*.md") if page != index
    }


def test_the_readme_is_short_and_leads_on() -> None:
    readme = ROOT / "README.md"
    assert len(readme.read_text().splitlines()) <= 150
    assert len(readme.read_text().split()) <= 1300
    assert {"docs/README.md", "docs/figures.md", "CONTRIBUTING.md", "CHANGELOG.md"} <= set(links(readme))


def test_lines_fit_a_terminal() -> None:
    """Except for tables, links and drawings; BENCHMARKS.md has wide ones."""
    for page in PAGES:
        for number, line in enumerate(page.read_text().splitlines(), 1):
            wide = page.name == "BENCHMARKS.md" or line.lstrip().startswith(("|", "[", "<!--"))
            assert wide or len(line) <= 120, f"{page.name}:{number}"


# The tree in docs/store.md

_VALUES = {"n": 20, "k": 3, "step": 5, "start": 0, "stop": 9, "version": 1, "alias": "champion", "number": 1}
_FOLDER_ENDS = ("_dir", "_lease", "_day")  # ends of the names of folders


def layout_paths() -> Iterator[tuple[str, str]]:
    """Yield the name of each path of the layout with an example."""
    for key, path in vars(layout).items():
        if isinstance(path, layout.Path):
            yield key, path(*(_VALUES.get(place, "x") for place in path.fields))


def test_every_path_of_the_layout_has_a_line() -> None:
    folders = [path for key, path in layout_paths() if key.endswith(_FOLDER_ENDS)]
    assert unknown(path for key, path in layout_paths() if not key.endswith(_FOLDER_ENDS)) == []
    assert len(folders) > 10
    for folder in folders:
        assert any(_below(line, folder) for line, _ in lines()), f"{folder} is empty"


def _below(line: str, folder: str) -> bool:
    parts, names = line.rstrip("/").split("/"), folder.split("/")
    return len(parts) >= len(names) and not unknown(
        ["/".join(names + [part.replace("*", "x") for part in parts[len(names) :]])]
    )


def test_no_path_has_two_lines() -> None:
    names = [path for path, _ in lines()]
    assert len(set(names)) == len(names)
    assert len(names) > 50
