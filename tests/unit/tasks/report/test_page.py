"""The report as a self-contained page without markup from its data, and as LaTeX that compiles and fits."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pandas as pd
import pytest

from mcvrp.tasks.report.formats import Page, ReportFigure, render_page, to_latex
from mcvrp.tasks.report.paper import paper_tables
from mcvrp.tasks.report.tables import Table, benchmark_table
from mcvrp.tasks.report.verdict import PICTURE
from tests.support.markup import Markup
from tests.support.results import paper_shaped

EVIL = '<script>alert("x")</script> & "quotes" \'too\''


def page(text: str) -> Page:
    cells = pd.DataFrame({"N": ["20", text], "Method": text, text: text})
    table = Table("table", text, cells, cells, [text], [text])
    return Page(
        title=text,
        lead=text,
        verdict=[text],
        warnings=[text],
        key_figures={text: text},
        tables=[table, table],
        figures=[ReportFigure(name, b"\x89PNG", text) for name in ("name", PICTURE)],
    )


def test_text_cannot_become_markup_and_no_script_may_run() -> None:
    evil, plain = (Markup(render_page(page(text))).elements for text in (EVIL, "harmless"))
    assert [tag for tag, _ in evil] == [tag for tag, _ in plain]
    assert "script" not in [tag for tag, _ in plain]
    policy = next(str(a["content"]) for _, a in plain if a.get("http-equiv"))
    assert policy.startswith("default-src 'none'")
    assert "script-src" not in policy
    assert {a.get("scope") for tag, a in plain if tag == "th"} == {"col", "row"}


def test_the_page_loads_nothing() -> None:
    html = render_page(page("harmless"))
    elements = Markup(html).elements
    sources = [a["src"] or "" for tag, a in elements if tag == "img"]
    assert all(source.startswith("data:image/png;base64,") for source in sources)
    assert not re.search(r"https?://|url\(|@import|<link", html)


def test_the_first_screen_has_the_verdict_its_picture_and_the_warnings() -> None:
    """Before anything else; the picture is not repeated below."""
    html = render_page(page("harmless"))
    assert html.index('class="warning"') < html.index('class="verdict"') < html.index(f'id="{PICTURE}"')
    assert html.index(f'id="{PICTURE}"') < html.index("<table")
    assert html.count(f'id="{PICTURE}"') == 1


def test_empty_sections_are_left_out() -> None:
    html = render_page(Page("t", "l"))
    assert Markup(html).elements
    assert "<h2" not in html


_DOCUMENT = r"""\documentclass[10pt,a4paper]{article}
\usepackage[a4paper,margin=2cm]{geometry}
\usepackage[T1]{fontenc}
\usepackage{booktabs,longtable,array}
\begin{document}
%s
\end{document}
"""


@pytest.mark.skipif(
    shutil.which("pdflatex") is None, reason="pdflatex is not installed (apt: texlive-latex-base)"
)
def test_every_table_compiles_and_is_as_wide_as_the_text(tmp_path: Path) -> None:
    """All methods: no error and no overfull box."""
    results = paper_shaped((20, 400, 800))
    parts = [to_latex(table) for table in (benchmark_table(results), *paper_tables(results))]
    (tmp_path / "all.tex").write_text(_DOCUMENT % "\\clearpage\n".join(parts))
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "all.tex"]
    for _ in range(2):  # longtable needs a second pass for its widths
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, errors="replace")
    assert done.returncode == 0, done.stdout[-2000:]
    assert not re.search(r"Overfull \\hbox", done.stdout)
