"""Presets: a validated `PipelineSpec` from a preset's name or a TOML file, and the overrides of `--set`."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from mcvrp.flows.config.errors import dotted, field_errors, first_of
from mcvrp.flows.config.spec import PipelineSpec, contradictions
from mcvrp.model.errors import McvrpError, brief, nearest, reason, shown
from mcvrp.storage.store.local import require_file
from mcvrp.storage.store.parsing import parse_toml

FOLDER = Path(__file__).parents[1] / "presets"
_MAX_BYTES = 2**20  # of a preset; ours have a few thousand
_MAX_DEPTH = 20  # parts of a key of --set; fields of specs have half as many
_INDEX = re.compile("[0-9]{1,9}")  # in a list


@dataclass(frozen=True)
class Override:
    """Override of a field: ``--set key=value`` with a value in TOML.

    An empty value (``--set label.iterations=``) restores the default.
    """

    path: tuple[str | int, ...]
    value: Any
    remove: bool = False

    @classmethod
    def parse(cls, text: str) -> Override:
        """Parse "label.count=500"; a value that is not TOML is text."""
        key, equals, value = text.partition("=")
        parts = [part.strip() for part in key.split(".")]
        if not equals or not all(parts):
            raise McvrpError(f"--set {shown(text)}: write key=value, such as label.count=500")
        if len(parts) > _MAX_DEPTH:
            raise McvrpError(
                f"--set {shown(key)}: no field has so many parts: write key=value, such as label.count=500"
            )
        path = tuple(int(part) if _INDEX.fullmatch(part) else part for part in parts)
        try:
            return cls(path, _toml_value(value.strip()), remove=not value.strip())
        except ValueError as error:
            raise McvrpError(
                f"--set {shown(key)}: {shown(value)} is invalid ({error}): give another value"
            ) from None


def preset_names() -> list[str]:
    """Return the names of the included presets."""
    return sorted(path.stem for path in FOLDER.glob("*.toml"))


def load_preset(name: str, overrides: Sequence[str] = ()) -> PipelineSpec:
    """Return the pipeline spec of a preset or a TOML file.

    ``name`` is a preset, such as "laptop", or a path that ends in ".toml"; ``overrides`` are values of single
    fields: "label.count=500", "train.phases.0.lr=1e-3".

    Raises
    ------
    McvrpError
        If the preset does not exist or is invalid: its file, the field, the value, the expected value.
    """
    path = _locate(name)
    data = _read(path)
    parsed = [Override.parse(text) for text in overrides]
    for override in parsed:
        _apply(data, override, path.name)
    try:
        spec = PipelineSpec.model_validate(data)
        errors = contradictions(spec)
    except ValidationError as error:
        errors = field_errors(error, PipelineSpec, data)
    if errors:
        field, written = errors[0].path, _read(path)  # without the overrides
        overridden = any(
            field[: len(override.path)] == override.path
            or (override.path[: len(field)] == field and not _has(written, field))  # a field of no section
            for override in parsed
            if field
        )
        sentence = f"{'--set' if overridden else path.name}: {first_of(errors)}"
        raise McvrpError(sentence)
    return spec


def _has(data: Any, path: Sequence[str | int]) -> bool:
    for part in path:
        if not isinstance(data, dict) or part not in data:
            return False
        data = data[part]
    return True


def _locate(name: str) -> Path:
    path = Path(name)
    if path.suffix == ".toml" or len(path.parts) > 1:
        return path
    if name not in preset_names():
        raise McvrpError(
            f"there is no preset {shown(name)}; {nearest(name, preset_names(), 'there are')}: "
            "give the name of a preset, or the path of a .toml file"
        )
    return FOLDER / f"{name}.toml"


def _read(path: Path) -> dict[str, Any]:
    name = brief(path.name, 100)
    try:
        require_file(path, _MAX_BYTES)
        return parse_toml(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
        raise McvrpError(f"there is no preset file {brief(str(path), 200)}: check its path") from None
    except (OSError, UnicodeDecodeError) as error:
        raise McvrpError(f"{name} cannot be read: {reason(error)}; check the file") from None
    except ValueError as error:
        raise McvrpError(f"{name} is not valid TOML: {error}; correct it") from None


def _toml_value(text: str) -> Any:
    try:
        parsed = parse_toml(f"value = {text}")
    except tomllib.TOMLDecodeError:
        return text
    return parsed["value"] if len(parsed) == 1 else text


def _apply(data: dict[str, Any], override: Override, file: str) -> None:
    parent: Any = data
    for depth, part in enumerate(override.path, 1):
        is_table = isinstance(parent, dict)
        key = str(part) if is_table else _index(parent, part, override, depth - 1, file)
        if depth < len(override.path):
            parent = parent.setdefault(key, {}) if is_table else parent[key]  # a section may be omitted
        elif is_table and override.remove:
            parent.pop(key, None)
        else:
            parent[key] = override.value


def _index(parent: Any, part: str | int, override: Override, depth: int, file: str) -> int:
    key = dotted(override.path)
    above = dotted(override.path[:depth])
    if not isinstance(parent, list):
        raise McvrpError(
            f"--set {key}: {above} of {file} is a single value without a field {part}: omit that"
        )
    if not isinstance(part, int) or part >= len(parent):
        raise McvrpError(
            f"--set {key}: {above} of {file} is a list with indices 0 to {len(parent) - 1}: use one of them"
        )
    return part
