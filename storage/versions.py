"""Schema versions of the documents in the store; a newer document is refused, never interpreted.

A document without a version is of version 1. The local cache of labels has a version of its own
(`labels.mapped.MAPPED_FORMAT`): a cache of another version is rebuilt.
"""

from __future__ import annotations

from dataclasses import dataclass

from mcvrp.model.errors import McvrpError, shown


class TooNew(McvrpError):
    """A document was written by a newer version of mcvrp."""


@dataclass(frozen=True)
class Schema:
    """A kind of document: its name in messages, its current version, and the field that holds the version."""

    document: str
    version: int
    field: str = "schema_version"

    def require_readable(self, version: object, url: str) -> None:
        """Raise TooNew if ``version`` of the document at ``url`` is newer, ValueError if it is invalid."""
        if type(version) is not int or version < 1:
            raise ValueError(f"{self.field} is {shown(version)}, expected a positive integer")
        if version > self.version:
            raise TooNew(
                f"{url} is {self.document} of schema version {version}, written by a newer version of mcvrp "
                f"(this version reads up to {self.version}): update mcvrp"
            )


CITY = Schema("a city card", 3)
LABEL = Schema("a label file", 2)
MANIFEST = Schema("a dataset manifest", 2, "manifest_version")
CHECKPOINT = Schema("a checkpoint", 1, "format")
METRICS = Schema("a table of training metrics", 1)
MODEL = Schema("a model card", 1, "format")
ATTENTION = Schema("an attention model card", 1, "format")
MOVE = Schema("a move of a champion", 2)
BENCHMARK = Schema("a table of benchmark results", 1)
