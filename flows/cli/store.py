"""`mcvrp store`: a copy of a store in another folder or bucket."""

from __future__ import annotations

import argparse

from mcvrp.flows.cli.output import Outcome, output_folder, plain, size_text
from mcvrp.model.errors import IncompleteError, McvrpError
from mcvrp.storage.store.store import Store
from mcvrp.tasks.copying.copy import copy_store, require_apart
from mcvrp.tasks.support.progress import duration


def copy(options: argparse.Namespace) -> Outcome:
    """Copy a store; the exit code is 1 if the source changed meanwhile."""
    if options.store or options.overrides:
        raise McvrpError("mcvrp store copy takes its two stores as arguments: omit --store and --set")
    require_apart(Store.at(options.source), Store.at(options.target))
    source = Store.open(options.source, writable=False).outlasting()
    summary = copy_store(source, output_folder(options.target).outlasting())
    kept = summary.files - summary.copied
    text = (
        f"{summary.target}: {summary.files:,} files, {size_text(summary.bytes)}, equal to those of "
        f"{summary.source}; {summary.copied:,} copied{f', {kept:,} were there' if kept else ''}, in "
        f"{duration(summary.seconds)}"
    )
    if not summary.changed:
        return Outcome(plain(summary), text)
    lacks = (
        f"{summary.changed:,} files of {summary.source} were written or removed while it was copied: run the "
        "same command again once no other command writes there"
    )
    return Outcome(plain(summary), f"{summary.target}: unfinished copy", IncompleteError.exit_code, lacks)
