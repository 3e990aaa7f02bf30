"""Ports of this machine for servers that we start."""

from __future__ import annotations

import contextlib
import random
import socket

_RANDOM = random.SystemRandom()  # a seeded one would draw the same in two processes


def free_port() -> int:
    """Return a port that is free now, below those that the system gives to connections.

    A port of the system's own choice may be an outgoing connection's before the server has started.
    """
    while True:
        port = _RANDOM.randrange(20_000, 32_000)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
