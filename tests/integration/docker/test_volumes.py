"""Volumes open with any secrets: the images' scripts set those of docker/.env at each start."""

from __future__ import annotations

import asyncio
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

import asyncpg
import boto3
import pytest
from botocore.exceptions import BotoCoreError, ClientError

from mcvrp.tasks.support.processes import free_port, start_group, stop_group
from tests.support.postgres_server import as_nobody_special, require_programs
from tests.support.s3_server import missing_programs

IMAGES = Path(__file__).parents[3] / "docker"
_SECONDS = 600.0

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]


@pytest.fixture
def volume() -> Iterator[Path]:
    """A folder in place of the volume, with a short name: sockets lie below it."""
    folder = Path(tempfile.mkdtemp(prefix="mcvrp-volume-"))
    yield folder
    shutil.rmtree(folder)


def here(text: str, changes: Mapping[str, str]) -> str:
    """Return ``text`` with ``changes``, none of which changes another."""
    return re.sub("|".join(map(re.escape, changes)), lambda match: changes[match[0]], text)


@contextlib.contextmanager
def served(
    name: str, volume: Path, changes: Mapping[str, str], become: list[str], environment: Mapping[str, str]
) -> Iterator[subprocess.Popen[str]]:
    """Run the script of an image, with ``changes`` of what a container would have to itself."""
    for file in ("serve", "ceph.conf"):
        if (IMAGES / name / file).exists():
            text = (IMAGES / name / file).read_text()
            (volume / file).write_text(here(text, {"/data": f"{volume}/data", **changes}))
            (volume / file).chmod(0o755)
    with (volume / "log").open("w") as log:
        process = start_group(
            [*become, str(volume / "serve")], env=environment, cwd="/", stdout=log, stderr=log
        )
    try:
        yield process
    finally:
        stop_group(process)


def test_the_database_opens_with_another_password(volume: Path) -> None:
    """The records are there, and the password of before lets nobody in."""
    programs, port = require_programs(), free_port()
    become = as_nobody_special(volume)
    (volume / "data").mkdir()
    as_nobody_special(volume / "data")

    async def records(password: str) -> int:
        database = await asyncpg.connect(
            host="127.0.0.1", port=port, user="prefect", password=password, database="prefect"
        )
        try:
            await database.execute("CREATE TABLE IF NOT EXISTS kept (k int); INSERT INTO kept VALUES (1)")
            return int(await database.fetchval("SELECT count(*) FROM kept"))
        finally:
            await database.close()

    before = "nobody's"
    for k, password in enumerate(("f" * 48, "0" * 48), 1):
        environment = os.environ | {
            "PATH": f"{programs}:{os.environ['PATH']}",
            "PGPORT": str(port),
            "POSTGRES_PASSWORD": password,
        }
        with served("postgres", volume, {}, become, environment) as process:
            deadline = time.monotonic() + _SECONDS
            while True:
                with contextlib.suppress(OSError, asyncpg.CannotConnectNowError):
                    assert asyncio.run(records(password)) == k
                    break
                assert process.poll() is None, (volume / "log").read_text()[-2000:]
                assert time.monotonic() < deadline
                time.sleep(0.2)
            with pytest.raises(asyncpg.InvalidPasswordError):
                asyncio.run(records(before))
        before = password


@pytest.fixture
def store_changes(volume: Path) -> dict[str, str]:
    """What the store's script has to itself in a container; ``8333`` is its port."""
    if reason := missing_programs():
        (pytest.fail if os.environ.get("CI") else pytest.skip)(reason)
    return {
        "/opt/store": str(volume),
        "/tmp": str(volume),  # noqa: S108  # of the container
        "8333": str(free_port()),
        "6789": str(free_port()),
    }


def client(port: str, key: int) -> Any:
    """Return a client with the keys number ``key``."""
    return boto3.client(
        "s3",
        endpoint_url=f"http://127.0.0.1:{port}",
        aws_access_key_id=f"key{key}",
        aws_secret_access_key=f"secret{key}",
        region_name="us-east-1",
    )


def keys(number: int) -> dict[str, str]:
    """Return the environment with the keys of that number."""
    return os.environ | {"S3_ACCESS_KEY": f"key{number}", "S3_SECRET_KEY": f"secret{number}"}


def answered(process: subprocess.Popen[str], volume: Path, ask: Callable[[], Any]) -> Any:
    """Return what ``ask`` does once the store answers."""
    deadline = time.monotonic() + _SECONDS
    while True:
        with contextlib.suppress(BotoCoreError):
            return ask()
        assert process.poll() is None, (volume / "log").read_text()[-2000:]
        assert time.monotonic() < deadline
        time.sleep(0.5)


def test_the_store_opens_with_other_keys(volume: Path, store_changes: dict[str, str]) -> None:
    """The objects are there, and the keys of before let nobody in."""
    (volume / "data").mkdir()
    port = store_changes["8333"]
    for k in (1, 2):
        with served("store", volume, store_changes, [], keys(k)) as process:
            found = client(port, k)
            if k == 1:
                answered(process, volume, lambda s3=found: s3.create_bucket(Bucket="bucket"))
                found.put_object(Bucket="bucket", Key="kept", Body=b"as it was")
            answer = answered(process, volume, lambda s3=found: s3.get_object(Bucket="bucket", Key="kept"))
            assert answer["Body"].read() == b"as it was"
            with pytest.raises(ClientError, match="InvalidAccessKeyId"):
                client(port, k - 1).list_buckets()


def test_a_volume_without_room_is_not_written_to(volume: Path, store_changes: dict[str, str]) -> None:
    """Before it is full: what is there is read and deleted, and written again once there is room."""
    if os.geteuid() != 0:
        pytest.skip("only root can make a volume of a size")
    image, data, port = volume / "ext4", volume / "data", store_changes["8333"]
    with image.open("wb") as file:
        file.truncate(2 * 2**30)
    data.mkdir()
    for command in (f"mkfs.ext4 -q -m 0 {image}", f"mount -o loop {image} {data}"):
        subprocess.run(command.split(), check=True)
    try:
        environment = keys(1) | {"RESERVE_MB": "200"}
        with served("store", volume, store_changes, [], environment) as process:
            s3 = client(port, 1)
            answered(process, volume, lambda: s3.create_bucket(Bucket="bucket"))
            put = functools.partial(s3.put_object, Bucket="bucket", Body=b"0" * 2**20)
            for key in ("kept", "deleted"):
                put(Key=key)
            with (data / "ballast").open("wb") as ballast:
                free = shutil.disk_usage(data).free
                os.posix_fallocate(ballast.fileno(), 0, free - 50 * 2**20)
            until(lambda: not may_write(put, "late"))
            assert len(s3.get_object(Bucket="bucket", Key="kept")["Body"].read()) == 2**20
            s3.delete_object(Bucket="bucket", Key="deleted")
            (data / "ballast").unlink()
            until(lambda: may_write(put, "again"))
        with served("store", volume, store_changes, [], environment) as process:
            answer = answered(process, volume, lambda: s3.get_object(Bucket="bucket", Key="again"))
            assert len(answer["Body"].read()) == 2**20
    finally:
        subprocess.run(["umount", str(data)], check=True)


def may_write(put: Callable[..., Any], key: str) -> bool:
    """Write the object and return whether there was room."""
    try:
        put(Key=key)
    except ClientError as error:
        if error.response["Error"]["Code"] != "QuotaExceeded":
            raise
        return False
    return True


def until(holds: Callable[[], bool]) -> None:
    """Wait until ``holds`` does."""
    deadline = time.monotonic() + _SECONDS
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.5)
