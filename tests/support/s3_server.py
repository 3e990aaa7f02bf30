"""A real S3 server for tests: Ceph's gateway, in memory, on loopback."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import tempfile
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from mcvrp.tasks.support.processes import free_port, start_group, stop_group
from tests.support.shared import DIRECT, served_once, unavailable, until

DOMAIN = "store.test"  # in which buckets have hosts
PROGRAMS = ("ceph-mon", "ceph-osd", "radosgw", "radosgw-admin", "monmaptool", "ceph")
_START_SECONDS = 90.0
_CONFIGURATION = """
[global]
fsid = {fsid}
mon host = v1:127.0.0.1:{mon}
mon initial members = a
auth cluster required = none
auth service required = none
auth client required = none
ms bind ipv6 = false
public addr = 127.0.0.1
osd pool default size = 1
osd pool default min size = 1
osd pool default pg num = 1
osd pool default pgp num = 1
osd pool default pg autoscale mode = off
osd crush chooseleaf type = 0
osd class update on start = false
osd crush update on start = false
osd objectstore = memstore
memstore device bytes = 4294967296
mon allow pool size one = true
mon max pg per osd = 1000
mon data = {folder}/mon
osd data = {folder}/osd
rgw data = {folder}/rgw
run dir = {folder}/run
log file = {folder}/log/$name.log
admin socket = {folder}/run/$name.asok
pid file = {folder}/run/$name.pid
rgw frontends = beast endpoint=127.0.0.1:{port} tcp_nodelay=1
rgw thread pool size = 64
rgw dns name = {domain}
setuser match path =
[mon.a]
host = localhost
mon addr = v1:127.0.0.1:{mon}
"""


class User(NamedTuple):
    name: str
    key: str
    secret: str


OWNER, GUEST = User("owner", "ownerkey", "ownersecret"), User("guest", "guestkey", "guestsecret")


@dataclass(frozen=True)
class S3Server:
    """The server; ``owner`` makes the buckets, ``guest`` has none."""

    endpoint: str
    owner: User = OWNER
    guest: User = GUEST

    def environment(self, user: User | None = None, endpoint: str | None = None) -> dict[str, str]:
        user = user or self.owner
        return {
            "AWS_ENDPOINT_URL": endpoint or self.endpoint,
            "AWS_REGION": "us-east-1",
            "AWS_ACCESS_KEY_ID": user.key,
            "AWS_SECRET_ACCESS_KEY": user.secret,
            "AWS_EC2_METADATA_DISABLED": "true",
            "AWS_CONFIG_FILE": os.devnull,
            "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
        }

    def client(self, endpoint: str | None = None) -> Any:
        """Return a boto3 client as the owner, past what is being tested, or by a proxy at ``endpoint``."""
        import boto3

        return boto3.client(
            "s3",
            endpoint_url=endpoint or self.endpoint,
            aws_access_key_id=self.owner.key,
            aws_secret_access_key=self.owner.secret,
            region_name="us-east-1",
        )

    def upload(self, folder: Path, uri: str) -> None:
        """Copy the files of ``folder`` to ``uri``, as `aws s3 sync` does."""
        bucket, _, prefix = uri.removeprefix("s3://").partition("/")
        client = self.client()
        for path in sorted(path for path in folder.rglob("*") if path.is_file()):
            client.upload_file(str(path), bucket, f"{prefix}/{path.relative_to(folder).as_posix()}")

    def bucket(self) -> str:
        name = f"b-{uuid.uuid4().hex[:12]}"
        self.client().create_bucket(Bucket=name)
        return name

    def readable_bucket(self) -> str:
        """Make a bucket that the guest may list and read, not write."""
        name = self.bucket()
        statement = {
            "Effect": "Allow",
            "Principal": {"AWS": [f"arn:aws:iam:::user/{self.guest.name}"]},
            "Action": ["s3:ListBucket", "s3:GetObject"],
            "Resource": [f"arn:aws:s3:::{name}", f"arn:aws:s3:::{name}/*"],
        }
        policy = json.dumps({"Version": "2012-10-17", "Statement": [statement]})
        self.client().put_bucket_policy(Bucket=name, Policy=policy)
        return name


def missing_programs() -> str | None:
    absent = [name for name in PROGRAMS if shutil.which(name) is None]
    if not absent:
        return None
    return f"no {', '.join(absent)}: apt-get install radosgw ceph-mon ceph-osd ceph-common"


@pytest.fixture(scope="session")
def s3() -> Iterator[S3Server]:
    if reason := missing_programs():
        unavailable(reason)
    with served_once("s3", serving) as endpoint:
        yield S3Server(endpoint)


@contextlib.contextmanager
def serving() -> Iterator[str]:
    """Run the server and yield its address."""
    for tries_left in reversed(range(5)):  # another program may take a port before the server does
        folder, daemons = Path(tempfile.mkdtemp(prefix="mcvrp-s3-")), list[subprocess.Popen[str]]()
        try:
            yield _start(folder, daemons)
            return
        except _NotStarted:
            if not tries_left:
                raise
        finally:
            for daemon in reversed(daemons):
                stop_group(daemon)
            shutil.rmtree(folder, ignore_errors=True)


class _NotStarted(Exception):
    """A part of the server failed; with the ends of its logs."""


def _start(folder: Path, daemons: list[subprocess.Popen[str]]) -> str:
    """Start the server in ``folder`` and return its address; its processes go into ``daemons`` at once."""
    configuration, monmap = folder / "ceph.conf", str(folder / "monmap")
    mon, port, fsid = free_port(), free_port(), str(uuid.uuid4())
    endpoint = f"http://127.0.0.1:{port}"
    for name in ("mon", "osd", "rgw", "run", "log"):
        (folder / name).mkdir()

    def run(*command: str) -> str:
        done = subprocess.run(
            [*command, "-c", str(configuration)], capture_output=True, text=True, timeout=_START_SECONDS
        )
        if done.returncode:
            raise _NotStarted(f"{' '.join(command)}: {done.stderr[-500:]}\n{_logs(folder)}")
        return done.stdout

    def daemon(*command: str) -> None:
        with (folder / "log" / f"{command[0]}.out").open("w") as log:
            daemons.append(
                start_group([*command, "-f", "-c", str(configuration)], stdout=log, stderr=subprocess.STDOUT)
            )

    text = _CONFIGURATION.format(fsid=fsid, mon=mon, port=port, folder=folder, domain=DOMAIN)
    configuration.write_text(text)
    addresses = ("--fsid", fsid, "--addv", "a", f"[v1:127.0.0.1:{mon}]")
    create = ["monmaptool", "--create", "--clobber", *addresses, monmap]
    subprocess.run(create, capture_output=True, check=True)
    run("ceph-mon", "-i", "a", "--mkfs", "--monmap", monmap)
    daemon("ceph-mon", "-i", "a")
    run("ceph", "osd", "create")
    # The disk would register itself, at times too early ("wrong fsid"), and then never come up.
    run("ceph", "osd", "crush", "add", "osd.0", "1", "root=default", "host=localhost")
    run("ceph-osd", "-i", "0", "--mkfs")
    daemon("ceph-osd", "-i", "0")
    _await("its disk", lambda: "1 up" in run("ceph", "osd", "stat"), folder)
    for user in (OWNER, GUEST):
        named = ("--uid", user.name, "--display-name", user.name)
        run("radosgw-admin", "user", "create", *named, "--access-key", user.key, "--secret-key", user.secret)
    daemon("radosgw", "-n", "client.rgw")
    _await("its gateway", lambda: _responds(endpoint), folder)
    return endpoint


def _await(what: str, ready: Callable[[], bool], folder: Path) -> None:
    try:
        until(what, _START_SECONDS, ready)
    except AssertionError as error:
        raise _NotStarted(f"{error}\n{_logs(folder)}") from None


def _logs(folder: Path) -> str:
    return "\n".join(path.read_text()[-500:] for path in (folder / "log").glob("*.out"))


def _responds(endpoint: str) -> bool:
    with contextlib.suppress(OSError):
        return bool(DIRECT.open(endpoint, timeout=2).status == 200)
    return False


@pytest.fixture(scope="session")
def s3_bucket(s3: S3Server) -> str:
    return s3.bucket()


@pytest.fixture
def s3_uri(s3: S3Server, s3_bucket: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """An empty prefix of a bucket, with the server in the environment."""
    for name, value in s3.environment().items():
        monkeypatch.setenv(name, value)
    return f"s3://{s3_bucket}/some/{uuid.uuid4().hex}"
