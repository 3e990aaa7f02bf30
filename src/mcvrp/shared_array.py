"""Arrays that processes of one machine share: in memory once, and pickled for each other as references.

The cost matrix of a city of 10,000 has 800 MB. Its memory is a file without a name (`memfd_create`): nothing
is left of it when the last process ends, however that ends, and no /dev/shm or disk can be too small.
Elsewhere than on Linux, arrays are ordinary ones and each process has a copy.
"""

from __future__ import annotations

import io
import math
import mmap
import os
import pickle
import weakref
from typing import Any

import numpy as np
from numpy.typing import NDArray

# The maps of this process with the descriptors of their files, which stay open as long as the maps.
_files: weakref.WeakKeyDictionary[mmap.mmap, int] = weakref.WeakKeyDictionary()


def shared_array(shape: tuple[int, ...]) -> NDArray[np.float64]:
    """Return a new float64 array of zeros, of at least one element, which `dumps` pickles as a reference.

    It must not be changed once it has been pickled.
    """
    if not hasattr(os, "memfd_create"):
        return np.zeros(shape)
    file = os.memfd_create("mcvrp")
    os.ftruncate(file, 8 * math.prod(shape))
    return np.ndarray(shape, np.float64, _mapped(file, mmap.ACCESS_WRITE))


def shared(array: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return ``array`` if it is read-only and `dumps` pickles it as a reference, otherwise such a copy."""
    if not array.flags.writeable and _reference(array):
        return array
    copy = shared_array(array.shape)
    copy[...] = array
    copy.setflags(write=False)
    return copy


def dumps(value: object) -> bytes:
    """Return ``value`` pickled for a process of this machine that loads it while this one runs."""
    buffer = io.BytesIO()
    _Pickler(buffer).dump(value)
    return buffer.getvalue()


class _Pickler(pickle.Pickler):
    def reducer_override(self, value: Any) -> Any:
        reference = _reference(value) if type(value) is np.ndarray else None
        return NotImplemented if reference is None else (_attached, reference)


def _reference(array: NDArray[Any]) -> tuple[Any, ...] | None:
    """Return the arguments with which `_attached` finds ``array``; None if its memory is not shared."""
    memory: Any = array
    while isinstance(memory, np.ndarray):
        memory = memory.base
    if not isinstance(memory, mmap.mmap) or memory not in _files:
        return None
    path = f"/proc/{os.getpid()}/fd/{_files[memory]}"
    offset = array.ctypes.data - np.frombuffer(memory, np.uint8).ctypes.data
    return (path, array.shape, array.dtype.str, offset, array.strides) if os.path.exists(path) else None


def _attached(
    path: str, shape: tuple[int, ...], dtype: str, offset: int, strides: tuple[int, ...]
) -> NDArray[Any]:
    memory = _mapped(os.open(path, os.O_RDONLY), mmap.ACCESS_READ)
    return np.ndarray(shape, dtype, memory, offset, strides)


def _mapped(file: int, access: int) -> mmap.mmap:
    """Return the map of ``file``, which is closed with it."""
    try:
        memory = mmap.mmap(file, 0, access=access)
    except BaseException:
        os.close(file)
        raise
    weakref.finalize(memory, os.close, file)
    _files[memory] = file
    return memory
