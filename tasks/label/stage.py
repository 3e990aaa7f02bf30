"""Stage that labels a dataset: it lists the files that exist and sends the missing ones to Ray's workers.

Each worker solves the rows of a file and creates it once; many small files of a size are merged in the end.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from textwrap import shorten

from mcvrp.model.errors import IncompleteError, McvrpError, reason
from mcvrp.model.problem import City
from mcvrp.storage import layout
from mcvrp.storage.cities import city_parent
from mcvrp.storage.labels.dataset import Dataset, RowFile, list_files
from mcvrp.storage.labels.label_files import LabelFile
from mcvrp.storage.labels.manifest import rebuild_manifest
from mcvrp.storage.provenance import FIELD, made, provenance_in
from mcvrp.storage.store.lease import Lease, holding
from mcvrp.storage.store.store import Store
from mcvrp.tasks.label.card import write_card
from mcvrp.tasks.label.plan import Merge, merges, missing_units
from mcvrp.tasks.label.solving import require_possible
from mcvrp.tasks.label.spec import LabelSpec as LabelSpec, Source, SpecDocument
from mcvrp.tasks.label.units import Unit, UnitReceipt
from mcvrp.tasks.label.worker import WorkerContext, label_unit, merge_files
from mcvrp.tasks.support.progress import Progress
from mcvrp.tasks.support.ray_session import ray_session, windowed
from mcvrp.tasks.support.text import counted

logger = logging.getLogger(__name__)

_MOST_CHARACTERS = 80  # of the first reason


@dataclass(frozen=True)
class LabelSummary:
    """Result of a run of the stage.

    Of the labels of the spec ``rows`` exist, ``new`` of them made by this run in ``seconds`` (wall clock). No
    attempt has solved the ``absent`` ones, of which ``lacks`` is a sentence, or "". ``held_out`` is the
    summary of the held-out dataset, if it has one.
    """

    dataset: str
    rows: int
    new: int
    seconds: float
    absent: int = 0
    lacks: str = ""
    held_out: LabelSummary | None = None


@dataclass
class _Run:
    """A run of the stage, under the lease of its dataset.

    ``made`` labels were stored. ``lost`` are units and merges that failed, with the reason, ``unsolved``
    units without any label.
    """

    store: Store
    source: Source
    lease: Lease
    workers: int = 0
    made: int = 0
    lost: dict[Unit, str] = field(default_factory=dict)
    unsolved: dict[Unit, str] = field(default_factory=dict)

    @property
    def spec(self) -> LabelSpec:
        return self.source.spec

    def label(self, units: Sequence[Unit]) -> None:
        """Make the files of ``units``."""
        spec, left = self.spec, sum(unit.rows * unit.seconds for unit in units)
        done = spec.rows - sum(unit.rows for unit in units)
        context = WorkerContext(self.store, self.source.city, self.source.recipe)
        with Progress(f"labels {spec.dataset}", spec.rows, "labels", done=done, left=left) as progress:
            for unit, receipt in windowed(label_unit, units, self.workers, context, tick=self.lease.check):
                if isinstance(receipt, Exception):
                    receipt = UnitReceipt(failure=f"its worker was lost ({reason(receipt)})")
                self.made += receipt.rows
                if len(receipt.absent) == unit.rows:
                    self.unsolved[unit] = receipt.failure
                elif receipt.failure:
                    self.lost[unit] = receipt.failure
                elif receipt.absent:
                    i, why = next(iter(receipt.absent.items()))
                    count = len(receipt.absent)
                    logger.warning("no attempt has solved %d of %s, the first i=%d: %s", count, unit, i, why)
                progress.left = (progress.left or 0.0) - unit.rows * unit.seconds
                note = f"{counted(len(self.lost), 'file')} failed" if self.lost else ""
                progress.advance(0 if receipt.failure else receipt.rows or unit.rows, note)

    def merge(self, todo: Sequence[Merge]) -> None:
        """Merge small files into large ones."""
        context = WorkerContext(self.store, self.source.city, self.source.recipe)
        with Progress(f"merge {self.spec.dataset}", len(todo), "files") as progress:
            for merge, refusal in windowed(
                merge_files, todo, self.workers, context, refusals=True, tick=self.lease.check
            ):
                if refusal:
                    self.lost[merge] = reason(refusal)
                progress.advance()


def label_missing(store: Store, city: City, spec: LabelSpec) -> LabelSummary:
    """Make every label of ``spec`` that ``store`` lacks, except those of instances that stay unsolved.

    Raises McvrpError if the spec contradicts the dataset of that name or exceeds the city, or another process
    is labelling it; nothing has been changed then. IncompleteError if files could not be made: the message
    counts their labels with the reason, and all others are stored.
    """
    began = time.monotonic()
    source = Source(spec, city)
    require_possible(source)
    SpecDocument.read(store, spec.dataset).require_same(store, source)  # before waiting for a lease
    path = layout.driver_lease(spec.dataset)
    with holding(store, path, f"dataset {spec.dataset!r} is being labelled") as lease:
        run, document = _Run(store, source, lease), _own_document(store, source)
        files = list_files(store, spec.dataset)
        if document.fields:
            _require_own_rows(store, files, document.extended(source))
        units, todo = list(missing_units(files, spec, document)), list(merges(files, spec))
        with contextlib.ExitStack() as stack:
            if units or todo:
                run.workers = stack.enter_context(ray_session(spec.workers))
            # Before the first label: a run that resumes has to find out that the dataset is its own.
            _write_spec(store, source, document, labelling=bool(units))
            if units:
                run.label(units)
                todo = list(merges(list_files(store, spec.dataset), spec))
            if todo:
                run.merge(todo)
        labels = Dataset.listed(store, spec.dataset)
        manifest = rebuild_manifest(labels)
        write_card(store, city, spec.dataset, manifest, labels.label_files)
    absent, lacks = _completeness(run, labels.label_files)
    seconds = time.monotonic() - began
    return LabelSummary(spec.dataset, spec.rows - absent, run.made, seconds, absent, lacks)


def labels_missing(store: Store, city: City, spec: LabelSpec) -> int:
    """Return how many labels of ``spec`` are in no file; McvrpError as in `label_missing`."""
    source = Source(spec, city)
    require_possible(source)
    document = SpecDocument.read(store, spec.dataset)
    document.require_same(store, source)
    return sum(unit.rows for unit in missing_units(list_files(store, spec.dataset), spec, document))


def _own_document(store: Store, source: Source) -> SpecDocument:
    """Return the document of the dataset; McvrpError if it, or one of its files, is of another spec."""
    name = source.spec.dataset
    document = SpecDocument.read(store, name)  # again: its first driver may just have ended
    document.require_same(store, source)
    if not document.fields:  # removed, perhaps: the files know what they were made of
        ours = source.city.city_id, source.recipe.spec_hash
        for file in Dataset.listed(store, name).label_files:
            if (file.footer.city_id, file.footer.spec_hash) != ours:
                raise McvrpError(
                    f"{store.url(file.path)} belongs to another dataset (city {file.footer.city_id}, spec "
                    f"{file.footer.spec_hash}; expected {ours[0]}, {ours[1]}): move it away"
                )
    return document


def _require_own_rows(store: Store, files: dict[int, list[RowFile]], document: SpecDocument) -> None:
    """Raise McvrpError for the first file with rows that ``document`` does not request.

    It would replace those that have some of its rows, as if they had been merged into it.
    """
    for n, file in ((n, file) for n, of_size in files.items() for file in of_size):
        if not document.requests(n, file.stop):
            raise McvrpError(f"{store.url(file.path)} has rows that its dataset has not: move it away")


def _write_spec(store: Store, source: Source, before: SpecDocument, *, labelling: bool) -> None:
    """Store the spec, extended by that of this run; before ``labelling`` with this run as a maker."""
    document = before.extended(source)
    if labelling:
        parent = city_parent(store, source.city.city_id)
        provenance = asdict(made([parent], provenance_in(document.fields)))
        document = SpecDocument({**document.fields, FIELD: provenance})
    if document != before:
        store.put_json(layout.label_spec(source.spec.dataset), document.fields)


def _completeness(run: _Run, files: Sequence[LabelFile]) -> tuple[int, str]:
    """Return how many labels are absent, and a sentence on them; IncompleteError if files are missing."""
    spec = run.spec
    ours = (file.footer for file in files if file.footer.n in spec.sizes)
    absent = [(f.n, i, why) for f in ours for i, why in f.absent.items() if i < spec.count]
    absent += [(unit.n, i, why) for unit, why in run.unsolved.items() for i in range(unit.start, unit.stop)]
    units = [unit for unit in run.lost if not isinstance(unit, Merge)]
    missing = len(absent) + sum(unit.rows for unit in units)
    reasons = []
    if absent:
        n, i, why = absent[0]
        first = shorten(f"(n={n}, i={i}): {why}", _MOST_CHARACTERS)
        reasons.append(f"no attempt has solved {len(absent):,} (first: {first})")
    if run.lost:
        what, why = next(iter(run.lost.items()))
        reasons.append(f"{counted(len(run.lost), 'file')} could not be made (first: {what}: {why})")
    if not reasons:
        return 0, ""
    lacks = f"dataset {spec.dataset!r} lacks {missing:,} of {spec.rows:,} labels: {'; '.join(reasons)}"
    if run.lost or missing == spec.rows:
        raise IncompleteError(lacks)
    return len(absent), lacks
