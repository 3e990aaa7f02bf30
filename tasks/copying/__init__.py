"""Copies of a store to another folder or bucket."""

from typing import TYPE_CHECKING

from mcvrp.face import lazy

if TYPE_CHECKING:
    from mcvrp.tasks.copying.copy import (
        CopySummary as CopySummary,
        copy_store as copy_store,
        require_apart as require_apart,
        unfinished as unfinished,
    )
else:
    __getattr__, __dir__ = lazy(__name__, copy="CopySummary copy_store require_apart unfinished")
