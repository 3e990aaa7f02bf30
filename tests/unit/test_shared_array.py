"""Arrays in memory that the processes of a machine share."""

from __future__ import annotations

import contextlib
import gc
import os
import pickle
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st
from numpy.typing import NDArray

from mcvrp.shared_array import dumps, shared, shared_array


def filled(rows: int, columns: int) -> NDArray[np.float64]:
    array = shared_array((rows, columns))
    array[:] = np.arange(rows * columns).reshape(rows, columns)
    array.setflags(write=False)
    return array


def open_files() -> int:
    """Return the number of open files of shared arrays; other libraries open and close their own."""
    gc.collect()
    count = 0
    for descriptor in os.listdir("/proc/self/fd"):
        with contextlib.suppress(FileNotFoundError):
            count += "memfd:mcvrp" in os.readlink(f"/proc/self/fd/{descriptor}")
    return count


@given(st.integers(1, 9), st.integers(1, 9), st.data())
def test_every_view_arrives_as_it_is_and_read_only(rows: int, columns: int, data: st.DataObject) -> None:
    """A city is a part of one that extends it, and a matrix may be transposed."""
    array = filled(rows, columns)
    view = array[tuple(data.draw(st.slices(size)) for size in array.shape)]
    view = view.T if data.draw(st.booleans()) else view
    message = {"view": view, "own": np.arange(3.0), "whole": array}
    arrived = pickle.loads(dumps(message))
    for name, sent in message.items():
        assert np.array_equal(arrived[name], sent)
    assert not arrived["whole"].flags.writeable
    again = pickle.loads(dumps(arrived))  # a process may send on what it has received
    assert np.array_equal(again["view"], view)


def test_it_is_the_same_memory_and_few_bytes_are_sent() -> None:
    array = shared_array((500, 500))
    message = dumps(array)
    arrived = pickle.loads(message)
    array[3, 4] = 5.0
    assert arrived[3, 4] == 5.0
    assert len(message) < 1000
    assert not np.shares_memory(pickle.loads(pickle.dumps(array)), array)  # for another machine: its content


def test_another_process_has_it_until_it_ends() -> None:
    """Its own map stays when this process has given up the array."""
    array = filled(30, 40)
    text = (
        "import pickle, sys; array = pickle.load(sys.stdin.buffer); print('here', flush=True); "
        "sys.stdin.buffer.readline(); print(array.sum())"
    )
    with subprocess.Popen(
        [sys.executable, "-c", text], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        assert other.stdin
        assert other.stdout
        other.stdin.write(dumps(array))
        other.stdin.flush()
        assert other.stdout.readline() == b"here\n"
        expected = array.sum()
        del array
        gc.collect()
        other.stdin.write(b"\n")
        other.stdin.flush()
        assert float(other.stdout.readline()) == expected


def test_an_array_is_copied_at_most_once() -> None:
    own = np.arange(12.0).reshape(3, 4)
    once = shared(own)
    assert np.array_equal(once, own)
    assert not once.flags.writeable
    assert shared(once) is once
    part = once[1:]
    assert shared(part) is part


def test_nothing_is_left_open() -> None:
    before = open_files()
    arrays: list[Any] = [filled(3, 3)[1:] for _ in range(5)]
    arrays += [pickle.loads(dumps(array)) for array in arrays]
    assert open_files() > before
    arrays.clear()
    assert open_files() == before


def test_without_such_memory_the_content_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    """Elsewhere than on Linux."""
    monkeypatch.delattr(os, "memfd_create")
    array = filled(4, 5)
    arrived = pickle.loads(dumps(array))
    assert np.array_equal(arrived, array)
    assert not np.shares_memory(arrived, array)
