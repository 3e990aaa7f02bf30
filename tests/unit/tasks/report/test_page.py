"""The report as a self-contained page without markup from its data, and as LaTeX that compiles and fits."""

from __future__ import annotations

import re
import shutil
import subprocess
from importlib.resources import files
from pathlib import Path

import pytest

from mcvrp.model.problem import City
from mcvrp.storage.benchmarks import write_results
from mcvrp.storage.store.store import Store
from mcvrp.tasks.benchmark.run import results_frame
from mcvrp.tasks.report.formats import (
    Page,
    ReportFigure,
    latex_escape,
    render_page,
    significance_latex,
    to_latex,
)
from mcvrp.tasks.report.metrics import Line, Percentiles
from mcvrp.tasks.report.paper import PairedTest, paper_tables, paper_tests
from mcvrp.tasks.report.tables import Table, benchmark_table
from tests.support.markup import Markup
from tests.support.paper_shaped import paper_shaped

EVIL = '<script>alert("x")</script> & "quotes" \'too\''


def page(text: str) -> Page:
    values = Percentiles(1.0, 0.5, 1.5)
    line = Line(20, text, 1, 3, 0, False, 1, values, values, 0.5, text, None)
    return Page(
        title=text,
        lead=text,
        key_figures=[(text, text, text)],
        stages=[(text, text)],
        tables=[Table(text, (line,), (text,))],
        tests=[PairedTest((text, 1), (text, 2), 20, None, text)],
        figures=[ReportFigure("name", b"\x89PNG", text)],
        configuration=text,
        links=[("table.csv", text)],
    )


def test_text_cannot_become_markup() -> None:
    evil, plain = (Markup(render_page(page(text))) for text in (EVIL, "harmless"))
    assert [tag for tag, _ in evil.elements] == [tag for tag, _ in plain.elements]


def test_the_page_loads_nothing() -> None:
    html = render_page(page("harmless"))
    elements = Markup(html).elements
    sources = [a["src"] or "" for tag, a in elements if tag == "img"]
    assert all(source.startswith("data:image/png;base64,") for source in sources)
    links = [a["href"] or "" for tag, a in elements if tag == "a"]
    assert [link for link in links if not link.startswith("#")] == ["table.csv"]
    anchors = {a.get("id") for _, a in elements}
    assert {link[1:] for link in links if link.startswith("#")} <= anchors
    assert not re.search(r"https?://|url\(|@import|<link", html)


def test_only_our_script_may_run() -> None:
    html, script = render_page(page(EVIL)), (files("mcvrp.tasks.report") / "templates/report.js").read_text()
    elements = Markup(html).elements
    assert [tag for tag, _ in elements].count("script") == 1
    assert html.count(f"<script>\n{script}</script>") == 1
    policy = next(a["content"] for _, a in elements if a.get("http-equiv"))
    assert str(policy).startswith("default-src 'none'")


def test_empty_sections_are_left_out() -> None:
    html = render_page(Page("t", "l", [], [], [], [], [], "", []))
    assert Markup(html).elements
    assert "<h2" not in html
    assert "<nav" not in html


def test_every_heading_cell_has_a_scope() -> None:
    scopes = {a.get("scope") for tag, a in Markup(render_page(page("harmless"))).elements if tag == "th"}
    assert scopes == {"col", "row", "rowgroup"}


_DOCUMENT = r"""\documentclass[10pt,a4paper]{article}
\usepackage[a4paper,margin=2cm]{geometry}
\usepackage{booktabs,longtable,array}
\begin{document}
%s
\end{document}
"""


def test_characters_that_latex_cannot_set_become_question_marks() -> None:
    assert latex_escape("größer ≥ 1, 東京\n|x|") == r"größer $\geq$ 1, ???\textbar{}x\textbar{}"


@pytest.mark.skipif(
    shutil.which("pdflatex") is None, reason="pdflatex is not installed (apt: texlive-latex-base)"
)
def test_every_table_compiles_and_is_as_wide_as_the_text(tmp_path: Path) -> None:
    """All methods, the paper's figures below ours: no error and no overfull box."""
    store = Store.open(tmp_path / "store")
    rows = paper_shaped(City.uniform(800, seed=1), instances=2, sizes=(20, 400, 800))
    results = results_frame(write_results(store, "b", list(rows)))
    tables = (benchmark_table(results, None), *paper_tables(results, is_papers_setting=True))
    tests = paper_tests(results, 400, is_papers_setting=True)
    parts = [to_latex(table) for table in tables] + [significance_latex(tests)]
    (tmp_path / "all.tex").write_text(_DOCUMENT % "\\clearpage\n".join(parts))
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "all.tex"]
    for _ in range(2):  # longtable needs a second pass for its widths
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, errors="replace")
    assert done.returncode == 0, done.stdout[-2000:]
    assert not re.search(r"Overfull \\hbox", done.stdout)
