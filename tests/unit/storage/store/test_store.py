"""The store: bytes come back as they went in, appear whole or not at all, and bad places are named."""

from __future__ import annotations

import errno
import os
import pickle
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from mcvrp.model.errors import McvrpError
from mcvrp.model.problem import City
from mcvrp.storage import layout
from mcvrp.storage.cities import Addresses, find_city, load_city, save_city, stored_city
from mcvrp.storage.store.local import LocalFiles
from mcvrp.storage.store.store import Store, StoreError, StoreUnavailable

NAMES = st.text("abc", min_size=1, max_size=3)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=20)
@given(
    st.dictionaries(st.lists(NAMES, min_size=1, max_size=3).map("/".join), st.binary(max_size=50), max_size=5)
)
def test_what_is_put_is_what_is_there(
    tmp_path_factory: pytest.TempPathFactory, files: dict[str, bytes]
) -> None:
    """Files of any name come back, and a list names each file below a folder and nothing else."""
    store = Store.open(tmp_path_factory.mktemp("store"))
    files = {f"{path}.bin": data for path, data in files.items()}
    for path, data in files.items():
        store.put(path, b"before")
        store.put(path, data)
    assert store.list("") == sorted(files)
    for path, data in files.items():
        assert store.get(path) == data
        assert store.exists(path)
        assert store.size(path) == len(data)
    assert store.list("a") == sorted(path for path in files if path.startswith("a/"))


def test_a_failed_put_leaves_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A write that fails half-way leaves the old bytes and no scrap."""
    store = Store.open(tmp_path)
    store.put("a/b", b"old")

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StoreError, match=r"cannot write .*a/b \(No space left on device\): free space"):
        store.put("a/b", b"new and longer")
    assert store.get("a/b") == b"old"
    assert os.listdir(tmp_path / "a") == ["b"]


def test_a_reader_never_meets_half_a_file(tmp_path: Path) -> None:
    """A reader with the old file open reads the old bytes to their end: a put replaces the file."""
    store = Store.open(tmp_path)
    store.put("a", b"old bytes")
    with store.open_input("a") as stream:
        assert stream.read(3) == b"old"
        store.put("a", b"NEW BYTES")
        assert stream.read() == b" bytes"
    assert store.get("a") == b"NEW BYTES"


def test_a_file_being_written_is_not_listed(tmp_path: Path) -> None:
    """A writer killed before the last rename leaves nothing that a reader sees."""
    store = Store.open(tmp_path)
    store.put("a/b", b"1")
    (tmp_path / "a" / ".c.1234.tmp").write_bytes(b"half")
    assert store.list("") == ["a/b"]


def test_what_killed_writers_have_left_is_swept(tmp_path: Path) -> None:
    """Scraps older than an hour go at a process's first write beside them; a younger one may be in use."""
    store = Store.open(tmp_path)
    folder = tmp_path / "a"
    folder.mkdir()
    for name, age in ((".old.12ab.tmp", 4000), (".young.12ab.tmp", 60), (".old", 4000)):
        (folder / name).write_bytes(b"half")
        os.utime(folder / name, (time.time() - age,) * 2)
    store.put("a/b", b"1")
    assert sorted(os.listdir(folder)) == [".old", ".young.12ab.tmp", "b"]


def test_nothing_is_left_of_a_write_that_was_not_wanted(tmp_path: Path) -> None:
    """A writer that comes too late leaves no scrap."""
    store = Store.open(tmp_path)
    assert store.put_new("a/b", b"1")
    assert not store.put_new("a/b", b"2")
    assert not store.swap("a/b", b"3", "no tag")
    assert os.listdir(tmp_path / "a") == ["b"]
    assert store.get("a/b") == b"1"


@pytest.mark.parametrize(
    ("number", "kind", "said"),
    [
        (errno.ENOSPC, StoreError, "free space"),
        (errno.EROFS, StoreError, "give a writable folder"),
        (errno.EACCES, StoreError, "request permission"),
        (errno.EIO, StoreUnavailable, "check the disk or the mount"),
        (errno.ESTALE, StoreUnavailable, "check the disk or the mount"),
    ],
)
def test_what_the_disk_says_is_final_or_passes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, kind: type, said: str
) -> None:
    """One sentence with the place and the hint, which crosses to another process as it is."""
    store = Store.open(tmp_path)

    def fails(source: object, target: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "replace", fails)
    with pytest.raises(StoreError, match=rf"cannot write {tmp_path}/a/b \(.*\): .*{said}") as caught:
        store.put("a/b", b"1")
    assert type(caught.value) is kind
    copy = pickle.loads(pickle.dumps(caught.value))
    assert (type(copy), copy.args) == (kind, caught.value.args)
    assert os.listdir(tmp_path / "a") == []


def test_who_only_reads_makes_nothing(tmp_path: Path) -> None:
    """A store that is not there is named, not made; one that is there stays as it is."""
    with pytest.raises(StoreError, match=r"there is no store .*absent"):
        Store.open(tmp_path / "absent", writable=False)
    assert Store.open(tmp_path, writable=False).list("") == []
    assert os.listdir(tmp_path) == []


def test_json_comes_back(tmp_path: Path) -> None:
    """A JSON document survives; something else in its place is named."""
    store = Store.open(tmp_path)
    store.put_json("x.json", {"b": [1, 2.5, None], "a": "é"})
    assert store.get_json("x.json") == {"b": [1, 2.5, None], "a": "é"}
    store.put("x.json", b"{")
    with pytest.raises(McvrpError, match=r"x\.json is not JSON"):
        store.get_json("x.json")


def test_a_store_travels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process with another working folder finds the same store."""
    monkeypatch.chdir(tmp_path)
    store = Store.open("here")
    store.put("a", b"1")
    copy = pickle.loads(pickle.dumps(store))
    monkeypatch.chdir("/")
    assert copy.get("a") == b"1"
    assert Store.open(f"file://{tmp_path}/here").get("a") == b"1"


def test_a_file_is_no_store(tmp_path: Path) -> None:
    """A store path that is a file is refused before any work, and the file stays."""
    (tmp_path / "f").write_text("mine")
    with pytest.raises(McvrpError, match="f is a file"):
        Store.open(tmp_path / "f")
    with pytest.raises(McvrpError, match="cannot write"):
        Store.open(tmp_path / "f" / "below")
    assert (tmp_path / "f").read_text() == "mine"


def test_a_place_that_cannot_be_written_is_refused() -> None:
    """Even the superuser cannot write there; nobody else can either."""
    with pytest.raises(McvrpError, match="cannot write to the store /proc/mcvrp"):
        Store.open("/proc/mcvrp")


@pytest.mark.parametrize("name", ["", "../up", "a/b", ".hidden", "a b", "-x"])
def test_names_that_could_leave_their_folder_are_refused(name: str) -> None:
    """Names become folders of any store: no separators, no dots in front."""
    with pytest.raises(McvrpError, match="is not a valid name for a"):
        layout.checked_name("dataset", name)


def test_layout_is_what_readers_of_the_store_expect() -> None:
    """Paths that other programs may rely on."""
    assert layout.label_shard("laptop", 20, 0) == "labels/laptop/data/n=020/part-00000.parquet"
    assert layout.label_shard("paper", 1000, 12) == "labels/paper/data/n=1000/part-00012.parquet"
    assert layout.checkpoint_dir("r", "II-A", 500) == "training/r/II-A/step-00000500"
    assert layout.model_dir("m", 1) == "models/m/0001"
    assert layout.shard_number("labels/d/data/n=020/part-00012.parquet") == 12
    assert layout.shard_number("labels/d/data/n=020/other.parquet") is None
    assert layout.staged_rows(layout.staged_chunk("d", 20, 5, 17)) == (5, 17)


XY = City.uniform(6, 1)


@pytest.mark.parametrize(
    "city",
    [
        XY,
        City(7 * XY.xy + 3, None, (3.0, 3.0), 7.0, "m"),
        City(XY.xy, XY.costs(np.arange(7))),
        City(XY.xy, XY.costs(np.arange(7)) + np.tri(7, k=-1)),
        City(XY.xy, extends=(2, 4), spare=3, demand=(2, 5), capacity=(7, 70)),
    ],
    ids=["uniform", "framed", "symmetric matrix", "matrix", "extending"],
)
def test_a_city_comes_back(tmp_path: Path, city: City) -> None:
    """Coordinates, frame, unit and costs survive to the last bit: the id is the same."""
    store = Store.open(tmp_path)
    save_city(store, "c", city)
    back = load_city(store, "c")
    assert back.city_id == city.city_id
    for field in ("origin", "scale", "unit", "extends", "classes", "demand", "capacity"):
        assert getattr(back, field) == getattr(city, field)
    assert stored_city(store, "c").addresses.ids == tuple("0123456")
    assert store.get_json(layout.city_card("c"))["source"] == "synthetic"


def test_addresses_come_back(tmp_path: Path) -> None:
    """Ids of any script, places and the projection that they came through."""
    store = Store.open(tmp_path)
    addresses = Addresses(("депо", "a;b", *"cdefg"), np.arange(14.0).reshape(7, 2), "+proj=tmerc")
    save_city(store, "c", XY, addresses)
    back = stored_city(store, "c").addresses
    assert (back.ids, back.projection) == (addresses.ids, addresses.projection)
    assert back.lonlat is not None
    np.testing.assert_array_equal(back.lonlat, np.arange(14.0).reshape(7, 2))
    assert back.nodes(["a;b", "zz", "депо"]).tolist() == [1, -1, 0]
    with pytest.raises(McvrpError, match="same id"):
        Addresses(("a", "a"))


def test_cities_of_older_versions_are_read_and_of_newer_ones_refused(tmp_path: Path) -> None:
    """A card without the fields of today is a synthetic city's; a version to come gets a sentence."""
    store = Store.open(tmp_path)
    save_city(store, "c", XY)
    card = store.get_json(layout.city_card("c"))
    today = {"source", "classes", "demand", "capacity", "projection", "parent", "extends"}
    old = {key: value for key, value in card.items() if key not in today}
    store.put_json(layout.city_card("c"), {**old, "schema_version": 1})
    assert load_city(store, "c").city_id == XY.city_id
    assert load_city(store, "c").classes == 7
    store.put_json(layout.city_card("c"), {**card, "schema_version": 9})
    with pytest.raises(McvrpError, match="schema version 9, written by a newer version"):
        load_city(store, "c")


def test_a_city_is_found_by_its_own_id_and_by_whoever_extends_it(tmp_path: Path) -> None:
    """The card of a child names its parent; the parent is still found, from the child where it is gone."""
    store = Store.open(tmp_path)
    child = City(XY.xy, extends=(4,))
    save_city(store, "a-child", child)
    save_city(store, "parent", City(XY.xy[:5]))
    for _ in range(2):
        found = find_city(store, child.ancestors[0])
        assert (found.customers, found.city_id) == (4, child.ancestors[0])
        store.delete("cities/parent")
    assert find_city(store, child.city_id).customers == 6


def test_a_city_that_is_not_there_or_not_itself_is_named(tmp_path: Path) -> None:
    """Absent, corrupt and swapped cities each get a sentence."""
    store = Store.open(tmp_path)
    with pytest.raises(McvrpError, match=r"no city 'c' in .*: run mcvrp city create"):
        load_city(store, "c")
    save_city(store, "c", City.uniform(5, 1))
    save_city(store, "other", City.uniform(5, 2))
    store.put(layout.city_path("c"), store.get(layout.city_path("other")))
    with pytest.raises(McvrpError, match="its card names"):
        load_city(store, "c")
    store.put(layout.city_path("c"), b"PAR1 no more")
    with pytest.raises(McvrpError, match="is not a readable city"):
        load_city(store, "c")


@pytest.mark.parametrize(
    "address",
    [
        *("file://host/x", "file://host", "file://", "file://user:secret@host/x", "file://~/x", "file:x"),
        *("file:/x", "file:///a%20b", "file:///a?b", "file:///a#b", "FILE:///x", "s3:/bucket/x", "s3:bucket"),
        *("s3://bucket/x?y", "s3://bucket/x?", "s3://bucket/x#", "s3://bucket:80/x", "s3://", "s3:///x"),
    ],
)
def test_an_address_is_not_read_as_another_one(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A host, a query or a lost slash is a sentence with the remedy; no folder of that name appears."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(StoreError, match=r"is not (the|a)|contains an @") as told:
        Store.open(address)
    assert "secret" not in str(told.value)
    assert os.listdir(tmp_path) == []


def test_a_folder_has_three_addresses(tmp_path: Path) -> None:
    """Its path, file:///PATH and file://localhost/PATH."""
    places = [str(tmp_path / "a b"), f"file://{tmp_path}/a b", f"file://localhost{tmp_path}/a b"]
    assert {Store.open(place).uri for place in places} == {str(tmp_path / "a b")}


def test_what_cannot_be_read_is_not_to_be_made_writable(tmp_path: Path) -> None:
    """The remedy is about what stands in the way of reading: a link in a circle, a file for a folder."""
    store = Store.open(tmp_path)
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    with pytest.raises(StoreError, match=r"remove the link, which leads to itself$"):
        store.get("loop")
    store.put("a", b"1")
    with pytest.raises(StoreError, match=r"move the file away, a folder is expected there$"):
        store.put("a/b", b"1")
    assert str(LocalFiles("x").refusal("cannot read x", OSError(errno.EFBIG, "large"))).endswith(": split it")


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        ("a" * 1025, "has 1,025 bytes, use at most 1,024"),
        ("a\\b", "contains a control character or a backslash, remove it"),
        ("../a", "leads out of the store, give a path below it"),
        ("a//b", "leads out of the store"),
    ],
)
def test_what_is_wrong_with_a_name_is_said(tmp_path: Path, name: str, fault: str) -> None:
    """Only a name that climbs leads elsewhere; one that is too long is told how long it may be."""
    with pytest.raises(McvrpError, match=rf"is not a valid name in a store: it {fault}"):
        Store.open(tmp_path).get(name)
