"""The store of the stack on a volume that is full: it reads and deletes only, until there is room again."""

from __future__ import annotations

import contextlib
import functools
import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.exceptions import BotoCoreError, ClientError

from mcvrp.tasks.support.processes import free_port, start_group, stop_group
from tests.support.s3_server import missing_programs
from tests.support.shared import unavailable, until

STORE = Path(__file__).parents[3] / "docker" / "store"
KEYS = {"S3_ACCESS_KEY": "key", "S3_SECRET_KEY": "secret", "RESERVE_MB": "200"}
_SECONDS = 600.0

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]


@pytest.fixture
def volume() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="mcvrp-volume-"))
    yield folder
    shutil.rmtree(folder)


@contextlib.contextmanager
def served(volume: Path, changes: Mapping[str, str]) -> Iterator[Callable[[Callable[[], Any]], Any]]:
    """Run the store in ``volume``; yield a function that repeats a request until it is answered."""
    for file in ("serve", "ceph.conf"):
        text = (STORE / file).read_text()
        text = re.sub("|".join(map(re.escape, changes)), lambda match: changes[match[0]], text)
        (volume / file).write_text(text)
        (volume / file).chmod(0o755)
    with (volume / "log").open("w") as log:
        process = start_group([str(volume / "serve")], env=os.environ | KEYS, cwd="/", stdout=log, stderr=log)

    def answered(ask: Callable[[], Any]) -> Any:
        deadline = time.monotonic() + _SECONDS
        while True:
            with contextlib.suppress(BotoCoreError, OSError):
                return ask()
            assert process.poll() is None, (volume / "log").read_text()[-2000:]
            assert time.monotonic() < deadline
            time.sleep(0.5)

    try:
        yield answered
    finally:
        stop_group(process)


def test_a_full_volume_is_read_only(volume: Path) -> None:
    if reason := missing_programs():
        unavailable(reason)
    if os.geteuid() != 0:
        pytest.skip("only root can create a volume of limited size")
    data, port = volume / "data", free_port()
    changes = {"/data": str(data), "/opt/store": str(volume), "/tmp": str(volume)}  # noqa: S108  # of the container
    changes |= {"8333": str(port), "6789": str(free_port())}
    s3 = boto3.client(
        "s3",
        endpoint_url=f"http://127.0.0.1:{port}",
        aws_access_key_id=KEYS["S3_ACCESS_KEY"],
        aws_secret_access_key=KEYS["S3_SECRET_KEY"],
        region_name="us-east-1",
    )
    put = functools.partial(s3.put_object, Bucket="bucket", Body=b"0" * 2**20)

    def kept(key: str) -> int:
        return len(s3.get_object(Bucket="bucket", Key=key)["Body"].read())

    mount_disk(data, 2)
    try:
        with served(volume, changes) as answered:
            answered(lambda: s3.create_bucket(Bucket="bucket"))
            for key in ("kept", "deleted"):
                put(Key=key)
            with (data / "ballast").open("wb") as ballast:
                free = shutil.disk_usage(data).free
                os.posix_fallocate(ballast.fileno(), 0, free - 50 * 2**20)
            until("a full store", _SECONDS, lambda: not is_written(put, "late"))
            assert kept("kept") == 2**20
            s3.delete_object(Bucket="bucket", Key="deleted")
            (data / "ballast").unlink()
            until("space", _SECONDS, lambda: is_written(put, "again"))
        with served(volume, changes) as answered:
            assert answered(lambda: kept("again")) == 2**20
    finally:
        # a daemon that was stopped may hold the volume a little longer
        until("its end", _SECONDS, lambda: subprocess.run(["umount", str(data)]).returncode == 0)


def mount_disk(folder: Path, gigabytes: int) -> None:
    """Mount a new disk at ``folder``, which only root can."""
    image = folder.with_suffix(".ext4")
    with image.open("wb") as file:
        file.truncate(gigabytes * 2**30)  # sparse
    folder.mkdir()
    for command in (f"mkfs.ext4 -q -m 0 {image}", f"mount -o loop {image} {folder}"):
        subprocess.run(command.split(), check=True)


def is_written(put: Callable[..., Any], key: str) -> bool:
    try:
        put(Key=key)
    except ClientError as error:
        if error.response["Error"]["Code"] != "QuotaExceeded":
            raise
        return False
    return True
