"""Settings of object stores, and one sentence for each that is wrong."""

from __future__ import annotations

import contextlib
import os
import pickle
import re
import socket
import subprocess
import sys
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest

from mcvrp.storage.store import contract, s3 as s3_objects
from mcvrp.storage.store.store import Store, StoreError, StoreUnavailable
from tests.support.s3_server import S3Server


def test_both_clients_read_a_profile(s3: S3Server, s3_uri: str, tmp_path: Path) -> None:
    ours = s3.environment()
    (tmp_path / "config").write_text(
        f"[profile work]\nregion = {ours['AWS_REGION']}\nendpoint_url = {ours['AWS_ENDPOINT_URL']}\n"
    )
    (tmp_path / "credentials").write_text(
        f"[work]\naws_access_key_id = {ours['AWS_ACCESS_KEY_ID']}\n"
        f"aws_secret_access_key = {ours['AWS_SECRET_ACCESS_KEY']}\n"
    )
    environment = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")} | {
        "AWS_PROFILE": "work",
        "AWS_CONFIG_FILE": str(tmp_path / "config"),
        "AWS_SHARED_CREDENTIALS_FILE": str(tmp_path / "credentials"),
    }
    code = (
        "import sys; from mcvrp.storage import Store; store = Store.open(sys.argv[1]); store.put('a', b'1')\n"
        "sys.stdout.write(repr([store.list(''), store.open_input('a').read()]))"
    )
    command = [sys.executable, "-c", code, s3_uri]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    assert done.stdout == "[['a'], b'1']", done.stderr


def refused(uri: str, *, writable: bool = True) -> str:
    with pytest.raises(StoreError) as caught:
        Store.open(uri, writable=writable)
    sentence = str(caught.value)
    assert "\n" not in sentence
    assert uri in sentence
    assert pickle.loads(pickle.dumps(caught.value)).args == caught.value.args
    return sentence


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"AWS_SECRET_ACCESS_KEY": "WRONGSECRET"}, "wrong secret key.*: check AWS_ACCESS_KEY_ID"),
        ({"AWS_ACCESS_KEY_ID": "NOSUCHKEY"}, "unknown access key.*: check AWS_ACCESS_KEY_ID"),
        ({"AWS_ACCESS_KEY_ID": None, "AWS_SECRET_ACCESS_KEY": None}, "credentials.*: set AWS_ACCESS_KEY_ID"),
        ({"AWS_SECRET_ACCESS_KEY": None}, "AWS_SECRET_ACCESS_KEY"),
        ({"AWS_PROFILE": "absent"}, "absent.*AWS_PROFILE"),
        (
            {"AWS_ENDPOINT_URL": "http://127.0.0.1:9"},
            "at http://127.0.0.1:9 .no connection.: check that it is running",
        ),
        (
            {"AWS_ENDPOINT_URL": "http://no.such.host.invalid"},
            "at http://no.such.* .no connection.: check that it is running",
        ),
        ({"AWS_ENDPOINT_URL": "no address"}, "Invalid endpoint: no address.: check"),
        ({"AWS_ENDPOINT_URL": None, "AWS_REGION": None}, "no region.*: set AWS_REGION"),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else "",
)
def test_wrong_settings_are_named(
    s3_uri: str, monkeypatch: pytest.MonkeyPatch, changes: dict[str, str | None], message: str
) -> None:
    for name, value in changes.items():
        if value is None:
            monkeypatch.delenv(name)
        else:
            monkeypatch.setenv(name, value)
    for writable in (True, False):
        assert re.search(message, refused(s3_uri, writable=writable))


@pytest.mark.usefixtures("s3_uri")
def test_a_missing_bucket_is_named_and_not_created() -> None:
    for writable in (True, False):
        sentence = refused("s3://no-such-bucket/a", writable=writable)
        assert "there is no bucket no-such-bucket): create it" in sentence


def test_a_writer_needs_a_bucket_that_it_may_write(
    s3: S3Server, s3_uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    bucket = s3.readable_bucket()
    s3.client().put_object(Bucket=bucket, Key="a", Body=b"1")
    for name, value in s3.environment(s3.guest).items():
        monkeypatch.setenv(name, value)
    assert "permission denied" in refused(f"s3://{bucket}")
    store = Store.open(f"s3://{bucket}", writable=False)
    assert store.get("a") == b"1"
    assert store.list("") == ["a"]
    writes: list[Callable[[], object]] = [
        lambda: store.put("b", b"2"),
        lambda: store.put_new("b", b"2"),
        lambda: store.swap("a", b"2", store.get_tagged("a")[1]),
        lambda: store.delete("a"),
        lambda: store.move("a", "b"),
    ]
    for write in writes:
        with pytest.raises(StoreError, match=rf"{bucket}.*permission denied.*: request permission") as caught:
            write()
        assert not isinstance(caught.value, StoreUnavailable)
    assert store.list("") == ["a"]
    assert "permission denied" in refused(s3_uri, writable=False)


@pytest.mark.slow
def test_a_server_that_never_answers_is_given_up(s3_uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as silent:
        silent.setblocking(False)
        silent.bind(("127.0.0.1", 0))
        silent.listen(64)
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{silent.getsockname()[1]}")
        assert "check that it is running" in refused(s3_uri)
        attempts = 0
        with contextlib.suppress(BlockingIOError):
            while silent.accept():
                attempts += 1
        assert 1 <= attempts <= s3_objects.PROBING.attempts


@pytest.mark.parametrize("uri", ["s3://", "s3:///a", "s3://key:secret@b/a", "s3://b/a?region=x", "gs://b/a"])
def test_invalid_addresses_are_refused(uri: str) -> None:
    with pytest.raises(StoreError, match=r"s3://"):
        Store.open(uri)


def test_a_server_without_conditional_writes_is_refused(s3_uri: str) -> None:
    objects = s3_objects.connect(s3_uri, s3_objects.PROBING)
    objects._client.meta.events.register(
        "before-sign.s3.PutObject", lambda request, **_: request.headers.__delitem__("If-None-Match")
    )
    with pytest.raises(StoreError, match="does not support atomic conditional writes"):
        objects.probe(writable=True)
    assert Store.open(s3_uri).list("") == []


def test_the_contract_creates_a_bucket_and_leaves_nothing_in_it(
    s3: S3Server, s3_uri: str, capsys: pytest.CaptureFixture[str]
) -> None:
    bucket = f"b-{uuid.uuid4().hex[:12]}"
    uri = f"s3://{bucket}/store"
    for _ in range(2):
        assert contract.main([uri]) == 0
        assert "supports atomic conditional writes" in capsys.readouterr().out
    assert s3.client().list_objects_v2(Bucket=bucket)["KeyCount"] == 0
