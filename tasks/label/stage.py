"""Stage that labels a dataset: every instance without a label is solved, on all cores.

Each unit of work publishes whole shards or stages rows; a shard whose rows are all staged is merged.
"""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass
from textwrap import shorten

from mcvrp.model.errors import IncompleteError, McvrpError
from mcvrp.model.problem import City
from mcvrp.storage import layout
from mcvrp.storage.labels.manifest import rebuild_manifest
from mcvrp.storage.store.lease import holding
from mcvrp.storage.store.store import Store
from mcvrp.tasks.label.card import write_card
from mcvrp.tasks.label.driver import Driver
from mcvrp.tasks.label.plan import LabelDataset, Missing, count_missing, sweep
from mcvrp.tasks.label.repair import repair_dataset, repair_sources, still_corrupt
from mcvrp.tasks.label.solving import make_solver
from mcvrp.tasks.label.spec import LabelSpec as LabelSpec, Source, SpecDocument
from mcvrp.tasks.support.progress import Progress
from mcvrp.tasks.support.ray_session import ClusterLost, ray_session

logger = logging.getLogger(__name__)

_REJOIN_SECONDS = 300.0  # for the head of a cluster to restart
_REPAIRS = 3  # per run: a disk that corrupts file after file needs an operator
_FALLBACK_SOLVER = "pyvrp"  # solves instances that the others leave unsolved
_MOST_CHARACTERS = 80  # of the first reason


@dataclass(frozen=True)
class LabelSummary:
    """Result of a run of the stage.

    Of the labels of the spec ``rows`` exist, ``new`` of them made by this run in ``seconds`` (wall clock) on
    ``workers`` cores with ``solving`` solver seconds in all. ``retried`` units of work were repeated,
    ``failures`` of them because their worker was lost. ``quarantined`` instances of the dataset, of this spec
    or not, no solver has solved so far. ``lacks`` is a sentence on labels that are missing for that, or "";
    ``held_out`` the summary of the held-out dataset, if there is one.
    """

    dataset: str
    rows: int
    new: int
    seconds: float
    solving: float
    workers: int
    retried: int = 0
    failures: int = 0
    quarantined: int = 0
    lacks: str = ""
    held_out: LabelSummary | None = None


def label_missing(store: Store, city: City, spec: LabelSpec) -> LabelSummary:
    """Make every label of ``spec`` that ``store`` lacks, except those of instances that stay unsolved.

    Raises McvrpError if the spec contradicts the dataset of that name or exceeds the city, a file at the path
    of a shard is of another dataset, or another process is labelling it; nothing has been changed then.
    IncompleteError if labels were not tried in the end, or there are none: the message counts them with the
    reason, and all others are stored.
    """
    began = time.monotonic()
    source = Source(spec, city)
    _require_possible(source)
    SpecDocument.read(store, spec.dataset).require_same(store, source)  # before waiting for a lease
    path = layout.driver_lease(spec.dataset)
    with holding(store, path, f"dataset {spec.dataset!r} is being labelled") as lease:
        dataset = LabelDataset.open(store, source)  # again: its first driver may just have ended
        repair_dataset(dataset)
        missing = count_missing(dataset)
        dataset.quarantine.drop_solved(spec, missing.suspects)
        driver = Driver(dataset, lease)
        if missing.by_size:
            _label_on_ray(driver, missing)
        else:
            _finish(dataset)
        rows, lacks = _completeness(driver)
    return LabelSummary(
        dataset=spec.dataset,
        rows=rows,
        new=driver.labelled,
        seconds=time.monotonic() - began,
        solving=driver.solving,
        workers=driver.workers,
        retried=driver.retried,
        failures=driver.failures,
        quarantined=len(dataset.quarantine.entries),
        lacks=lacks,
    )


def labels_missing(store: Store, city: City, spec: LabelSpec) -> int:
    """Return how many labels of ``spec`` are not in a valid shard; McvrpError as in `label_missing`."""
    # All count if `mcvrp verify` has found a file corrupt: how many are good is known after the repair.
    source = Source(spec, city)
    _require_possible(source)
    dataset = LabelDataset.open(store, source)
    return spec.rows if any(still_corrupt(dataset)) else count_missing(dataset).rows


def _require_possible(source: Source) -> None:
    """Raise McvrpError if the city or the solver cannot give what the spec requests."""
    spec, city, recipe = source.spec, source.city, source.recipe
    if spec.largest > city.customers:
        raise McvrpError(
            f"largest = {spec.largest}: the city has {city.customers} customers, request at most as many"
        )
    for n in spec.sizes:
        recipe.rules.capacity_range(n)
    recipe.solver.require_costs(city)
    make_solver(recipe, spec.smallest)


def _label_on_ray(driver: Driver, missing: Missing) -> None:
    """Label what is ``missing`` on Ray; if a cluster is lost and comes back, the rest there."""
    dataset, matrix = driver.dataset, driver.dataset.source.city.matrix
    patience, labelled_before = 0.0, -1
    while missing.by_size:
        try:
            shared = 0 if matrix is None else matrix.nbytes
            with ray_session(dataset.spec.workers, shared_bytes=shared, patience=patience) as workers:
                _drive(driver, missing, workers)
            return
        except ClusterLost as error:
            if driver.labelled == labelled_before:
                raise  # a cluster that is lost twice without a label in between will not do better
            logger.warning("%s; this command tries to continue for %.0f s", error, _REJOIN_SECONDS)
            patience, labelled_before = _REJOIN_SECONDS, driver.labelled
        # Workers of the lost cluster may have published until it ended: the store says what is left.
        missing = count_missing(dataset)
    _finish(dataset)


def _drive(driver: Driver, missing: Missing, workers: int) -> None:
    """Label what is ``missing`` with ``workers``; if that fails, labels made until then are reported."""
    dataset, spec = driver.dataset, driver.dataset.spec
    # Before the first label: a run that resumes after a kill has to find out that the dataset is its own.
    dataset.write_spec(labelling=True)
    try:
        for _ in range(1 + _REPAIRS):
            label, done = f"labels {spec.dataset}", spec.rows - missing.rows
            with Progress(label, spec.rows, "labels", done=done) as progress:
                driver.run(missing, workers, progress)
            # A shard that cannot be merged has a corrupt source; without it its rows are missing again.
            if not repair_sources(dataset, driver.unmerged):
                break
            missing = count_missing(dataset)
        _finish(dataset)
    except (IncompleteError, ClusterLost):
        raise
    except McvrpError as error:
        if not driver.labelled:
            raise
        made = f"{driver.labelled:,} labels were made before, the same command resumes from there"
        raise IncompleteError(f"{error} ({made})") from error


def _finish(dataset: LabelDataset) -> None:
    """Update the files beside the shards. All are derived from the shards: a kill here costs nothing."""
    store, spec = dataset.store, dataset.spec
    dataset.write_spec()
    dataset.quarantine.save()
    sweep(dataset)
    rebuild_manifest(store, spec.dataset, dataset.labels)
    # Last, as it reads the list of shards that the manifest comes with.
    write_card(store, dataset.source.city, spec.dataset, dataset.labels.figures())


def _completeness(driver: Driver) -> tuple[int, str]:
    """Return how many labels exist and a sentence on unsolved ones; IncompleteError if others are missing."""
    dataset, rows = driver.dataset, driver.dataset.spec.rows
    # Only these can leave a gap: a complete run must not list a large dataset once more.
    suspicious = driver.lost or dataset.quarantine.within(dataset.spec)
    missing = count_missing(dataset) if suspicious else Missing()
    if not missing.by_size:
        return rows, ""
    lacks = _lacking(driver, missing)
    if driver.lost or missing.rows == rows or missing.rows > len(missing.suspects):
        raise IncompleteError(lacks)
    return rows - missing.rows, lacks


def _lacking(driver: Driver, missing: Missing) -> str:
    spec = driver.dataset.spec
    entries = driver.dataset.quarantine.within(spec)
    reasons = []
    if entries:
        reasons.append(f"quarantined {len(entries):,} (first: {shorten(str(entries[0]), _MOST_CHARACTERS)})")
    if driver.lost:
        reasons.append(f"given up {len(driver.lost):,} units (first: {driver.lost[0]})")
    other = f", a dataset of another name with label.solver={_FALLBACK_SOLVER} may have all"
    return (
        f"dataset {spec.dataset!r} lacks {missing.rows:,} of {spec.rows:,} labels: {'; '.join(reasons)}; the "
        f"same command retries what is missing{other if entries and spec.solver != _FALLBACK_SOLVER else ''}"
    )
