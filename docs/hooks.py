"""Hook of MkDocs: the pages of the root, links between them and docs/, and the API reference.

The pages are written for a reader of the repository. On the site those of the root lie beside those of docs/.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files
from pymdownx.slugs import slugify

ROOT = Path(__file__).parents[1]
_OF_ROOT = {"README.md": "index.md"} | {
    f"{name}.md": f"{name}.md" for name in ("BENCHMARKS", "CHANGELOG", "CONTRIBUTING", "SECURITY")
}
_LINK = re.compile(r"\[([^\]]*)\]\((?!\w+:|#)([^)#\s]*)(#[^)\s]*)?\)")
_SECTION = re.compile(r"^\| (\w[\w ]*) \| \|\n\|---\|---\|\n((?:\|.*\n)+)", re.MULTILINE)
_PAGE = re.compile(r"\]\((\w+\.md)\)")
_NAME = re.compile(r"^ +(?:from \S+ import )?(\w+) as \w+,?$", re.MULTILINE)


def on_config(config: Any) -> Any:
    """Let headings have GitHub's anchors, and the site the sections of docs/README.md."""
    config.mdx_configs["toc"]["slugify"] = slugify(case="lower")
    index = (ROOT / "docs" / "README.md").read_text()
    sections = [(title.capitalize(), [*_PAGE.findall(rows)]) for title, rows in _SECTION.findall(index)]
    sections[0][1].append({"API reference": "api.md"})
    sections[-1][1].extend(["CONTRIBUTING.md", {"Reporting a vulnerability": "SECURITY.md"}])
    sections.append(("Archives", ["BENCHMARKS.md", "experiments.md", "CHANGELOG.md"]))
    config.nav = [{"Overview": "index.md"}, *({title: pages} for title, pages in sections)]
    return config


def on_files(files: Files, config: Any) -> Files:
    """Add the pages of the root and the API reference."""
    for name, page in _OF_ROOT.items():
        files.append(File.generated(config, page, content=(ROOT / name).read_text()))
    files.append(File.generated(config, "api.md", content=_reference()))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Return the page with links as they are on the site; those to files that it lacks become their text."""
    folder = "" if page.file.src_uri in _OF_ROOT.values() else "docs"

    def link(match: re.Match[str]) -> str:
        path = posixpath.normpath(posixpath.join(folder, match[2]))
        target = _OF_ROOT.get(path, path.removeprefix("docs/"))
        file = files.get_file_from_path(target)
        if file is None or not file.inclusion.is_included():
            return match[1]
        return f"[{match[1]}]({target}{match[3] or ''})"

    return _LINK.sub(link, markdown)


def _reference() -> str:
    """Return a page with the docstrings of the public names of `mcvrp`."""
    names = _NAME.findall((ROOT / "src" / "mcvrp" / "__init__.py").read_text())
    return "# API reference\n\n" + "".join(f"::: mcvrp.{name}\n\n" for name in sorted(names))
