"""Settings of object stores, and one sentence for each that is wrong."""

from __future__ import annotations

import contextlib
import os
import pickle
import re
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from email.message import Message
from http.client import HTTPResponse
from pathlib import Path
from typing import Any

import obstore
import pytest

from mcvrp.storage.store import store as stores
from mcvrp.storage.store.store import Store, StoreError, StoreUnavailable
from tests.support.s3_proxy import Proxy
from tests.support.s3_server import DOMAIN, S3Server


def test_a_profile_is_read(s3: S3Server, s3_uri: str, tmp_path: Path) -> None:
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
        "import sys; from mcvrp import Store; store = Store.open(sys.argv[1]); store.put('a', b'1')\n"
        "sys.stdout.write(repr([store.list(''), store.get('a')]))"
    )
    command = [sys.executable, "-c", code, s3_uri]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    assert done.stdout == "[['a'], b'1']", done.stderr


def refused(uri: str, *, writable: bool = True) -> str:
    with pytest.raises(StoreError) as caught:
        Store.open(uri, writable=writable)
    sentence = str(caught.value)
    assert "\n" not in sentence
    assert uri in sentence or "AWS_ENDPOINT_URL=" in sentence
    assert pickle.loads(pickle.dumps(caught.value)).args == caught.value.args
    return sentence


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"AWS_SECRET_ACCESS_KEY": "WRONGSECRET"},
            "SignatureDoesNotMatch.*check the credentials",
        ),
        (
            {"AWS_ACCESS_KEY_ID": "NOSUCHKEY"},
            "InvalidAccessKeyId.*check the credentials",
        ),
        ({"AWS_ACCESS_KEY_ID": None, "AWS_SECRET_ACCESS_KEY": None}, "credentials.*: set AWS_ACCESS_KEY_ID"),
        ({"AWS_SECRET_ACCESS_KEY": None}, "AWS_SECRET_ACCESS_KEY"),
        ({"AWS_PROFILE": "absent"}, "absent.*AWS_PROFILE"),
        (
            {"AWS_ENDPOINT_URL": "http://127.0.0.1:9"},
            ".no connection at http://127.0.0.1:9.: check that it is running",
        ),
        (
            {"AWS_ENDPOINT_URL": "http://no.such.host.invalid"},
            ".no connection at http://no.such.*.: check that it is running",
        ),
        ({"AWS_ENDPOINT_URL": "no address"}, "AWS_ENDPOINT_URL='no address' is no address"),
        ({"AWS_CA_BUNDLE": "/absent"}, "/absent.*: check .*AWS_CA_BUNDLE"),
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
        assert "NoSuchBucket" in sentence
        assert "create the bucket" in sentence


def test_a_writer_needs_a_bucket_that_it_may_write(
    s3: S3Server, s3_uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    bucket = s3.readable_bucket()
    s3.client().put_object(Bucket=bucket, Key="a", Body=b"1")
    for name, value in s3.environment(s3.guest).items():
        monkeypatch.setenv(name, value)
    assert "request permission" in refused(f"s3://{bucket}")
    store = Store.open(f"s3://{bucket}", writable=False)
    assert store.get("a") == b"1"
    assert store.list("") == ["a"]
    writes: list[Callable[[], object]] = [
        lambda: store.put("b", b"2"),
        lambda: store.put_new("b", b"2"),
        lambda: store.delete("a"),
    ]
    for write in writes:
        with pytest.raises(StoreError, match=rf"{bucket}.*AccessDenied.*: request permission") as caught:
            write()
        assert not isinstance(caught.value, StoreUnavailable)
    assert store.list("") == ["a"]
    assert "request permission" in refused(s3_uri, writable=False)


@pytest.mark.slow
def test_a_server_that_never_answers_is_given_up(s3_uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as silent:
        silent.setblocking(False)
        silent.bind(("127.0.0.1", 0))
        silent.listen(64)
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{silent.getsockname()[1]}")
        assert "no answer in time" in refused(s3_uri)
        attempts = 0
        with contextlib.suppress(BlockingIOError):
            while silent.accept():
                attempts += 1
        assert 1 <= attempts <= 2


class Overwriting:
    """The library, if the server ignored If-None-Match."""

    def __getattr__(self, name: str) -> Any:
        return getattr(obstore, name)

    def put(self, client: Any, path: str, data: bytes, **options: Any) -> Any:
        return obstore.put(client, path, data, **{**options, "mode": "overwrite"})


def test_a_server_that_overwrites_on_a_create_is_refused(
    s3_uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is left there."""
    with monkeypatch.context() as patch:
        patch.setattr(stores, "obstore", Overwriting())
        with pytest.raises(StoreError, match=r"ignores If-None-Match.*use another server"):
            Store.open(s3_uri)
    assert Store.open(s3_uri).files("", hidden=True) == []


def test_a_server_that_refuses_unknown_checksums_has_all_verbs(s3_uri: str, headers: Headers) -> None:
    headers.refuse = {"x-amz-checksum-sha256", "x-amz-checksum-crc32", "x-amz-sdk-checksum-algorithm"}
    store = Store.open(s3_uri)
    store.put("a/b", b"1")
    assert store.put_new("a/c", b"2")
    store.put("a/large", b"0" * 20_000_000)
    store.delete_files(["a/b", "a/large"])
    store.delete("a")
    assert store.list("") == []
    assert headers.refusals == 0


@pytest.mark.parametrize("by", ["profile", "variable"])
def test_a_server_with_virtual_hosts_only_is_used(
    s3: S3Server, s3_uri: str, headers: Headers, by: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The bucket is in the name of the host, as `addressing_style` of a profile or a variable says."""
    headers.only_host = f"{s3_uri.removeprefix('s3://').partition('/')[0]}.{DOMAIN}"
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://{DOMAIN}")
    monkeypatch.setenv("http_proxy", headers.endpoint)
    with pytest.raises(StoreError, match="AccessDenied"):
        Store.open(s3_uri)
    if by == "variable":
        monkeypatch.setenv("AWS_VIRTUAL_HOSTED_STYLE_REQUEST", "true")
    else:
        (tmp_path / "config").write_text("[default]\ns3 =\n  addressing_style = virtual\n")
        monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    store = Store.open(s3_uri)
    store.put("a/b", b"1")
    assert (store.get("a/b"), store.list(""), store.put_new("a/b", b"2")) == (b"1", ["a/b"], False)


class Headers(Proxy):
    """Proxy that refuses some headers, or knows only one host."""

    def __init__(self, target: str) -> None:
        super().__init__(target)
        self.refuse, self.refusals, self.only_host = set[str](), 0, ""

    def fault_of(self, headers: Message) -> str:
        if self.refuse & {name.lower() for name in headers}:
            self.refusals += 1
            return "400 InvalidRequest"
        return "403 AccessDenied" if self.only_host and headers["Host"] != self.only_host else ""

    def forward(self, handler: Any, length: int) -> HTTPResponse:
        handler.path = handler.path.removeprefix(f"http://{self.only_host}")
        return super().forward(handler, length)


@pytest.fixture
def headers(s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[Headers]:
    proxy = Headers(s3.endpoint)
    monkeypatch.setenv("AWS_ENDPOINT_URL", proxy.endpoint)
    yield proxy
    proxy.close()
