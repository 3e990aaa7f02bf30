"""Markdown for people: documents from Jinja2 templates that lie beside the code, metadata, and tables."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from urllib.parse import quote

import yaml
from humanize import intcomma
from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape

from mcvrp.model.errors import printable

TASK = "graph-ml"  # of the tasks that the Hub knows, the nearest
_TAGS = ["combinatorial-optimization", "vehicle-routing", "cvrp", "mcvrp"]
# What opens a link, a picture, HTML, an entity, code or emphasis; and in addresses, which GitHub makes links.
_SPECIAL = re.compile(r"[\\`<>\[\]*~@]|&(?=[#\w])|(?<![^\W_])_|_(?![^\W_])|:(?=//)|(?<=www)\.", re.IGNORECASE)
_ESCAPED = re.compile(r"\\([\\`<>\[\]&*~@_:.|])")
_IN_ADDRESSES = "/:;,=+@$&?#%~"
_METADATA = re.compile(r"---\n.*?\n---\n+", re.DOTALL)


def render(package: str, template: str, **values: object) -> str:
    """Return the text of ``template``, a file in the folder `templates` of ``package``, with ``values``.

    A value that the template names and nobody gives is an error; the filter ``intcomma`` writes 12,000,
    ``text`` any text as it is, ``code`` the same as a code span, ``cell`` Markdown that may have a bar into
    a table. What is read from `.html.j2` is escaped.
    """
    return _environment(package).get_template(template).render(**values)


@lru_cache(maxsize=16)
def _environment(package: str) -> Environment:
    environment = Environment(
        loader=PackageLoader(package),
        autoescape=select_autoescape(["html.j2"], default=False),
        undefined=StrictUndefined,
        trim_blocks=True,  # a line that holds a statement alone leaves no empty line
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["intcomma"] = intcomma
    environment.filters |= {"cell": cell, "text": escaped, "code": code}
    return environment


def cell(text: str) -> str:
    """Return Markdown ``text`` as a cell of a table: a bar in it makes no column."""
    return text.replace("|", r"\|")


def escaped(text: object) -> str:
    """Return ``text`` as Markdown that shows it as it is: a name makes no link, picture, HTML or code."""
    return _SPECIAL.sub(r"\\\g<0>", printable(str(text)))


def unescaped(text: str) -> str:
    """Return Markdown ``text`` without the backslashes of `escaped` and `cell`."""
    return _ESCAPED.sub(r"\1", text)


def code(text: object) -> str:
    """Return ``text`` as a code span of Markdown, also where there are backticks in it."""
    shown = printable(str(text))
    fence = "`" * (1 + max(map(len, re.findall("`+", shown)), default=0))
    return f"{fence}{shown}{fence}" if len(fence) == 1 else f"{fence} {shown} {fence}"


def image(name: str, address: str) -> str:
    """Return the Markdown of a picture at ``address``, called ``name``."""
    return f"!{link(name, address)}"


def link(name: str, address: str) -> str:
    """Return the Markdown of a link to ``address`` that shows ``name``."""
    return f"[{escaped(name)}]({quote(address, safe=_IN_ADDRESSES)})"


def card_metadata(fields: Mapping[str, object]) -> str:
    """Return ``fields`` and our tags as the YAML that a card begins with, for the Hugging Face Hub.

    A licence is not among them: those whom the addresses and routes belong to choose it.
    """
    return f"---\n{yaml.safe_dump({**fields, 'tags': _TAGS}, sort_keys=False, allow_unicode=True)}---\n\n"


def without_metadata(text: str) -> str:
    """Return the Markdown ``text`` without the YAML that it may begin with."""
    return text[match.end() :] if (match := _METADATA.match(text)) else text


def table(
    header: Sequence[str], rows: Sequence[Sequence[str]], align: str = "", *, right: bool = False
) -> str:
    """Return a Markdown table of `cell`.

    Parameters
    ----------
    align
        A letter a column: "l" for left, "r" for right.
    right
        Without ``align``: whether all columns but the first are aligned to the right.
    """
    align = align or "l" + ("r" if right else "l") * (len(header) - 1)
    rule = ["--:" if side == "r" else "---" for side in align]
    return "\n".join("| " + " | ".join(map(cell, cells)) + " |" for cells in (header, rule, *rows))
