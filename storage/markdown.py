"""Markdown: cards of artifacts, their tables and escaping; and HTML pages from templates beside the code."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from urllib.parse import quote

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape

from mcvrp.model.errors import printable

# Start of a link, an image, HTML, an entity, code or emphasis; also in URLs, which GitHub turns into links.
_SPECIAL = re.compile(
    r"[\\`>\[\]*~@]|<(?![\s\d=])|&(?=[#\w])|(?<![^\W_])_|_(?![^\W_])"
    r"|:(?=//)|(?<=www)\.",
    re.IGNORECASE,
)
_ESCAPED = re.compile(r"\\([\\`<>\[\]&*~@_:.|])")
_URL_SAFE = "/:;,=+@$&?#%~"


def render(package: str, template: str, **values: object) -> str:
    """Return ``template`` of the folder `templates` of ``package``, rendered with ``values``.

    An undefined value is an error. Templates with the suffix `.html.j2` are escaped.
    """
    return _environment(package).get_template(template).render(**values)


@lru_cache(maxsize=16)
def _environment(package: str) -> Environment:
    return Environment(
        loader=PackageLoader(package),
        autoescape=select_autoescape(["html.j2"], default=False),
        undefined=StrictUndefined,
        trim_blocks=True,  # a line with only a statement leaves no empty line
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )


def cell(text: str) -> str:
    """Return Markdown ``text`` for a cell of a table, with bars escaped."""
    return text.replace("|", r"\|")


def escaped(text: object) -> str:
    """Return ``text`` as Markdown that shows it verbatim: no link, image, HTML or code."""
    return _SPECIAL.sub(r"\\\g<0>", printable(str(text)))


def unescaped(text: str) -> str:
    """Return the inverse of `escaped` and `cell`."""
    return _ESCAPED.sub(r"\1", text)


def code(text: object) -> str:
    """Return ``text`` as a code span; it may contain backticks."""
    shown = printable(str(text))
    fence = "`" * (1 + max(map(len, re.findall("`+", shown)), default=0))
    return f"{fence}{shown}{fence}" if len(fence) == 1 else f"{fence} {shown} {fence}"


def image(name: str, address: str) -> str:
    """Return an image at ``address`` with the alternative text ``name``."""
    return f"![{escaped(name)}]({quote(address, safe=_URL_SAFE)})"


def table(
    header: Sequence[str], rows: Sequence[Sequence[str]], align: str = "", *, right: bool = False
) -> str:
    """Return a Markdown table, its cells escaped by `cell`.

    ``align`` has "l" or "r" per column; without it, ``right`` aligns all columns but the first to the right.
    """
    align = align or "l" + ("r" if right else "l") * (len(header) - 1)
    rule = ["--:" if side == "r" else "---" for side in align]
    return "\n".join("| " + " | ".join(map(cell, cells)) + " |" for cells in (header, rule, *rows))


def card(
    title: str,
    figures: Mapping[str, str],
    *parts: str,
    lead: str = "",
    files: Mapping[str, str] | None = None,
    made: str = "",
) -> str:
    """Return the card, README.md, of an artifact as Markdown.

    Title, a ``lead`` paragraph, a table of ``figures`` by name, further ``parts`` (tables, pictures,
    sections), the line of provenance ``made``, and the ``files`` beside it with what they hold. All texts are
    Markdown, only the names of files are not; what is empty is left out.
    """
    text = _joined(
        f"# {title}",
        lead,
        table(["", ""], list(figures.items())) if figures else "",
        *parts,
        made,
        section("Files", table(["File", "Holds"], [[code(name), text] for name, text in files.items()]))
        if files
        else "",
    )
    return text + "\n"


def section(title: str, *parts: str) -> str:
    """Return a section of a card with those of its ``parts`` that are not empty, "" without any."""
    text = _joined(*parts)
    return f"## {title}\n\n{text}" if text else ""


def _joined(*parts: str) -> str:
    return "\n\n".join(part.strip() for part in parts if part.strip())
