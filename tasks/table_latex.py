"""A table of the benchmark as LaTeX (booktabs, longtable): our figures, and the paper's in a line below.

It breaks between sizes where it is longer than a page.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from tasks.table_formats import BASELINE, Cell, cells, headings
from tasks.tables import Line, Start, Table, starts

PACKAGES = "% needs \\usepackage{booktabs,longtable,array}, and a text at least 17 cm wide"
_SIGNS = {
    **{c: f"\\{c}" for c in "&%$#_{}"},
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    "\N{NO-BREAK SPACE}": "~",
    "–": "--",
    "—": "---",
    "−": "$-$",
    "×": r"$\times$",
    "≤": r"$\leq$",
    "≥": r"$\geq$",
    "→": r"$\rightarrow$",
    "·": r"$\cdot$",
    "…": r"\ldots{}",
    "‘": "`",
    "’": "'",
    "“": "``",
    "”": "''",
}
_LAST_LETTER = "\u017f"  # pdfLaTeX has the European letters up to here without further packages
_MINUS = re.compile(r"(?<![\w.])-(?=\d)")


def to_latex(table: Table) -> str:
    """Return the table as a LaTeX ``longtable``, notes below."""
    last = len(headings(table))
    first = 4 if table.has_wins else 3  # the column of the objective
    wins = "& " if table.has_wins else ""
    head = [
        "    \\toprule",
        f"    & & {wins}\\multicolumn{{2}}{{c}}{{Obj.}} & \\multicolumn{{2}}{{c}}{{Gap (\\%)}} & & \\\\",
        f"    \\cmidrule(lr){{{first}-{first + 1}}} \\cmidrule(lr){{{first + 2}-{first + 3}}}",
        f"    N & Method & {'Wins & ' if table.has_wins else ''}Avg. & 80\\,\\% range & Avg. "
        "& 80\\,\\% range & Time & Run on \\\\",
        "    \\midrule",
    ]
    columns = (
        f"@{{}}r>{{\\raggedright}}p{{5.2cm}}{'r' if table.has_wins else ''}rrrrr"
        ">{\\raggedright\\arraybackslash}p{3.2cm}@{}"
    )
    text = [
        PACKAGES,
        "\\begingroup\\scriptsize\\setlength{\\tabcolsep}{3pt}",
        f"\\begin{{longtable}}{{{columns}}}",
        f"    \\caption{{{latex_escape(table.caption)}}}\\\\",
        *head,
        "    \\endfirsthead",
        *head,
        "    \\endhead",
        f"    \\midrule \\multicolumn{{{last}}}{{r}}{{continued}}\\\\",
        "    \\endfoot",
        "    \\bottomrule",
        "    \\endlastfoot",
    ]
    begins = starts(table)
    for place, (line, start) in enumerate(zip(table.lines, begins, strict=True)):
        if place and start is Start.SIZE:
            text.append("    \\midrule")
        elif start in (Start.GROUP, Start.BEYOND):
            text.append(f"    \\cmidrule{{2-{last}}}")
        ends_here = place + 1 == len(begins) or begins[place + 1] is not Start.NOTHING
        text += _rows(cells(table, line), line, start, first, "\\\\" if ends_here else "\\\\*")
    notes = (*table.notes, *table.conditions)
    return "\n".join([*text, "\\end{longtable}", *latex_notes(notes), "\\endgroup"]) + "\n"


def latex_notes(notes: Sequence[str]) -> list[str]:
    """Return ``notes`` as lines of LaTeX, a paragraph each."""
    return [
        "\\par\\begingroup\\scriptsize\\raggedright\\setlength{\\parindent}{0pt}",
        *(f"{latex_escape(note)}\\par" for note in notes),
        "\\endgroup",
    ]


def _rows(row: Sequence[Cell], line: Line, start: Start, first: int, end: str) -> list[str]:
    """Return our figures and, where there are any, the paper's; ``end`` allows a page to end there or not."""
    ours = [_figure(cell.text) for cell in row]
    ours[0] = ours[0] if start is Start.SIZE else ""
    ours[1], ours[-1] = (latex_escape(cell.text).replace("s = ", "s~=~") for cell in (row[1], row[-1]))
    if row[first + 1].text == BASELINE:
        ours[first + 1 : first + 3] = [f"\\multicolumn{{2}}{{c}}{{\\itshape {BASELINE}}}"]
    if line.published is None:
        return [f"    {' & '.join(ours)} {end}"]
    theirs = ["", "\\quad\\itshape the paper", *(_figure(cell.paper) for cell in row[2:])]
    return [f"    {' & '.join(ours)} \\\\*", f"    {' & '.join(theirs)} {end}"]


def _figure(text: str) -> str:
    """Return numbers with minus signs in place of hyphens."""
    return _MINUS.sub("$-$", latex_escape(text))


def latex_escape(text: str) -> str:
    """Return ``text`` with every character that LaTeX would act on, or stop at, made harmless."""
    return "".join(_SIGNS.get(c, c if c <= _LAST_LETTER and c.isprintable() else "?") for c in text)
