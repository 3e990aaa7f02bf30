"""Where everything lies in the store: every path of the project is made here."""

from __future__ import annotations

import re
import secrets

from mcvrp.model.errors import McvrpError

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")  # with the endings that it gets, a name on any disk
NAME_PATTERN = rf"^{_NAME.pattern}$"
_SIZE = re.compile(r"n=(\d{3,})")
_SHARD = re.compile(r"part-(\d{5,})\.parquet")
_STAGED = re.compile(r"rows-(\d{8,})-(\d{8,})\.parquet")


def checked_name(kind: str, name: str) -> str:
    """Return ``name`` if it can be a folder's name in any store.

    Raises
    ------
    McvrpError
        If it is empty, begins with a sign, holds more than letters, digits, ".", "_", "-", or is longer than
        100 of them.
    """
    if not _NAME.fullmatch(name):
        shown = repr(name) if len(name) <= 110 else f"{name[:40]!r}... ({len(name)} characters)"
        raise McvrpError(
            f"{shown} is no name for a {kind}: use letters, digits, '.', '_' and '-', 100 of them at most"
        )
    return name


# Cities


def city_path(name: str) -> str:
    """Coordinates of the city ``name``."""
    return f"cities/{checked_name('city', name)}/city.parquet"


def city_card(name: str) -> str:
    """What else makes the city ``name``: frame, unit, hash. Written last."""
    return f"cities/{checked_name('city', name)}/city.json"


def city_matrix(name: str) -> str:
    """Travel costs of the city ``name``, where it has a matrix."""
    return f"cities/{checked_name('city', name)}/matrix.parquet"


def city_dir(name: str) -> str:
    """Everything of the city ``name``."""
    return f"cities/{checked_name('city', name)}"


def city_readme(name: str) -> str:
    """The city's description for people."""
    return f"{city_dir(name)}/README.md"


def city_map(name: str) -> str:
    """The picture of its addresses."""
    return f"{city_dir(name)}/map.png"


# Labels


def label_dir(dataset: str) -> str:
    """Everything of one dataset."""
    return f"labels/{checked_name('dataset', dataset)}"


def size_dir(dataset: str, n: int) -> str:
    """The shards of instances with ``n`` customers."""
    return f"{label_dir(dataset)}/n={n:03d}"


def label_shard(dataset: str, n: int, k: int) -> str:
    """Shard ``k`` of size ``n``."""
    return f"{size_dir(dataset, n)}/part-{k:05d}.parquet"


def size_of(folder: str) -> int | None:
    """Return n of the folder ``folder``, or None when its name is no size's."""
    match = _SIZE.fullmatch(folder.rsplit("/", 1)[-1])
    return int(match[1]) if match else None


def shard_number(path: str) -> int | None:
    """Return k of the shard at ``path``, or None when its name is no shard's."""
    match = _SHARD.fullmatch(path.rsplit("/", 1)[-1])
    return int(match[1]) if match else None


def staging_dir(dataset: str) -> str:
    """Chunks of labels on their way into shards."""
    return f"{label_dir(dataset)}/_staging"


def staged_dir(dataset: str, n: int) -> str:
    """The chunks of size ``n``."""
    return f"{staging_dir(dataset)}/n={n:03d}"


def staged_chunk(dataset: str, n: int, start: int, stop: int) -> str:
    """The chunk with rows ``start`` to ``stop`` (excluded) of size ``n``."""
    return f"{staged_dir(dataset, n)}/rows-{start:08d}-{stop:08d}.parquet"


def staged_rows(path: str) -> tuple[int, int] | None:
    """Return the rows in the name of the chunk at ``path``, or None when its name is no chunk's."""
    match = _STAGED.fullmatch(path.rsplit("/", 1)[-1])
    return (int(match[1]), int(match[2])) if match else None


def label_spec(dataset: str) -> str:
    """What the dataset was asked to be."""
    return f"{label_dir(dataset)}/spec.json"


def manifest(dataset: str) -> str:
    """What the dataset is, in figures: derived from its shards."""
    return f"{label_dir(dataset)}/manifest.json"


def shard_list(dataset: str) -> str:
    """The dataset's shards with their checksums, a row a shard: derived from them."""
    return f"{label_dir(dataset)}/shards.parquet"


def driver_lease(dataset: str) -> str:
    """Who is labelling the dataset just now."""
    return f"{label_dir(dataset)}/lease.json"


def quarantine(dataset: str) -> str:
    """The instances that no solver has solved so far, each with its reason."""
    return f"{label_dir(dataset)}/quarantine.json"


def verification(dataset: str) -> str:
    """What the last verification found wrong."""
    return f"{label_dir(dataset)}/verification.json"


def corrupt_dir(dataset: str) -> str:
    """Shards and chunks that were taken out."""
    return f"{label_dir(dataset)}/_corrupt"


def corrupt(dataset: str, path: str) -> str:
    """Where the shard or chunk at ``path`` goes when it is taken out: another place each time."""
    folder, name = path.rsplit("/", 2)[-2:]
    return f"{corrupt_dir(dataset)}/{folder}/{name}.{secrets.token_hex(4)}"


def card(dataset: str) -> str:
    """The dataset's description for people."""
    return f"{label_dir(dataset)}/README.md"


def label_statistics(dataset: str) -> str:
    """The dataset's statistics, a row a size."""
    return f"{label_dir(dataset)}/statistics.parquet"


# Training, models, benchmarks


def run_dir(run: str) -> str:
    """Everything of one training run."""
    return f"training/{checked_name('run', run)}"


def checkpoint_dir(run: str, phase: str, step: int) -> str:
    """The checkpoint after ``step`` steps of ``phase``."""
    return f"{run_dir(run)}/{checked_name('phase', phase)}/step-{step:08d}"


def phase_dir(run: str, phase: str) -> str:
    """Everything of one phase of a training run."""
    return f"{run_dir(run)}/{checked_name('phase', phase)}"


def phase_metrics(run: str, phase: str) -> str:
    """Losses of ``phase``, a row a logged step."""
    return f"{phase_dir(run, phase)}/metrics.parquet"


def phase_events(run: str, phase: str, step: int) -> str:
    """TensorBoard's events of ``phase`` from ``step`` to the checkpoint after it."""
    return f"{phase_dir(run, phase)}/events.out.tfevents.{step:08d}"


def run_card(run: str) -> str:
    """The run's description for people."""
    return f"{run_dir(run)}/README.md"


def run_spec(run: str) -> str:
    """What the run was asked to do."""
    return f"{run_dir(run)}/spec.json"


def run_figures(run: str) -> str:
    """Where each phase of the run stands, and its last metrics."""
    return f"{run_dir(run)}/metrics.json"


def run_losses(run: str) -> str:
    """The picture of a run's losses, a row of panels a phase."""
    return f"{run_dir(run)}/losses.png"


def trainer_lease(run: str) -> str:
    """Who is training the run just now."""
    return f"{run_dir(run)}/lease.json"


def models_removed(run: str) -> str:
    """The mark of a run of which a model was removed."""
    return f"{run_dir(run)}/models_removed.json"


def models_dir(name: str) -> str:
    """All versions of the model ``name``."""
    return f"models/{checked_name('model', name)}"


def model_dir(name: str, version: int) -> str:
    """One version of the model ``name``, counted from 1."""
    return f"{models_dir(name)}/{version:04d}"


def model_card(name: str, version: int) -> str:
    """What one version of the model ``name`` is and where it comes from: written last."""
    return f"{model_dir(name, version)}/model.json"


def model_config(name: str, version: int) -> str:
    """What is needed to load one version of the model ``name``: written first, it takes the number."""
    return f"{model_dir(name, version)}/config.json"


def model_losses(name: str, version: int) -> str:
    """The picture of how one version of the model ``name`` was trained: it outlives the run."""
    return f"{model_dir(name, version)}/losses.png"


def model_removal(name: str, version: int) -> str:
    """The mark of a version of the model ``name`` that is being removed: no alias may point there."""
    return f"{model_dir(name, version)}/removal.json"


def model_alias(name: str, alias: str) -> str:
    """Which version of the model ``name`` the alias stands for."""
    return f"{models_dir(name)}/{checked_name('alias', alias)}.json"


def attention_dir(name: str) -> str:
    """The attention models ``name``, one a size."""
    return f"attention/{checked_name('model', name)}"


def attention_size_dir(name: str, n: int) -> str:
    """The attention model ``name`` for ``n`` customers."""
    return f"{attention_dir(name)}/n={n:03d}"


def attention_overview(name: str) -> str:
    """The description of the attention models ``name`` for people, all sizes together."""
    return f"{attention_dir(name)}/README.md"


def attention_costs(name: str, n: int) -> str:
    """The picture of what the attention model ``name`` for ``n`` customers learned, epoch by epoch."""
    return f"{attention_size_dir(name, n)}/costs.png"


def attention_card(name: str, n: int) -> str:
    """What the attention model ``name`` for ``n`` customers is: written last, means trained to the end."""
    return f"{attention_size_dir(name, n)}/model.json"


def attention_training(name: str, n: int) -> str:
    """Where the training of the attention model ``name`` for ``n`` customers stands."""
    return f"{attention_size_dir(name, n)}/training.safetensors"


def attention_lease(name: str) -> str:
    """Who is training the attention models ``name`` just now."""
    return f"{attention_dir(name)}/lease.json"


def benchmark_dir(run: str) -> str:
    """Everything of one benchmark run."""
    return f"benchmarks/{checked_name('benchmark', run)}"


def benchmark_card(run: str) -> str:
    """The benchmark's description for people."""
    return f"{benchmark_dir(run)}/README.md"


# What people bring and take away


def solution_dir(name: str) -> str:
    """The routes of one day, or of one file of orders."""
    return f"solutions/{checked_name('solution', name)}"


# Driven routes


def driven_dir(city: str) -> str:
    """Everything that was driven in the city ``city``."""
    return f"driven/{checked_name('city', city)}"


def driven_card(city: str) -> str:
    """The description for people of what was driven in the city ``city``."""
    return f"{driven_dir(city)}/README.md"


def driven_days_dir(city: str) -> str:
    """The days that were driven in the city ``city``, a file each."""
    return f"{driven_dir(city)}/days"


def driven_day(city: str, date: str) -> str:
    """The orders and routes of one day, written 2026-01-31: a file of one label."""
    return f"{driven_days_dir(city)}/{date}.parquet"


def driven_receipt(city: str, file: str) -> str:
    """What became of the route file whose checksum begins with ``file``; written last."""
    return f"{driven_dir(city)}/files/{file}.json"


def quarantine_dir(city: str) -> str:
    """Rows of driven routes that no day took, each with its reason."""
    return f"{driven_dir(city)}/quarantine"


def driven_quarantine(city: str, file: str) -> str:
    """Those of one route file."""
    return f"{quarantine_dir(city)}/{file}.csv"


# Trials of a new champion: nights, and rounds of improving

NIGHT, ROUND = "night-", "improve-"  # begin the names of trials, of their datasets and training runs


def nights_dir(model: str) -> str:
    """What became of each night's retraining of ``model``."""
    return f"nights/{checked_name('model', model)}"


def rounds_dir(model: str) -> str:
    """What became of each round of improving ``model``."""
    return f"rounds/{checked_name('model', model)}"


def trial_dir(model: str, name: str) -> str:
    """Everything of one night or round: what it decided, and what it measured."""
    folder = rounds_dir(model) if name.startswith(ROUND) else nights_dir(model)
    return f"{folder}/{checked_name('trial', name)}"


def trial_record(model: str, name: str) -> str:
    """What one night or round decided: written last, means done."""
    return f"{trial_dir(model, name)}/{'round' if name.startswith(ROUND) else 'night'}.json"


def trial_pairs(model: str, name: str) -> str:
    """The costs that one night or round compared."""
    return f"{trial_dir(model, name)}/comparison.parquet"


def trial_spec(model: str, name: str) -> str:
    """What one night or round was asked for."""
    return f"{trial_dir(model, name)}/spec.json"


def trial_metrics(model: str, name: str) -> str:
    """What one night or round has measured."""
    return f"{trial_dir(model, name)}/metrics.json"


def trial_picture(model: str, name: str) -> str:
    """How costs change from champion to challenger, as a picture."""
    return f"{trial_dir(model, name)}/comparison.png"


def trial_readme(model: str, name: str) -> str:
    """The description of one night or round for people."""
    return f"{trial_dir(model, name)}/README.md"


def improved_dir(model: str, name: str) -> str:
    """The labels that the model has beaten in one round."""
    return f"{trial_dir(model, name)}/improved"


def improved_chunk(model: str, name: str, n: int, start: int, stop: int) -> str:
    """Those among rows ``start`` to ``stop`` (excluded) of size ``n`` that the round has looked at."""
    return f"{improved_dir(model, name)}/n={n:03d}/rows-{start:08d}-{stop:08d}.parquet"


def retraining_lease(model: str) -> str:
    """Who retrains ``model`` just now, by night or in rounds."""
    return f"{nights_dir(model)}/lease.json"
