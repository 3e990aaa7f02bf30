"""Presets: from a name or a TOML file, and what `--set` changes, to a checked `PipelineSpec`."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from mcvrp.flows.config.errors import FieldError, dotted, field_errors, first_of, nearest
from mcvrp.flows.config.spec import PipelineSpec, contradictions
from mcvrp.model.errors import McvrpError, brief, reason, shown
from mcvrp.storage.store.local import require_file
from mcvrp.storage.store.parsing import parse_toml

FOLDER = Path(__file__).parents[1] / "presets"
_MOST_BYTES = 2**20  # of a preset; ours have a few thousand
_DEEPEST = 20  # names and places of a field of --set, of which a spec has half as many
_PLACE = re.compile("[0-9]{1,9}")  # in a list


@dataclass(frozen=True)
class Override:
    """One ``--set key=value``: where the value goes, and the value as TOML reads it.

    Without a value (``--set label.iterations=``) the field goes back to its default.
    """

    path: tuple[str | int, ...]
    value: Any
    remove: bool = False

    @classmethod
    def parse(cls, text: str) -> Override:
        """Read "label.count=500"; a value that is not TOML is taken as text."""
        key, equals, value = text.partition("=")
        parts = [part.strip() for part in key.split(".")]
        if not equals or not all(parts):
            raise McvrpError(f"--set {shown(text)}: write it as key=value, such as label.count=500")
        if len(parts) > _DEEPEST:
            raise McvrpError(f"--set {shown(key)}: no field is that deep: write it as label.count=500")
        path = tuple(int(part) if _PLACE.fullmatch(part) else part for part in parts)
        try:
            return cls(path, _toml_value(value.strip()), remove=not value.strip())
        except ValueError as error:
            raise McvrpError(
                f"--set {shown(key)}: {shown(value)} cannot be used ({error}): give another value"
            ) from None


def preset_names() -> list[str]:
    """Return the presets that come with the application."""
    return sorted(path.stem for path in FOLDER.glob("*.toml"))


def load_preset(name: str, overrides: Sequence[str] = ()) -> PipelineSpec:
    """Return the pipeline that ``name`` describes, a preset or the path of a TOML file.

    Parameters
    ----------
    name
        "smoke", "laptop", "evening", "gpu", "paper", or a path that ends in ".toml".
    overrides
        Changes to single fields: "label.count=500", "train.phases.0.lr=1e-3".

    Raises
    ------
    McvrpError
        In one sentence: the file, the field, what was found, what was expected.
    """
    path = _locate(name)
    data = _read(path)
    changes = [Override.parse(text) for text in overrides]
    for change in changes:
        _apply(data, change, path.name)
    try:
        spec = PipelineSpec.model_validate(data)
        errors = contradictions(spec)
    except ValidationError as error:
        errors = field_errors(error, PipelineSpec, data)
    if errors:
        raise McvrpError(_one_sentence(errors, changes, path.name))
    return spec


def _locate(name: str) -> Path:
    path = Path(name)
    if path.suffix == ".toml" or len(path.parts) > 1:
        return path
    if name not in preset_names():
        raise McvrpError(
            f"there is no preset {shown(name)}; {nearest(name, preset_names(), 'there are')}: "
            "name one of these, or the path of a .toml file of your own"
        )
    return FOLDER / f"{name}.toml"


def _read(path: Path) -> dict[str, Any]:
    name = brief(path.name, 100)
    try:
        require_file(path, _MOST_BYTES)
        return parse_toml(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
        raise McvrpError(f"there is no preset file {brief(str(path), 200)}: check its path") from None
    except (OSError, UnicodeDecodeError) as error:
        raise McvrpError(f"{name} cannot be read: {reason(error)}; give one that can") from None
    except ValueError as error:
        raise McvrpError(f"{name} is not valid TOML: {error}; correct it") from None


def _toml_value(text: str) -> Any:
    try:
        parsed = parse_toml(f"value = {text}")
    except tomllib.TOMLDecodeError:
        return text
    return parsed["value"] if len(parsed) == 1 else text


def _apply(data: dict[str, Any], change: Override, file: str) -> None:
    here: Any = data
    *folders, last = change.path
    for depth, part in enumerate(folders):
        if isinstance(here, dict):
            here = here.setdefault(str(part), {})  # a section that the file leaves to its defaults
        else:
            here = here[_index(here, part, change, depth, file)]
    if isinstance(here, dict) and change.remove:
        here.pop(str(last), None)
    elif isinstance(here, dict):
        here[str(last)] = change.value
    else:
        here[_index(here, last, change, len(folders), file)] = change.value


def _index(here: Any, part: str | int, change: Override, depth: int, file: str) -> int:
    key = dotted(change.path)
    above = dotted(change.path[:depth])
    if not isinstance(here, list):
        raise McvrpError(
            f"--set {key}: {above} of {file} is a single value, it has no field {part}: leave that out"
        )
    if not isinstance(part, int) or part >= len(here):
        raise McvrpError(
            f"--set {key}: {above} of {file} is a list, its entries are 0 to {len(here) - 1}: name one"
        )
    return part


def _one_sentence(errors: Sequence[FieldError], changes: Sequence[Override], file: str) -> str:
    first = errors[0]
    given = any(first.path[: len(change.path)] == change.path for change in changes if first.path)
    return f"{'--set' if given else file}: {first_of(errors)}"
