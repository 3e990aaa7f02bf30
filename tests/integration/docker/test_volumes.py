"""Tests of volumes: they open with other secrets, which the images' scripts set at each start."""

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
from tests.integration.docker.machine import mount_disk, skip_or_fail
from tests.support.postgres_server import as_nobody_special, require_programs
from tests.support.s3_server import missing_programs
from tests.support.ui import until

IMAGES = Path(__file__).parents[3] / "docker"
_SECONDS = 600.0

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]


@pytest.fixture
def volume() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="mcvrp-volume-"))
    yield folder
    shutil.rmtree(folder)


def replaced(text: str, changes: Mapping[str, str]) -> str:
    return re.sub("|".join(map(re.escape, changes)), lambda match: changes[match[0]], text)


@contextlib.contextmanager
def served(
    name: str, volume: Path, changes: Mapping[str, str], become: list[str], environment: Mapping[str, str]
) -> Iterator[subprocess.Popen[str]]:
    for file in ("serve", "ceph.conf"):
        if (IMAGES / name / file).exists():
            text = (IMAGES / name / file).read_text()
            (volume / file).write_text(replaced(text, {"/data": f"{volume}/data", **changes}))
            (volume / file).chmod(0o755)
    command = [*become, str(volume / "serve")]
    with (volume / "log").open("w") as log:
        process = start_group(command, env=environment, cwd="/", stdout=log, stderr=log)
    try:
        yield process
    finally:
        stop_group(process)


def test_the_database_opens_with_another_password(volume: Path) -> None:
    programs, port = require_programs(), free_port()
    become = as_nobody_special(volume)
    (volume / "data").mkdir()
    as_nobody_special(volume / "data")

    async def records(password: str) -> int:
        database = await asyncpg.connect(f"postgresql://prefect:{password}@127.0.0.1:{port}/prefect")
        try:
            await database.execute("CREATE TABLE IF NOT EXISTS kept (k int); INSERT INTO kept VALUES (1)")
            return int(await database.fetchval("SELECT count(*) FROM kept"))
        finally:
            await database.close()

    previous = "none"
    for k, password in enumerate(("f" * 48, "0" * 48), 1):
        path = f"{programs}:{os.environ['PATH']}"
        environment = os.environ | {"PATH": path, "PGPORT": str(port), "POSTGRES_PASSWORD": password}
        with served("postgres", volume, {}, become, environment) as process:
            assert answered(process, volume, lambda: asyncio.run(records(password))) == k  # noqa: B023
            with pytest.raises(asyncpg.InvalidPasswordError):
                asyncio.run(records(previous))
        previous = password


@pytest.fixture
def store_changes(volume: Path) -> dict[str, str]:
    if reason := missing_programs():
        skip_or_fail(reason)
    return {
        "/opt/store": str(volume),
        "/tmp": str(volume),  # noqa: S108  # of the container
        "8333": str(free_port()),
        "6789": str(free_port()),
    }


def client(port: str, key: int) -> Any:
    return boto3.client(
        "s3",
        endpoint_url=f"http://127.0.0.1:{port}",
        aws_access_key_id=f"key{key}",
        aws_secret_access_key=f"secret{key}",
        region_name="us-east-1",
    )


def keys(number: int) -> dict[str, str]:
    return os.environ | {"S3_ACCESS_KEY": f"key{number}", "S3_SECRET_KEY": f"secret{number}"}


def answered(process: subprocess.Popen[str], volume: Path, ask: Callable[..., Any], **values: str) -> Any:
    deadline = time.monotonic() + _SECONDS
    while True:
        with contextlib.suppress(BotoCoreError, OSError, asyncpg.CannotConnectNowError):
            return ask(**values)
        assert process.poll() is None, (volume / "log").read_text()[-2000:]
        assert time.monotonic() < deadline
        time.sleep(0.5)


def test_the_store_opens_with_other_keys(volume: Path, store_changes: dict[str, str]) -> None:
    (volume / "data").mkdir()
    port = store_changes["8333"]
    for k in (1, 2):
        with served("store", volume, store_changes, [], keys(k)) as process:
            s3 = client(port, k)
            if k == 1:
                answered(process, volume, s3.create_bucket, Bucket="bucket")
                s3.put_object(Bucket="bucket", Key="kept", Body=b"as it was")
            answer = answered(process, volume, s3.get_object, Bucket="bucket", Key="kept")
            assert answer["Body"].read() == b"as it was"
            with pytest.raises(ClientError, match="InvalidAccessKeyId"):
                client(port, k - 1).list_buckets()


def test_a_full_volume_is_read_only(volume: Path, store_changes: dict[str, str]) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can create a volume of limited size")
    data, port = volume / "data", store_changes["8333"]
    mount_disk(data, 2)
    try:
        environment = keys(1) | {"RESERVE_MB": "200"}
        with served("store", volume, store_changes, [], environment) as process:
            s3 = client(port, 1)
            answered(process, volume, s3.create_bucket, Bucket="bucket")
            put = functools.partial(s3.put_object, Bucket="bucket", Body=b"0" * 2**20)
            for key in ("kept", "deleted"):
                put(Key=key)
            with (data / "ballast").open("wb") as ballast:
                free = shutil.disk_usage(data).free
                os.posix_fallocate(ballast.fileno(), 0, free - 50 * 2**20)
            until("a full store", _SECONDS, lambda: not is_written(put, "late"))
            assert len(s3.get_object(Bucket="bucket", Key="kept")["Body"].read()) == 2**20
            s3.delete_object(Bucket="bucket", Key="deleted")
            (data / "ballast").unlink()
            until("space", _SECONDS, lambda: is_written(put, "again"))
        with served("store", volume, store_changes, [], environment) as process:
            answer = answered(process, volume, s3.get_object, Bucket="bucket", Key="again")
            assert len(answer["Body"].read()) == 2**20
    finally:
        # a daemon that was stopped may hold the volume a little longer
        until("its end", _SECONDS, lambda: subprocess.run(["umount", str(data)]).returncode == 0)


def is_written(put: Callable[..., Any], key: str) -> bool:
    try:
        put(Key=key)
    except ClientError as error:
        if error.response["Error"]["Code"] != "QuotaExceeded":
            raise
        return False
    return True
