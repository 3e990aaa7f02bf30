"""Check of the wording of pages, messages and docstrings: `python -m tests.unit.docs.phrases [FOLDER]`."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[3]
_COUNTED = (
    "row|line|folder|page|file|label|time|second|sample|step|answer|run|process|figure|field|entry|call"
)
_PER = (
    "size|stop|order|day|instance|address|label|subject|file|flow|row|rank|customer|sample|route|method|"
    "phase|epoch|step|line|worker|night|round|key|test|shard|run|second|figure|problem|core"
)
HABITS = {  # regular expression of a phrase: what to write instead
    rf"\b(?:an?|one|every) (?:{_COUNTED}) an? (?:{_PER})\b": "one row per order",
    rf"\b(?:{_COUNTED}|core|gap|cost|token)s an? (?:{_PER})\b": "seconds per instance",
    r"\bsa(?:ys?|id) so\b": "reports it; prints a warning",
    r"\b(?:is|are|was|be|been|being) told\b(?! apart)": "the error message reports; is set to",
    r", say\b": "such as",
    r"\b(?:goes|go|going|went) on\b": "continues; resumes",
    r"\bwhere (?:it has|there (?:is|are|was)|they have) (?:none|no|nothing)\b": "if there is no",
    r"\bwhere (?:nobody|nothing|none)\b": "if no",
    r"\b(?:that|which|who) (?:is|are) none\b": "is not a; there is no",
    r"\bon end\b": "consecutively; concatenated",
    r"\bas ever\b": "as before",
    r"\bfor (?:ever|good)\b": "indefinitely; permanently",
    r"\bin the place of\b": "instead of",
    r"\btakes? (?:it|them|its \w+) along\b": "is rejected with it",
    r"\b(?:lies?|lay|stands?|stood) (?:in(?! the future)|at|beside|below|behind|elsewhere|there)\b": "is in",
    r"\b(?:some|no|every)body\b": "another process; the user; unreferenced",
    r"\bthings?\b": "artifact; item",
    r"\b(?:afresh|anew)\b": "again; from scratch",
    r"\bjust now\b": "currently",
    r"(?<!instead )\bof (?:ours|yours|theirs)\b": "our; your own",
    r"\b(?:was|is|were|are) asked for\b": "was requested; its spec",
    r"\bby policy\b(?! gradient)": "by policy gradient",
    r"\b(?:Most|Fewest) (?:vehicles|customers|runs|steps|samples|rows|labels|bytes|cores)\b": "Maximum",
    r"\bany ?more\b": "no longer",
    r"\bwill do\b": "is sufficient",
    r"\bg(?:ives?|ave) no answer\b": "does not respond",
    r"\bmend(?:s|ed|ing)?\b": "repair; fix; remedy",
    r"\b(?:spoilt|condemned|heal(?:s|ed)?|acquit(?:s|ted)?)\b": "corrupt; verification report; repair",
    r"\bwho (?:solves?|labels?|found|has (?:made|solved))\b": "solver; found by",
    r"\bhow often (?:the|it|they)\b": "number of",
    r"\bthe way of\b": "data flow of",
    r"\bunasked\b": "by default",
    r"\bstands? for\b": "represents",
}
_OPENINGS = r"(?:What|Who|Whose|Of|That|How|Where|Which)\b"
_PYTHON = ("flows", "tasks", "storage", "model", "src", "docker", "tests")
_OWN = ("phrases.py", "test_pages.py")  # they contain the list, and examples of it


class Hit(NamedTuple):
    where: str  # path and line
    phrase: str
    instead: str

    def __str__(self) -> str:
        return f"{self.where}: {self.phrase!r}: write as in {self.instead!r}"


def hits(root: Path = ROOT) -> Iterator[Hit]:
    listed = subprocess.run(["git", "ls-files"], cwd=root, capture_output=True, text=True, check=True)
    for name in listed.stdout.splitlines():
        path = root / name
        if path.is_symlink() or not path.is_file() or path.name in _OWN:
            continue
        if path.suffix in (".md", ".j2", ".yaml", ".toml") or path.name == "Makefile":
            for number, line in enumerate(path.read_text().splitlines(), 1):
                yield from _in_text(f"{name}:{number}", line)
        elif path.suffix == ".py" and name.startswith(_PYTHON):
            yield from _in_python(name, path.read_text())


def _in_text(where: str, text: str) -> Iterator[Hit]:
    for habit, instead in HABITS.items():
        for match in re.finditer(habit, text):
            yield Hit(where, match[0], instead)


def _in_python(name: str, source: str) -> Iterator[Hit]:
    for token in tokenize.generate_tokens(iter(source.splitlines(keepends=True)).__next__):
        if token.type == tokenize.COMMENT:
            yield from _in_text(f"{name}:{token.start[0]}", token.string)
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield from _in_text(f"{name}:{node.lineno}", " ".join(node.value.split()))
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
            opening = re.match(_OPENINGS, ast.get_docstring(node) or "")
            if opening:
                line = getattr(node, "lineno", 1)
                yield Hit(f"{name}:{line}", f"{opening[0]} …", "a docstring begins with a noun or a verb")


def main(folders: tuple[str, ...] = ()) -> int:
    selected = [hit for hit in hits() if hit.where.startswith(folders or "")]
    print(*selected, sep="\n", end="\n" if selected else "")
    return int(bool(selected))


if __name__ == "__main__":
    sys.exit(main(tuple(sys.argv[1:])))
