"""Parts that the scripts share: arguments, files of measurements, tables."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any


def arguments(document: str | None) -> argparse.ArgumentParser:
    """Return a parser that describes the script by its docstring."""
    raw = argparse.RawDescriptionHelpFormatter
    return argparse.ArgumentParser(description=document, formatter_class=raw)


def read_rows(path: Path) -> list[dict[str, Any]]:
    """Return the measurements in ``path``; a line that a killed process left unfinished is removed."""
    if not path.exists():
        return []
    data = path.read_bytes()
    complete = data[: data.rfind(b"\n") + 1]
    if len(complete) < len(data):
        path.write_bytes(complete)
    return [json.loads(line) for line in complete.splitlines()]


def append_row(path: Path, row: dict[str, Any]) -> None:
    with path.open("a") as stream:
        stream.write(json.dumps(row) + "\n")


def heading(*titles: str, texts: int = 0) -> None:
    """Print the head of a Markdown table, of whose columns the first ``texts`` hold no numbers."""
    rule = "---|" * texts + "--:|" * (len(titles) - texts)
    print(f"| {' | '.join(titles)} |\n|{rule}", flush=True)


def row(*cells: object) -> None:
    print(f"| {' | '.join(map(str, cells))} |", flush=True)
