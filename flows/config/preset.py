"""Presets: a validated `PipelineSpec` from a preset's name or a TOML file, and the overrides of `--set`."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mcvrp.flows.config.spec import PipelineSpec
from mcvrp.flows.config.validation import checked
from mcvrp.model.errors import InvalidFields, McvrpError, alternatives, brief, reason, shown
from mcvrp.storage.parsing import parse_toml
from mcvrp.tasks.files.file_bytes import require_file
from mcvrp.tasks.label.spec import taken_by

DEFAULT = "laptop"
FOLDER = Path(__file__).parents[1] / "presets"
_EXAMPLE = "write key=value, such as label.count=500"
_MAX_BYTES = 2**20  # of a preset; ours have a few thousand


@dataclass(frozen=True)
class Preset:
    """A preset: its name, "laptop" or "lyon.toml", and its text, which is valid TOML."""

    name: str
    toml: str

    def __post_init__(self) -> None:
        parse_toml(self.toml)  # ValueError if it is not TOML

    @classmethod
    def read(cls, name: str) -> Preset:
        """Return an included preset, or that of a path that ends in ".toml"; McvrpError if it is neither."""
        path, file = _locate(name), brief(Path(name).name, 100)
        try:
            require_file(path, _MAX_BYTES)
            return cls(file, path.read_text(encoding="utf-8-sig"))
        except UnicodeDecodeError:
            raise McvrpError(f"{file} is not UTF-8: save it in this encoding") from None
        except OSError as error:
            raise McvrpError(f"the preset {brief(str(path), 200)} cannot be read: {reason(error)}") from None
        except ValueError as error:
            raise McvrpError(f"{file} is not valid TOML: {error}; correct it") from None

    def document(self, overrides: Sequence[str] = ()) -> dict[str, Any]:
        """Return the sections of the file, with ``overrides`` of single fields: "train.phases.0.lr=1e-3".

        A value is TOML, otherwise text; an empty one ("label.budget=") unsets the field. With another solver
        of the labels, what the file sets for its own does not apply. InvalidFields names overrides that
        cannot be applied.
        """
        data, sentences = parse_toml(self.toml), list[str]()
        for key, _, value in (text.partition("=") for text in overrides):
            if key.strip() == "label.solver" and isinstance(data.get("label"), dict):
                data["label"] = taken_by(str(_toml_value(value.strip())), data["label"])
        for text in overrides:
            try:
                _apply(data, text)
            except ValueError as error:
                sentences.append(f"--set {shown(text)}: {error}")
            except (LookupError, TypeError, AttributeError):
                sentences.append(f"--set {shown(text)}: there is no such field in {self.name}")
        if sentences:
            raise InvalidFields(sentences)
        return data

    def spec(self, overrides: Sequence[str] = ()) -> PipelineSpec:
        """Return the spec with ``overrides`` of `document`; InvalidFields names each invalid field."""
        changed = [text.partition("=")[0].strip() for text in overrides]

        def where(field: str) -> str:
            if any(f"{key}.".startswith(f"{field}.") or f"{field}.".startswith(f"{key}.") for key in changed):
                return "--set "
            return f"{self.name}: "

        return checked(PipelineSpec, self.document(overrides), where)


def preset_names() -> list[str]:
    """Return the names of the included presets."""
    return sorted(path.stem for path in FOLDER.glob("*.toml"))


def described_presets() -> dict[str, str]:
    """Return the included presets by name, with the first line of each, a comment."""
    return {name: Preset.read(name).toml.partition("\n")[0].removeprefix("# ") for name in preset_names()}


def load_preset(name: str, overrides: Sequence[str] = ()) -> PipelineSpec:
    """Return the whole spec of a preset or a TOML file; see `Preset`."""
    return Preset.read(name).spec(overrides)


def _locate(name: str) -> Path:
    path = Path(name)
    if path.suffix == ".toml" or len(path.parts) > 1:
        return path
    if name not in preset_names():
        others = alternatives(name, preset_names())
        raise McvrpError(f"there is no preset {shown(name)}{others}, nor is it the path of a .toml file")
    return FOLDER / f"{name}.toml"


def _apply(data: dict[str, Any], text: str) -> None:
    key, equals, value = (part.strip() for part in text.partition("="))
    if not all(key.split(".")):
        raise ValueError(_EXAMPLE)
    *above, field = [int(part) if part.isascii() and part.isdecimal() else part for part in key.split(".")]
    parent: Any = data
    for part in above:  # a section may be omitted
        parent = parent.setdefault(part, {}) if isinstance(parent, dict) else parent[part]
    if value:
        parent[field] = _toml_value(value)
    elif equals:
        parent.pop(field, None)
    else:
        raise ValueError(_EXAMPLE)


def _toml_value(text: str) -> Any:
    try:
        parsed = parse_toml(f"value = {text}")
    except tomllib.TOMLDecodeError:
        return text
    return parsed["value"] if len(parsed) == 1 else text
