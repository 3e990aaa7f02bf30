"""Presets: a validated `PipelineSpec` from a preset's name or a TOML file, and the overrides of `--set`."""

from __future__ import annotations

import logging
import re
import tomllib
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from os.path import isfile
from pathlib import Path
from typing import Any

from mcvrp.flows.config.parameters import can_be_unset, dotted
from mcvrp.flows.config.spec import SECTIONS, PipelineSpec, validated
from mcvrp.model.errors import InvalidFields, McvrpError, brief, nearest, reason, shown
from mcvrp.storage import layout
from mcvrp.storage.documents import as_document
from mcvrp.storage.store.local import require_file
from mcvrp.storage.store.parsing import parse_toml
from mcvrp.storage.store.store import Store

logger = logging.getLogger(__name__)

DEFAULT = "laptop"
FOLDER = Path(__file__).parents[1] / "presets"
_MAX_BYTES = 2**20  # of a preset; ours have a few thousand
_MAX_DEPTH = 20  # parts of a key of --set; fields of specs have half as many
_INDEX = re.compile("[0-9]{1,9}")  # in a list


@dataclass(frozen=True)
class Override:
    """Override of a field: ``--set key=value`` with a value in TOML.

    An empty value (``--set label.iterations=``) restores the default, and so does ``none`` for a field that
    is unset by default.
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
        value = value.strip()
        remove = not value or (value == "none" and can_be_unset(path, PipelineSpec))
        try:
            return cls(path, _toml_value(value), remove)
        except ValueError as error:
            raise McvrpError(
                f"--set {shown(key)}: {shown(value)} is invalid ({error}): give another value"
            ) from None


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
        except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
            raise McvrpError(f"there is no preset file {brief(str(path), 200)}: check its path") from None
        except (OSError, UnicodeDecodeError) as error:
            raise McvrpError(f"{file} cannot be read: {reason(error)}; check the file") from None
        except ValueError as error:
            raise McvrpError(f"{file} is not valid TOML: {error}; correct it") from None

    @classmethod
    def chosen(cls, name: str | None, store: Store | None, city: str | None = None) -> Preset:
        """Return the preset ``name``; None: the last one used on ``store``, otherwise the demo's.

        With ``city`` the last one counts only if it is of that city.
        """
        last = cls.last_used(store) if name is None and store else None
        if last is None or city not in (None, last.spec(sections=["city"]).city.name):
            return cls.read(name or DEFAULT)
        logger.info("preset: %s, the last one used on this store; --preset selects another", last.name)
        return last

    @classmethod
    def last_used(cls, store: Store) -> Preset | None:
        """Return the preset of `record`, None without one; McvrpError if the document is invalid."""
        path = layout.last_preset()
        if (document := store.find(path)) is None:
            return None
        hint = "remove it, or select a preset (--preset)"
        return as_document(document, cls, store.url(path), named="preset", hint=hint)

    def record(self, store: Store) -> None:
        """Make this preset the default of commands on ``store``; of several writers the last one decides."""
        with suppress(McvrpError):  # a corrupt document is replaced
            if self.last_used(store) == self:
                return
        store.put_json(layout.last_preset(), asdict(self))

    def spec(self, overrides: Sequence[str] = (), sections: Collection[str] = ()) -> PipelineSpec:
        """Return the spec with ``overrides`` of single fields, "label.count=500", "train.phases.0.lr=1e-3".

        Only ``sections`` and those of ``overrides`` are checked, and the spec lacks the others; (): all.
        InvalidFields with the origin, the value and the expected value of each invalid field.
        """
        data, sentences = parse_toml(self.toml), list[str]()
        named = {text.partition("=")[0].partition(".")[0].strip() for text in overrides}
        sections = [name for name in SECTIONS if not sections or name in {*sections, *named}]
        for text in overrides:
            try:
                _apply(data, Override.parse(text), self.name)
            except McvrpError as error:
                sentences.append(str(error))
        spec, errors = validated(data, sections)
        own = validated(parse_toml(self.toml), sections)[1] if errors and overrides else errors
        sentences += [f"{self.name if error in own else '--set'}: {error.text}" for error in errors]
        if sentences:
            raise InvalidFields(sentences)
        return spec


def preset_names() -> list[str]:
    """Return the names of the included presets."""
    return sorted(path.stem for path in FOLDER.glob("*.toml"))


def load_preset(name: str, overrides: Sequence[str] = ()) -> PipelineSpec:
    """Return the whole spec of a preset or a TOML file; see `Preset`."""
    return Preset.read(name).spec(overrides)


def _locate(name: str) -> Path:
    path = Path(name)
    if path.suffix == ".toml" or len(path.parts) > 1:
        return path
    if name not in preset_names():
        own = f"{name}.toml"
        near = f"did you mean {own}?" if isfile(own) else nearest(name, preset_names(), "there are")
        raise McvrpError(
            f"there is no preset {shown(name)}; {near}: give the name of a preset, or the path of a .toml "
            "file"
        )
    return FOLDER / f"{name}.toml"


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
