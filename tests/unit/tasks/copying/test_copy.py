"""Copies of a store: equal and in order, continued after a kill, refused where they would change anything."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mcvrp.flows.cli import main as cli
from mcvrp.flows.cli.inspect import inspect
from mcvrp.model.errors import McvrpError
from mcvrp.storage.store.local import LocalFiles
from mcvrp.storage.store.parallel import Parts
from mcvrp.storage.store.store import Store, StoreError
from mcvrp.tasks.copying.copy import MARK, contents, copy_store, rank, require_apart
from tests.support.killed import killed_at_each_write
from tests.support.store_page import lines

LATE = ("models/m/champion.json", "models/m/0001/model.json", "cities/lyon/city.json")


def filled(folder: Path) -> Store:
    """Files of all ranks, a lease, and a hidden file."""
    store = Store.open(folder)
    for number in range(3):
        store.put(f"labels/d/data/n=020/part-{number:05}.parquet", bytes([number]) * 5000)
    for path in ("labels/d/README.md", "labels/d/manifest.json", "labels/d/lease.json", ".lock", *LATE):
        store.put(path, f"content of {path}".encode())
    store.put("models/m/0001/model.safetensors", b"weights")
    return store


@pytest.fixture
def source(tmp_path: Path) -> Store:
    return filled(tmp_path / "source")


@pytest.fixture
def target(tmp_path: Path) -> Store:
    return Store.open(tmp_path / "target")


def bytes_of(store: Store) -> dict[str, bytes]:
    return {file.path: store.get(file.path) for file in store.files("", hidden=True)}


def copied(store: Store) -> dict[str, bytes]:
    return {
        path: data for path, data in bytes_of(store).items() if path not in ("labels/d/lease.json", ".lock")
    }


def test_all_but_leases_and_hidden_files_are_copied(source: Store, target: Store) -> None:
    summary = copy_store(source, target)
    assert bytes_of(target) == copied(source)
    assert (summary.files, summary.copied, summary.changed) == (9, 9, 0)
    assert summary.bytes == sum(map(len, copied(source).values()))


def test_what_makes_an_artifact_complete_is_copied_last() -> None:
    """Files that docs/store.md says are written last come after others, aliases after these."""
    last = {path for path, text in lines() if "written last" in text and path.endswith(".json")}
    assert len(last) >= 6
    assert {rank(path) for path in last} == {2}
    assert rank("driven/lyon/files/ab.json") == 2
    assert {rank(f"models/m/{alias}.json") for alias in ("champion", "challenger")} == {3}
    others = {rank(path) for path, _ in lines() if not path.startswith("driven") and path not in last}
    assert others == {0, 1, 3}
    assert rank("labels/d/manifest.json") == 1 > rank("labels/d/data/n=020/part-00000.parquet")


def test_a_copy_that_was_killed_never_looks_complete_and_is_continued(source: Store, tmp_path: Path) -> None:
    """Whichever write the process was killed in: marks come after data, and the same command completes it."""
    (tmp_path / "empty").mkdir()
    empty = Store.open(tmp_path / "empty")
    expected = copied(source)

    def left_over(store: Store) -> dict[str, bytes]:
        return {path: data for path, data in bytes_of(store).items() if not path.endswith(".killed.tmp")}

    work = lambda store: copy_store(source, store)  # noqa: E731
    for store, done in killed_at_each_write(empty, tmp_path / "killed", work, at_least=10):
        present = left_over(store)
        unmarked = present.keys() - {MARK}
        assert MARK in present or unmarked in (set(), set(expected))
        assert not done or MARK not in present
        highest = max(map(rank, unmarked), default=0)
        lower = {path for path in expected if rank(path) < highest}
        assert lower <= unmarked
        before = len(unmarked)
        summary = copy_store(source, store)
        assert left_over(store) == expected
        assert summary.copied == len(expected) - before


def test_changes_of_the_source_are_copied_into_an_unfinished_copy(
    source: Store, target: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An alias that moved, of the same size, a new file, one that is gone: counted, then copied."""
    put, champion = LocalFiles.write, "models/m/champion.json"

    def moving(files: LocalFiles, path: str, data: bytes, parts: Parts) -> None:
        put(files, path, data, parts)
        if files.root == target.uri and path == "labels/d/README.md":
            source.put(champion, b"C" * source.size(champion))
            source.put("labels/d/new.json", b"{}")
            source.delete("labels/d/data/n=020/part-00001.parquet")

    with monkeypatch.context() as patch:
        patch.setattr(LocalFiles, "write", moving)
        assert copy_store(source, target).changed == 3
    assert target.exists(MARK)
    assert f"unfinished copy of {source.uri}: run mcvrp store copy again" in inspect(target, "").text
    assert copy_store(source, target).changed == 0
    assert bytes_of(target) == copied(source)


def test_equal_files_are_kept(source: Store, target: Store) -> None:
    path = "labels/d/data/n=020/part-00002.parquet"
    target.put(path, source.get(path))
    before = target.stat(path)
    assert copy_store(source, target).copied == 8
    assert target.stat(path) == before
    assert copy_store(source, target).copied == 0
    assert bytes_of(target) == copied(source)


OF_EQUAL_SIZE = b"C" * len(f"content of {LATE[0]}")


@pytest.mark.parametrize(
    ("path", "data"), [("notes.txt", b"mine"), (LATE[0], b"other"), (LATE[0], OF_EQUAL_SIZE)]
)
def test_a_place_with_other_content_is_refused(source: Store, target: Store, path: str, data: bytes) -> None:
    """A file of the user, or another version of a file, of any size; nothing is written."""
    target.put(path, data)
    with pytest.raises(McvrpError, match=rf"in 1 of its 1 files, such as {path}: give an empty folder"):
        copy_store(source, target)
    assert bytes_of(target) == {path: data}


def test_an_unfinished_copy_of_another_store_is_refused(source: Store, target: Store) -> None:
    target.put_json(MARK, {"source": "s3://other/store"})
    with pytest.raises(McvrpError, match="is an unfinished copy of 's3://other/store', not of"):
        copy_store(source, target)
    assert contents(target) == []


def test_a_store_with_a_file_that_cannot_be_copied_is_refused(source: Store, target: Store) -> None:
    Path(source.uri, "a\nb.csv").write_bytes(b"1")
    with pytest.raises(
        McvrpError, match=r"has 1 files .* not valid in a store, such as 'a\\nb\.csv': rename"
    ):
        copy_store(source, target)
    assert bytes_of(target) == {}


def test_a_copy_of_an_unfinished_copy_is_refused(source: Store, target: Store) -> None:
    """It would look complete: the mark is not copied."""
    source.put_json(MARK, {"source": "/elsewhere"})
    with pytest.raises(
        McvrpError, match=r"source is an unfinished copy of '/elsewhere': run that copy again"
    ):
        copy_store(source, target)
    assert bytes_of(target) == {}


def test_an_empty_store_is_refused(tmp_path: Path, target: Store) -> None:
    with pytest.raises(McvrpError, match="is empty, there is nothing to copy"):
        copy_store(Store.open(tmp_path / "empty"), target)


@pytest.mark.parametrize(
    ("one", "other", "relation"),
    [
        ("store", "store", "the same store"),
        ("store", "link", "the same store"),
        ("store", "store/copy", "one inside the other"),
        ("store/source", "store", "one inside the other"),
        ("link/copy", "store", "one inside the other"),
        ("s3://b/store", "s3://b//store/", "the same store"),
        ("s3://b", "s3://b/store", "one inside the other"),
    ],
)
def test_stores_that_overlap_are_refused(
    one: str, other: str, relation: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "store").mkdir()
    (tmp_path / "link").symlink_to("store")
    with pytest.raises(McvrpError, match=f"are {relation}: give a folder or prefix elsewhere"):
        require_apart(Store.at(one), Store.at(other))


@pytest.mark.parametrize(
    ("one", "other"), [("store", "store-2"), ("s3://b/store", "s3://b/store2"), ("b", "s3://b")]
)
def test_stores_side_by_side_are_not(one: str, other: str) -> None:
    require_apart(Store.at(one), Store.at(other))


def test_a_file_that_does_not_read_back_is_an_error(
    source: Store, target: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    really = LocalFiles.write
    monkeypatch.setattr(
        LocalFiles, "write", lambda files, path, data, parts: really(files, path, data[:4000], parts)
    )
    with pytest.raises(StoreError, match=r"part-0000\d\.parquet does not read back as it was written"):
        copy_store(source, target)
    assert target.exists(MARK)


def test_the_command(source: Store, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its text and document; refusals are one line, and leave no empty folder behind."""
    target = tmp_path / "new" / "target"
    assert cli.run(["store", "copy", source.uri, source.uri]) == 2
    assert cli.run(["store", "copy", str(tmp_path / "absent"), str(target)]) == 2
    assert cli.run(["store", "copy", source.uri, str(target), "--store", "x"]) == 2
    assert not target.parent.exists()
    assert len(capsys.readouterr().err.strip().splitlines()) == 3
    assert cli.run(["store", "copy", source.uri, str(target)]) == 0
    assert (
        f"{target}: 9 files, 15.2 kB, equal to those of {source.uri}; 9 copied, in" in capsys.readouterr().out
    )
    assert cli.run(["store", "copy", source.uri, str(target), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["files"], document["copied"], document["changed"]) == (9, 0, 0)
    assert bytes_of(Store.open(target)) == copied(source)
