"""The tree in docs/store.md has every path of the layout."""

from __future__ import annotations

from collections.abc import Iterator

from mcvrp.storage import layout
from tests.support.store_page import lines, unknown

_VALUES = {"n": 20, "k": 3, "step": 5, "start": 0, "stop": 9, "version": 1, "alias": "champion"}
_TRIALS = (f"{layout.NIGHT}x", f"{layout.ROUND}x")


def paths() -> Iterator[tuple[str, str]]:
    for name, path in vars(layout).items():
        if isinstance(path, layout.Path):
            for trial in _TRIALS if "trial" in path.fields else ("x",):
                values = {"trial": trial, **_VALUES}
                yield name, path(*(values.get(place, "x") for place in path.fields))
    yield from (("trial_record", layout.trial_record("m", trial)) for trial in _TRIALS)
    yield "corrupt", layout.corrupt("d", layout.label_shard("d", 20, 0))


def test_every_path_of_the_layout_has_a_line() -> None:
    files = {path for name, path in paths() if not name.endswith("_dir")}
    folders = {name for name, _ in paths() if name.endswith("_dir")}
    assert unknown(files) == []
    assert len(folders) > 10
    for name, folder in paths():
        if name in folders:
            assert any(_below(line, folder) for line, _ in lines()), f"{name}: {folder} is empty"


def _below(line: str, folder: str) -> bool:
    parts, names = line.rstrip("/").split("/"), folder.split("/")
    return len(parts) >= len(names) and not unknown(
        ["/".join(names + [part.replace("*", "x") for part in parts[len(names) :]])]
    )


def test_files_of_other_names_are_unknown() -> None:
    strange = ["labels/d/other.json", "cities/c/map.svg", "labels/d/data/n=020/part.csv", "other/x.json"]
    assert unknown(strange) == strange


def test_no_path_has_two_lines() -> None:
    names = [path for path, _ in lines()]
    assert len(set(names)) == len(names)
    assert len(names) > 50
