"""The stage that labels: every instance of a dataset that has no label yet is solved, on all cores.

Each unit of work publishes whole shards, or stages a file of rows; when a shard's rows are all
staged they are merged and published as one. Run again, it does what is missing.
"""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass
from textwrap import shorten

from mcvrp.model.errors import IncompleteError, McvrpError, shown
from mcvrp.model.problem import City
from mcvrp.storage import layout
from mcvrp.storage.labels.dataset import Dataset
from mcvrp.storage.labels.manifest import rebuild_manifest
from mcvrp.storage.store.lease import holding
from mcvrp.storage.store.retry import StoreRetry
from mcvrp.storage.store.store import Store
from mcvrp.tasks.label.attempt import make_solver
from mcvrp.tasks.label.card import write_card
from mcvrp.tasks.label.driver import Driver
from mcvrp.tasks.label.plan import Missing, count_missing, sweep
from mcvrp.tasks.label.quarantine import Quarantine
from mcvrp.tasks.label.repair import repair_dataset, repair_sources, spec_corrupt, still_corrupt
from mcvrp.tasks.label.spec import LabelSpec, Source, seconds_an_instance
from mcvrp.tasks.support.progress import Progress
from mcvrp.tasks.support.ray_session import ClusterLost, ray_session

logger = logging.getLogger(__name__)

_REJOIN_SECONDS = 300.0  # for a cluster's head to be started again
_REPAIRS = 3  # of a run: a disk that makes file after file corrupt needs people

__all__ = ["LabelSpec", "LabelSummary", "label_missing", "labels_missing", "seconds_an_instance"]

_OTHER = "pyvrp"  # solves what the others leave unsolved
_MOST_CHARACTERS = 80  # of the first reason


@dataclass(frozen=True)
class LabelSummary:
    """Result of a run of the stage.

    Parameters
    ----------
    rows
        Labels that are there of those that the spec asks for.
    new
        Labels made by this run.
    seconds
        Wall-clock time.
    solving
        Seconds that the solvers of all workers took together.
    workers
        Instances solved at a time.
    retried, failures
        Units of work that were done again, and how many of them because their worker was lost.
    quarantined
        Instances of the dataset, asked for by this spec or not, that no solver has solved so far.
    lacks
        Which labels are missing because no solver has solved their instances, in a sentence; "" where all
        are there.
    held_out
        The labels that training is watched by, where they are asked for.
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
    """Make every label of ``spec`` that ``store`` lacks; those of quarantined instances are left out.

    Raises
    ------
    McvrpError
        If the spec contradicts the dataset of that name or asks more than the city has, a file is
        where a shard should be and is of another dataset, or somebody else is labelling it; nothing
        has been changed then.
    IncompleteError
        If labels have not been tried in the end, or there are none; says how many and why, all others are
        stored.
    """
    began = time.monotonic()
    source = Source(spec, city)
    _check(store, source)
    store = store.outlasting()
    path = layout.driver_lease(spec.dataset)
    with holding(store, path, f"dataset {spec.dataset!r} is being labelled") as lease:
        _check_spec(store, city, spec)  # somebody may have begun it just before us
        dataset = Dataset.open(store, spec.dataset)
        repaired = repair_dataset(dataset, source)
        quarantine = Quarantine.load(store, spec.dataset)
        missing = count_missing(dataset, source, quarantine)
        quarantine.drop_solved(spec, missing.suspects)
        driver = Driver(dataset, source, quarantine, StoreRetry(store), lease)
        if missing.by_size:
            _drive_on_ray(driver, missing)
        else:
            _finish(driver, changed=repaired > 0)
        lacks, rows = "", spec.rows
        if driver.lost or quarantine.within(spec):
            dataset = Dataset.open(store, spec.dataset)
            missing = count_missing(dataset, source, quarantine)
            if missing.by_size:
                lacks, rows = _lacking(driver, missing), spec.rows - missing.rows
                if driver.lost or not rows or missing.rows > len(missing.suspects):
                    raise IncompleteError(lacks)
    return LabelSummary(
        dataset=spec.dataset,
        rows=rows,
        new=driver.labelled,
        seconds=time.monotonic() - began,
        solving=driver.solving,
        workers=driver.workers,
        retried=driver.retried,
        failures=driver.failures,
        quarantined=len(quarantine.entries),
        lacks=lacks,
    )


def labels_missing(store: Store, city: City, spec: LabelSpec) -> int:
    """Return how many labels of ``spec`` are missing; McvrpError as in `label_missing`.

    Corrupt files count as missing, and so do labels that are not in their shard yet; where `mcvrp
    verify` has found a file corrupt nobody knows before it is repaired, and all labels count.
    """
    source = Source(spec, city)
    _check(store, source)
    if any(still_corrupt(store, spec.dataset)):
        return spec.rows
    return count_missing(Dataset.open(store, spec.dataset), source).rows


def _drive_on_ray(driver: Driver, missing: Missing) -> None:
    """Let ``driver`` do what is missing on Ray; where a cluster is lost and comes back, the rest there."""
    spec, matrix = driver.source.spec, driver.source.city.matrix
    patience, made = 0.0, -1
    while missing.by_size:
        try:
            shared = 0 if matrix is None else matrix.nbytes
            with ray_session(spec.workers, shared_bytes=shared, patience=patience) as workers:
                _drive(driver, missing, workers)
            return
        except ClusterLost as error:
            if driver.labelled == made:
                raise  # twice, and nothing between
            logger.warning("%s; trying for %.0f s to join it again", error, _REJOIN_SECONDS)
            patience, made = _REJOIN_SECONDS, driver.labelled
        driver.dataset = Dataset.open(driver.dataset.store, spec.dataset)
        missing = count_missing(driver.dataset, driver.source, driver.quarantine)
    _finish(driver, changed=True)


def _drive(driver: Driver, missing: Missing, workers: int) -> None:
    """Let ``driver`` do what is missing; what it has done counts if it has to stop."""
    spec, store, source = driver.source.spec, driver.dataset.store, driver.source
    _write_spec(store, source)
    try:
        for _ in range(1 + _REPAIRS):
            there = spec.rows - missing.rows
            with Progress(f"labels {spec.dataset}", spec.rows, "labels", done=there) as progress:
                driver.run(missing, workers, progress)
            if not repair_sources(store, source, driver.unmerged):
                break
            missing = count_missing(driver.dataset, source, driver.quarantine)
        _finish(driver, changed=True)
    except (IncompleteError, ClusterLost):
        raise
    except McvrpError as error:
        if not driver.labelled:
            raise
        made = f"{driver.labelled:,} labels were made before, the same command goes on from there"
        raise IncompleteError(f"{error} ({made})") from error


def _finish(driver: Driver, *, changed: bool) -> None:
    """Put in order what lies beside the shards: all of it is derived, so that a kill here costs nothing."""
    store, source, spec = driver.dataset.store, driver.source, driver.source.spec
    _write_spec(store, source)
    driver.quarantine.save()
    sweep(store, source)
    rebuild_manifest(store, spec.dataset, driver.dataset)
    derived = layout.card(spec.dataset), layout.label_statistics(spec.dataset)
    if changed or not all(map(store.exists, derived)):
        write_card(store, source.city, spec.dataset, spec.workers)


def _lacking(driver: Driver, missing: Missing) -> str:
    spec, entries = driver.source.spec, driver.quarantine.within(driver.source.spec)
    reasons = []
    if entries:
        reasons.append(f"quarantined {len(entries):,} (first: {shorten(str(entries[0]), _MOST_CHARACTERS)})")
    if driver.lost:
        reasons.append(f"given up {len(driver.lost):,} units (first: {driver.lost[0]})")
    other = f", a dataset of another name with label.solver={_OTHER} may have all"
    return (
        f"dataset {spec.dataset!r} lacks {missing.rows:,} of {spec.rows:,} labels: {'; '.join(reasons)}; "
        f"the same command tries again what is missing{other if entries and spec.solver != _OTHER else ''}"
    )


def _check(store: Store, source: Source) -> None:
    spec, city, recipe = source.spec, source.city, source.recipe
    if spec.largest > city.customers:
        raise McvrpError(
            f"largest = {spec.largest}: the city has {city.customers} customers, ask for no more of them"
        )
    for n in spec.sizes:
        recipe.rules.capacity_range(n)
    recipe.solver.require_costs(city)
    make_solver(recipe, spec.smallest)
    _check_spec(store, city, spec)


def _check_spec(store: Store, city: City, spec: LabelSpec) -> None:
    path = layout.label_spec(spec.dataset)
    if store.exists(path) and not spec_corrupt(store, spec.dataset):
        there = store.get_json(path)
        asked = spec.identity(city)
        if there.get("city_id") in city.ancestors:
            raise McvrpError(
                f"dataset {spec.dataset!r} has orders of city {there['city_id']}, which city {city.city_id} "
                "extends: it holds and can be trained on; give the one of the new city another name"
            )
        differing = [key for key in asked if there.get(key) != asked[key]]
        if differing:
            details = "; ".join(
                f"{key} is {shown(there.get(key))}, asked {shown(asked[key])}" for key in differing
            )
            raise McvrpError(
                f"dataset {spec.dataset!r} was made otherwise ({details}): ask for the same, or another name"
            )


def _write_spec(store: Store, source: Source) -> None:
    """Keep the spec of all that has ever been asked for: a smaller run takes nothing out of a dataset."""
    spec, path = source.spec, layout.label_spec(source.spec.dataset)
    there = store.get_json(path) if store.exists(path) else {}
    document = {
        **spec.identity(source.city),
        "smallest": min(spec.smallest, there.get("smallest", spec.smallest)),
        "largest": max(spec.largest, there.get("largest", spec.largest)),
        "count": max(spec.count, there.get("count", spec.count)),
    }
    if there != document:
        store.put_json(path, document)
