"""Candidates for garbage collection, per area of the store; nothing is removed here.

Never candidates: versions that an alias points to or a rollback would restore, checkpoints from which a run
would resume, files younger than the grace period. Unreadable artifacts are skipped.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby

from mcvrp.model.errors import McvrpError
from mcvrp.storage import layout
from mcvrp.storage.benchmarks import result_settings
from mcvrp.storage.labels.dataset import Dataset
from mcvrp.storage.labels.label_files import LabelFile
from mcvrp.storage.models.attention import attention_card
from mcvrp.storage.models.models import ModelCard, model_card, versions
from mcvrp.storage.models.registry import pointer
from mcvrp.storage.store.errors import LeaseLost
from mcvrp.storage.store.lease import active_holder
from mcvrp.storage.store.store import Store, StoredFile, StoreError
from mcvrp.storage.training.checkpoints import STATE, CheckpointState, best_checkpoint, checkpoints
from mcvrp.storage.trials import trial_records
from mcvrp.tasks.gc.spec import RetentionSpec

_DAY, _HOUR = 86_400.0, 3600.0
_CHECKPOINT = re.compile(r"training/[^/]+/[^/]+/step-\d+")


@dataclass(frozen=True)
class Candidate:
    """An unreferenced file or folder, its size, and the reason for its removal."""

    kind: str
    path: str
    files: int
    bytes: int
    why: str

    @classmethod
    def of(cls, kind: str, path: str, files: Sequence[StoredFile], why: str) -> Candidate:
        """Return the candidate at ``path`` with ``files``."""
        return cls(kind, path, len(files), sum(file.size for file in files), why)


@dataclass(frozen=True)
class Skipped:
    """A folder that was not examined, and the reason."""

    path: str
    why: str


Found = Iterator[Candidate | Skipped]


def or_skipped(path: str, found: Found) -> Found:
    """Yield from ``found``; if an artifact at ``path`` cannot be read, a `Skipped` in place of the rest."""
    try:
        yield from found
    except McvrpError as error:
        if isinstance(error, StoreError) and not isinstance(error, LeaseLost):
            raise
        yield Skipped(path, str(error))


@dataclass(frozen=True)
class StoreView:
    """A store at the time ``now`` (its own clock, seconds since 1970), with a policy."""

    store: Store
    policy: RetentionSpec
    now: float

    def old(self, files: Sequence[StoredFile], seconds: float = 0.0) -> bool:
        """Return whether all ``files`` are older than the grace period and than ``seconds``."""
        limit = max(seconds, self.policy.grace_hours * _HOUR)
        return bool(files) and self.now - max(file.modified for file in files) > limit

    def aged(self, files: Sequence[StoredFile]) -> bool:
        """Return whether all ``files`` are older than ``keep_days``."""
        return self.old(files, self.policy.keep_days * _DAY)

    @cached_property
    def _cards(self) -> Sequence[tuple[ModelCard, bool]]:
        """All versions of models, and whether each is kept."""
        kept: list[tuple[ModelCard, bool]] = []
        for name in self.store.folders("models"):
            items = or_skipped(layout.models_dir(name), in_models(self, name))
            removed = {item.path for item in items if isinstance(item, Candidate)}
            cards = (model_card(self.store, name, version) for version in versions(self.store, name))
            kept += ((card, card.folder not in removed) for card in cards)
        return kept

    @cached_property
    def needed_names(self) -> frozenset[str]:
        """Runs and datasets of kept models, latest nights and rounds, and their datasets of old labels."""
        names = {name for card, kept in self._cards if kept for name in (card.run, card.dataset)}
        for folder, kind in (("nights", layout.NIGHT), ("rounds", layout.ROUND)):
            for model in self.store.folders(folder):
                if records := trial_records(self.store, model, kind, days=False):
                    # the numbers of rounds begin again with each loop, and a copied store has other times
                    last = max(records, key=lambda record: (record.challenger, record.number))
                    names |= {last.name, last.old}
        return frozenset(names)

    def models_are_gone(self, run: str) -> bool:
        """Return whether ``run`` has published models, none of which is kept."""
        cards = [(card, kept) for card, kept in self._cards if card.run == run]
        if any(kept for _, kept in cards):
            return False
        return self.store.exists(layout.models_removed(run)) or any(
            was_trained_here(self.store, card) for card, _ in cards
        )


def was_trained_here(store: Store, card: ModelCard) -> bool:
    """Return whether the run of ``card`` has its weights; that of an imported model is in another store."""
    states = (checkpoints(store, card.run, phase) for phase in store.folders(layout.run_dir(card.run)))
    return any(state.weights_sha256 == card.weights_sha256 for phase in states for state in phase)


def _by_folder(files: Iterable[StoredFile], depth: int) -> Iterator[tuple[str, list[StoredFile]]]:
    """Yield each folder (or file) at ``depth`` with its files."""
    for path, group in groupby(files, lambda file: "/".join(file.path.split("/")[:depth])):
        yield path, list(group)


def needless_trial(view: StoreView, folder: str, name: str) -> Candidate | Skipped | None:
    """Return ``name`` of the area ``folder`` if it is the dataset or run of an obsolete trial, else None.

    They are kept as long as a version of a model that was made from them, and those of each model's latest
    trial until the next one. Records of decisions are kept indefinitely.
    """
    if not layout.TRIAL_NAME.fullmatch(name):
        return None
    path = f"{folder}/{name}"
    ours = (f"{path}/{layout.LEASE}", layout.models_removed(name))
    files = [file for file in view.store.files(path) if file.path not in ours]
    if not view.aged(files) or name in view.needed_names:
        return None
    why = f"older than {view.policy.keep_days:g} days, and no model that is kept was made from it"
    for records in layout.TRIAL_RECORDS:
        for model in view.store.folders(records):
            if holder := active_holder(view.store, f"{records}/{model}/{layout.LEASE}", view.now):
                # its night may resume this one
                return Skipped(path, f"model {model!r} is being retrained by {holder}")
    return Candidate.of(f"{folder} of a night or round", path, files, why)


def in_training(view: StoreView, run: str) -> Found:
    """Yield checkpoints of ``run`` from which neither training nor a later phase would start."""
    store, folder = view.store, layout.run_dir(run)
    ours = (layout.trainer_lease(run), layout.models_removed(run))
    stored = [file for file in store.files(folder) if file.path not in ours]
    phases = [checkpoints(store, run, phase) for phase in store.folders(folder)]
    complete = all(states and states[-1].complete for states in phases)
    obsolete = complete and view.aged(stored) and view.models_are_gone(run)
    why = "the models of this run are removed" if obsolete else "the phase has newer checkpoints"
    known = {state.folder for states in phases for state in states}
    kept = set() if obsolete else {state.folder for states in phases for state in _kept(view, states)}
    for path, files in _by_folder(stored, 4):
        if not _CHECKPOINT.fullmatch(path) or path in kept or not view.old(files):
            continue
        if path in known:
            yield Candidate.of("checkpoint", path, files, why)
        elif any(file.path == f"{path}/{STATE}" for file in files):
            yield Skipped(path, "this version of mcvrp cannot read it")
        else:
            yield Candidate.of("half-written checkpoint", path, files, "its writer was killed")


def _kept(view: StoreView, states: Sequence[CheckpointState]) -> list[CheckpointState]:
    if not states:
        return []
    # the next phase starts from the last checkpoint of a complete one
    last = 1 if states[-1].complete else view.policy.keep_checkpoints
    return [*states[-last:], *best_checkpoint(states)]


def in_models(view: StoreView, name: str) -> Found:
    """Yield versions of the model ``name`` that are neither recent nor referenced by an alias."""
    named, known = aliased(view.store, name), versions(view.store, name)
    newest = known[-view.policy.keep_models :]
    folders = dict(_by_folder(view.store.files(layout.models_dir(name)), 3))
    taken = sorted(number for path in folders if (number := layout.version_of(path)) is not None)
    for version in taken[:-1]:  # the last one, if incomplete, is completed by the next publisher
        path = layout.model_dir(name, version)
        inside = folders.get(path, [])
        files = [file for file in inside if file.path != layout.model_removal(name, version)]
        marked = len(files) < len(inside)  # its removal has begun, and is completed
        if version in named or (version in newest and not marked) or (files and not view.old(files)):
            continue
        if version in known:
            why = f"no alias points to it, {len(newest)} newer versions are kept"
            yield Candidate.of("model", path, files, why)
        else:
            yield Candidate.of("half-written model", path, inside, "its writer was killed")


def aliased(store: Store, name: str) -> set[int]:
    """Return versions that an alias points to or a rollback would restore; McvrpError if one is corrupt."""
    referenced: set[int] = set()
    folder = layout.models_dir(name)
    for path in store.list(folder):
        file = path.removeprefix(f"{folder}/")
        if "/" not in file and file.endswith(".json"):
            alias = pointer(store, name, file.removesuffix(".json"))
            if alias.version is not None:
                referenced.add(alias.version)
            if file == "champion.json":  # the only alias with a rollback
                earlier = (v for v in alias.before if store.exists(layout.model_card(name, v)))
                referenced |= set(list(earlier)[:1])
    return referenced


def in_labels(view: StoreView, dataset: str) -> Found:
    """Yield staged chunks of ``dataset`` whose rows are in shards, and old corrupt files."""
    for file in view.store.files(layout.corrupt_dir(dataset)):
        if view.aged([file]):
            why = f"corrupt, taken out of the dataset more than {view.policy.keep_days:g} days ago"
            yield Candidate.of("corrupt labels", file.path, [file], why)
    staged = [file for file in view.store.files(layout.staging_dir(dataset)) if layout.staged_rows(file.path)]
    for folder, files in _by_folder(staged, 4):
        n, old = layout.size_of(folder), [file for file in files if view.old([file])]
        if n is not None and old:
            yield from or_skipped(layout.staged_dir(dataset, n), _merged(view, dataset, n, old))


def _merged(view: StoreView, dataset: str, n: int, staged: Sequence[StoredFile]) -> Found:
    """Yield the ``staged`` chunks of size ``n`` of which every label is in a shard, too."""
    labels = Dataset.open(view.store, dataset, trust=False)  # reads the shards themselves
    merged: set[int] = set()
    for shard in labels.shards(n, skip_corrupt=True):
        merged |= _rows(shard)
    files = {file.path: file for file in staged}
    for chunk in labels.label_files(n, staged, skip_corrupt=True):
        if _rows(chunk) <= merged:
            yield Candidate.of("staged labels", chunk.path, [files[chunk.path]], "its rows are in a shard")


def _rows(file: LabelFile) -> set[int]:
    return set(range(file.footer.row_start, file.footer.row_stop)) - set(file.footer.absent)


def in_attention(view: StoreView, name: str) -> Found:
    """Yield states of completed trainings of the attention models ``name``, and incomplete models."""
    for path, files in _by_folder(view.store.files(layout.attention_dir(name)), 3):
        if (n := layout.size_of(path)) is not None:
            state = [file for file in files if file.path == layout.attention_training(name, n)]
            finished = attention_card(view.store, name, n) is not None
            if finished and view.old(state):
                yield Candidate.of("ended training", state[0].path, state, "its model is finished")
            elif not finished and not state and view.old(files):
                yield Candidate.of("half-written attention model", path, files, "its writer was killed")


def in_benchmarks(view: StoreView, run: str) -> Found:
    """Yield old parts of ``run`` with other settings than its results, and an old run without results."""
    store, folder = view.store, layout.benchmark_dir(run)
    stored = store.files(folder)
    if not view.old(stored):  # it may be running, on parts of before
        return
    results = [file for file in stored if file.path == layout.benchmark_results(run)]
    if not results:
        if view.aged(stored):
            yield Candidate.of("benchmark without results", folder, stored, "it was not resumed")
        return
    used = tuple(f"{folder}/parts/{prefix}" for prefix in result_settings(store, run))
    for block, files in _by_folder((f for f in stored if f.path.startswith(f"{folder}/parts/")), 4):
        if not block.startswith(used) and view.aged(files):  # younger ones: of a run without results yet
            why = "made with other settings than the results"
            yield Candidate.of("benchmark parts", block, files, why)


def in_solutions(view: StoreView, name: str) -> Found:
    """Yield the solution ``name`` if all its files are older than ``solution_days``."""
    folder, days = layout.solution_dir(name), view.policy.solution_days
    files = view.store.files(folder)
    if days is not None and view.old(files, days * _DAY):
        yield Candidate.of("solution", folder, files, f"older than {days:g} days")


def scraps(view: StoreView) -> Iterator[Candidate]:
    """Yield temporary files of killed writers, anywhere in the store."""
    for file in view.store.files("", hidden=True):
        name = file.path.rsplit("/", 1)[-1]
        if name.startswith(".") and name.endswith(".tmp") and view.old([file]):
            yield Candidate.of("half-written file", file.path, [file], "its writer was killed")
