"""Garbage collection of a store."""

from typing import TYPE_CHECKING

from mcvrp.face import lazy

if TYPE_CHECKING:
    from mcvrp.tasks.gc.cleaning import clean as clean
    from mcvrp.tasks.gc.spec import RetentionSpec as RetentionSpec
else:
    __getattr__, __dir__ = lazy(__name__, __file__)
