"""Every error message ends with a remedy."""

from __future__ import annotations

import ast
import re

import pytest

from tests.unit.test_private_interfaces import ROOT, SOURCE

VERBS = set(
    re.findall(
        r"\w+",
        "add allow ask call check choose compare copy correct create decode delete draw end enter "
        "export free give import install keep label leave let list look lower make move name omit pip "
        "promote put raise register remove rename repair report request reserve restore route run "
        "save say see set solve split start stop take train update upload use wait write",
    )
)
# Requirements, which are remedies by themselves.
BOUND = re.compile(
    r"\b(must|needs|whole number|share)\b.*, not (k = )?\{\w*\}(, \{\})*$|need the columns \{\}$"
)
# Variables that contain a remedy.
HINTS = {"hint", "HINT", "remedy", "_REMEDY", "_AGAIN", "_TRAIN_AGAIN", "_ABSENT", "_SILENCE", "fault", "few"}
# Messages that end with another one, which has the remedy.
MADE_ELSEWHERE = {
    "city {} has {costs}",  # two texts with a remedy each
    "--{}: {}",  # of a field
    "attention model {name}, n={n}: {failure}",
    "train.base = {}: {error}",
    "phase {}: {error}",  # of its ranges
    "{error} ({made})",
    "{name}: {errors}",  # of a file's rows
    "{}; {}",  # options of the command
    "there is nothing at {}: {}",  # with a suggestion
    "{name} {}",  # what the reader of a spreadsheet says
    "network.{} is {}",  # in the sentence on a model's card
    "its network has {} parameters, the weights have {stored}",
}


@pytest.mark.parametrize(
    ("code", "has_one"),
    [
        ("McvrpError('x is no file')", False),
        ("McvrpError('x is no file: give one')", True),
        ("McvrpError('give x')", False),  # what is wrong comes first
        ("McvrpError(f'{x} is no file ({why}); {place} has one, or give {y}')", True),
        ("McvrpError(f'{x} is no file: {hint}')", True),
        ("McvrpError(f'{x} is no file: {why}')", False),
        ("McvrpError(f'x must be 1 to 9, not {x}')", True),  # a bound is what to give
        ("McvrpError(f'{x} is no file' + f': give {y}')", True),
        ("McvrpError(sentence(x))", True),  # made elsewhere
    ],
)
def test_a_remedy_is_told_from_a_description(code: str, has_one: bool) -> None:
    call = ast.parse(code, mode="eval").body
    assert isinstance(call, ast.Call)
    assert has_remedy(call.args[0]) == has_one


def test_every_error_names_a_remedy() -> None:
    """All user-facing errors; failures of a solver need no remedy."""
    family = kinds() - {"SolverFailed"}
    assert {"McvrpError", "StoreError", "IncompleteError", "CorruptFile"} <= family
    bare = [
        f"{path.relative_to(ROOT)}:{call.lineno} {_text(call.args[0])}"
        for path in SOURCE
        for call in ast.walk(ast.parse(path.read_text()))
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id in family
        if call.args and not has_remedy(call.args[0]) and _text(call.args[0]) not in MADE_ELSEWHERE
    ]
    assert bare == []


def kinds() -> set[str]:
    nodes = [node for path in SOURCE for node in ast.walk(ast.parse(path.read_text()))]
    classes = [node for node in nodes if isinstance(node, ast.ClassDef)]
    family, grown = {"McvrpError"}, 0
    while grown < len(family):
        grown = len(family)
        family |= {each.name for each in classes if {ast.unparse(base) for base in each.bases} & family}
    return family


def has_remedy(message: ast.expr) -> bool:
    if not isinstance(message, (ast.Constant, ast.JoinedStr, ast.BinOp)):
        return True
    text = re.sub(r"\([^()]*\)", "", _text(message))
    if BOUND.search(text):
        return True
    _, _, remedy = text.replace("; ", ": ").partition(": ")
    clauses = re.split(r"[:,] (?:or |and |which )?", remedy)
    return any(
        clause.partition(" ")[0] in VERBS or set(re.findall(r"\{(\w+)\}", clause)) & HINTS
        for clause in clauses
    )


def _text(part: ast.expr) -> str:
    match part:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=values):
            return "".join(map(_text, values))
        case ast.BinOp(left=left, right=right):
            return _text(left) + _text(right)
        case ast.FormattedValue(value=ast.Name(id=name)):
            return f"{{{name}}}"
    return "{}"
