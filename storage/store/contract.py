"""Contract of an object store, tested by two writers that race: sequential requests succeed on any server.

`python -m mcvrp.storage.store.contract s3://bucket/prefix` creates the bucket if necessary, and races there
with objects of several sizes: some servers support conditional writes only for objects of a single part.
"""

from __future__ import annotations

import secrets
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol
from urllib.parse import urlsplit

from botocore.exceptions import BotoCoreError, ClientError

from mcvrp.model.errors import McvrpError
from mcvrp.storage.store import s3_errors
from mcvrp.storage.store.errors import StoreError, StoreUnavailable

# Rounds by size in bytes: several of the size of a lease, as a single race may be won by chance, and one
# that is larger than the parts of any server.
ROUNDS = {10: 10, 20 * 2**20: 1}
WAIT_SECONDS = 300.0  # for a server to start
_WRITERS = 2


class Objects(Protocol):
    """Operations under test; `S3Objects` has them."""

    def write_new(self, path: str, data: bytes) -> bool: ...
    def swap(self, path: str, data: bytes, tag: str) -> bool: ...
    def read_tagged(self, path: str) -> tuple[bytes, str]: ...
    def delete_files(self, paths: Sequence[str]) -> None: ...


def race(objects: Objects, path: str, size: int) -> None:
    """Let two writers create the object at ``path``, then two replace it, ``size`` bytes each; delete it.

    Raises StoreError if not exactly one of them succeeds, or the object is not the one it wrote.
    """
    try:
        _one_wins(objects, path, size, "If-None-Match", objects.write_new)
        tag = objects.read_tagged(path)[1]
        _one_wins(objects, path, size + 1, "If-Match", lambda name, data: objects.swap(name, data, tag))
    finally:
        objects.delete_files([path])


def _one_wins(
    objects: Objects, path: str, size: int, condition: str, write: Callable[[str, bytes], bool]
) -> None:
    bodies = [bytes([ord("a") + writer]) * size for writer in range(_WRITERS)]
    with ThreadPoolExecutor(_WRITERS) as pool:
        won = list(pool.map(lambda body: _wins(write, path, body), bodies))
    if sum(won) != 1:
        writers = "both writers" if all(won) else "neither of two writers"
        raise StoreError(
            f"the server does not support atomic conditional writes ({condition}): {writers} of {size:,} "
            "bytes succeeded, so that writers could overwrite each other's work: use another server"
        )
    if objects.read_tagged(path)[0] != bodies[won.index(True)]:
        raise StoreError(
            f"the server does not store whole objects ({condition}): {size:,} bytes read back are not those "
            "of the writer that succeeded: use another server"
        )


def _wins(write: Callable[[str, bytes], bool], path: str, body: bytes) -> bool:
    try:
        return write(path, body)
    except ClientError as error:
        if s3_errors.code(error) in s3_errors.RACED:  # the other writer was faster
            return False
        raise


def prove(uri: str, rounds: Mapping[int, int] = ROUNDS) -> None:
    """Create the bucket of ``uri`` if necessary, and race there, ``rounds`` by size in bytes.

    Raises StoreError as `race` does, or if the server refuses; StoreUnavailable if it does not answer.
    """
    from mcvrp.storage.store.s3 import WORKING, connect

    objects = connect(uri, WORKING)
    deadline = time.monotonic() + WAIT_SECONDS
    while True:
        try:
            objects.make_bucket()
            for size, count in rounds.items():
                for _ in range(count):
                    race(objects, f".race-{secrets.token_hex(4)}.tmp", size)
            return
        except (BotoCoreError, ClientError) as error:
            refused = objects.refusal(f"cannot test the store {uri}", error)
            if not isinstance(refused, StoreUnavailable) or time.monotonic() > deadline:
                raise refused from error
            time.sleep(1.0)


def main(arguments: Sequence[str]) -> int:
    """Test the store at the single address in ``arguments``; return the exit code."""
    if len(arguments) != 1 or urlsplit(arguments[0]).scheme != "s3":
        sys.stderr.write("contract: give the address of an object store, s3://bucket/prefix\n")
        return 2
    began = time.monotonic()
    try:
        prove(arguments[0])
    except McvrpError as error:
        sys.stderr.write(f"contract: {error}\n")
        return error.exit_code
    seconds = time.monotonic() - began
    sys.stdout.write(f"{arguments[0]} supports atomic conditional writes ({seconds:.0f} s)\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
