"""LaTeX tables compile and fit the page, with any names and reasons."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from mcvrp.model.problem import City
from mcvrp.storage.benchmarks import write_results
from mcvrp.storage.store.store import Store
from mcvrp.tasks.benchmark.results import results_frame
from mcvrp.tasks.report.formats import latex_escape, significance_latex, to_latex
from mcvrp.tasks.report.paper import paper_tables, paper_tests
from mcvrp.tasks.report.tables import benchmark_table
from tests.support.paper_shaped import paper_shaped

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
