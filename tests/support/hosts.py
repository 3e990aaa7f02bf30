"""Several hosts on one machine: network namespaces with addresses of their own, on one bridge."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass

from tests.support.shared import unavailable

_NETWORK = "10.213.77"
# A namespace of its own: rules of the machine, as a container engine makes, are not there.
_SWITCH = "mcvrp-switch"
_TEMPORARY = "/media"  # a short name: paths of sockets are limited in length


@dataclass(frozen=True)
class Host:
    name: str
    address: str

    @property
    def inside(self) -> tuple[str, ...]:
        """Prefix of a command that runs on it, with its own process and temporary file namespaces."""
        unshare = ("unshare", "--pid", "--fork", "--kill-child", "--mount-proc")
        own_files = f'mount -t tmpfs none {_TEMPORARY} && TMPDIR={_TEMPORARY} exec "$@"'
        return ("ip", "netns", "exec", self.name, *unshare, "sh", "-c", own_files, "sh")

    def link(self, state: str) -> None:
        _ip("-netns", self.name, "link", "set", "eth0", state)
        if state == "up":  # a route goes with its link
            _ip("-netns", self.name, "route", "replace", "default", "via", f"{_NETWORK}.254")


@contextlib.contextmanager
def hosts(count: int) -> Iterator[list[Host]]:
    """Make ``count`` hosts that reach only each other; skip if that is not allowed, but not in CI."""
    made = [Host(f"mcvrp-host-{k}", f"{_NETWORK}.{k}") for k in range(1, count + 1)]
    try:
        try:
            _ip("netns", "add", _SWITCH)
            _ip("-netns", _SWITCH, "link", "add", "bridge", "type", "bridge")
        except subprocess.CalledProcessError as error:
            unavailable(f"no network of its own here: {error.stderr.strip()}")
        _ip("-netns", _SWITCH, "address", "add", f"{_NETWORK}.254/24", "dev", "bridge")
        _ip("-netns", _SWITCH, "link", "set", "bridge", "up")
        for k, host in enumerate(made):
            _ip("netns", "add", host.name)
            _ip("-netns", _SWITCH, *f"link add port-{k} type veth peer name eth0 netns {host.name}".split())
            _ip("-netns", _SWITCH, "link", "set", f"port-{k}", "master", "bridge", "up")
            _ip("-netns", host.name, "address", "add", f"{host.address}/24", "dev", "eth0")
            _ip("-netns", host.name, "link", "set", "lo", "up")
            host.link("up")
        yield made
    finally:
        for name in (*(host.name for host in made), _SWITCH):
            with contextlib.suppress(subprocess.CalledProcessError):
                _ip("netns", "delete", name)


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True, text=True)
