"""Layout of the store: all its paths are constructed here, and documented in docs/store.md."""

from __future__ import annotations

import re
from functools import partial
from string import Formatter
from typing import Generic, TypeVarTuple

from mcvrp.model.errors import McvrpError

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")  # with the suffixes added here, valid on any disk
NAME_PATTERN = rf"^{_NAME.pattern}$"

Values = TypeVarTuple("Values")


def checked_name(kind: str, name: str) -> str:
    """Return ``name`` if it is valid as the name of a folder in any store.

    Raises McvrpError if it does not begin with a letter or digit, contains anything except letters, digits,
    ".", "_" and "-", or has more than 100 characters.
    """
    if not _NAME.fullmatch(name):
        shown = repr(name) if len(name) <= 110 else f"{name[:40]!r}... ({len(name)} characters)"
        raise McvrpError(
            f"{shown} is not a valid name for a {kind}: use up to 100 letters, digits, '.', '_' and '-'"
        )
    return name


class Path(Generic[*Values]):
    """Template of a path in the store; a call fills in its fields in order.

    A string for a field such as ``{dataset}`` must pass `checked_name` as the name of a dataset.
    """

    def __init__(self, template: str) -> None:
        self.template = template
        self.fields = [field for _, field, _, _ in Formatter().parse(template) if field]

    def __call__(self, *values: *Values) -> str:
        named = dict(zip(self.fields, tuple[object, ...](values), strict=True))
        for field, value in named.items():
            if isinstance(value, str):
                checked_name(field, value)
        return self.template.format_map(named)


INCOMING = "incoming"  # default folder of files of driven routes
LEASE = ".lease"  # name of the folders of all leases

# Cities
city_dir = Path[str]("cities/{city}")
city_card = Path[str]("cities/{city}/city.json")  # written last
city_path = Path[str]("cities/{city}/city.parquet")
city_matrix = Path[str]("cities/{city}/matrix.parquet")
city_readme = Path[str]("cities/{city}/README.md")
city_map = Path[str]("cities/{city}/map.png")

# Labels
label_dir = Path[str]("labels/{dataset}")
data_dir = Path[str]("labels/{dataset}/data")  # only labels: any Parquet reader can read the folder
size_dir = Path[str, int]("labels/{dataset}/data/n={n:03d}")
label_file = Path[str, int, int, int](  # stop excluded
    "labels/{dataset}/data/n={n:03d}/rows-{start:08d}-{stop:08d}.parquet"
)
label_spec = Path[str]("labels/{dataset}/spec.json")
manifest = Path[str]("labels/{dataset}/manifest.json")  # derived from the footers of the files
driver_lease = Path[str]("labels/{dataset}/.lease")
card = Path[str]("labels/{dataset}/README.md")

# Training runs
run_dir = Path[str]("training/{run}")
phase_dir = Path[str, str]("training/{run}/{phase}")
checkpoint_dir = Path[str, str, int]("training/{run}/{phase}/step-{step:08d}")
phase_metrics = Path[str, str]("training/{run}/{phase}/metrics.parquet")
run_card = Path[str]("training/{run}/README.md")
run_spec = Path[str]("training/{run}/spec.json")
run_losses = Path[str]("training/{run}/losses.png")
trainer_lease = Path[str]("training/{run}/.lease")

# Models: versions start at 1
models_dir = Path[str]("models/{model}")
model_dir = Path[str, int]("models/{model}/{version:04d}")
model_card = Path[str, int]("models/{model}/{version:04d}/model.json")  # written last
model_config = Path[str, int]("models/{model}/{version:04d}/config.json")  # first: reserves the version
model_losses = Path[str, int]("models/{model}/{version:04d}/losses.png")  # outlives the run
champion_dir = Path[str]("models/{model}/champion")
champion_move = Path[str, int]("models/{model}/champion/{number:06d}.json")  # the highest counts

# Attention models, one per size
attention_dir = Path[str]("attention/{model}")
attention_size_dir = Path[str, int]("attention/{model}/n={n:03d}")
attention_card = Path[str, int]("attention/{model}/n={n:03d}/model.json")  # written last
attention_training = Path[str, int]("attention/{model}/n={n:03d}/training.safetensors")
attention_lease = Path[str]("attention/{model}/.lease")

# Benchmarks
benchmark_dir = Path[str]("benchmarks/{benchmark}")
benchmark_card = Path[str]("benchmarks/{benchmark}/README.md")
benchmark_results = Path[str]("benchmarks/{benchmark}/results.parquet")
benchmark_part = Path[str, str, int, int, int](  # block: method and settings; stop excluded
    "benchmarks/{benchmark}/parts/{block}/n={n:03d}/rows-{start:05d}-{stop:05d}.parquet"
)

# Input and output; days as 2026-01-31
solution_dir = Path[str]("solutions/{solution}")
driven_dir = Path[str]("driven/{city}")
driven_card = Path[str]("driven/{city}/README.md")
driven_days_dir = Path[str]("driven/{city}/days")
driven_day = Path[str, str]("driven/{city}/days/{day}.parquet")
driven_taken = Path[str]("driven/{city}/.taken.json")  # files of routes whose days are stored

# Nights
NIGHT = "night-"  # prefix of nights, their datasets and training runs
NIGHT_NAME = re.compile(f"{NIGHT}[0-9a-f]{{12}}")
nights_dir = Path[str]("nights/{model}")
retraining_lease = Path[str]("nights/{model}/.lease")
night_dir = Path[str, str]("nights/{model}/{night}")
night_pairs = Path[str, str]("nights/{model}/{night}/comparison.parquet")
night_spec = Path[str, str]("nights/{model}/{night}/spec.json")
night_metrics = Path[str, str]("nights/{model}/{night}/metrics.json")
night_readme = Path[str, str]("nights/{model}/{night}/README.md")
night_record = Path[str, str]("nights/{model}/{night}/night.json")  # written last
improved_dir = Path[str, str]("nights/{model}/{night}/improved")  # labels with better routes of the model
improved_chunk = Path[str, str, int, int, int](
    "nights/{model}/{night}/improved/n={n:03d}/rows-{start:08d}-{stop:08d}.parquet"  # stop excluded
)

# Parsing of file and folder names
_VERSION = re.compile(r"([0-9]{1,9})")
_ROWS = re.compile(r"rows-(\d{8,})-(\d{8,})\.parquet")


def _number(pattern: re.Pattern[str], path: str) -> int | None:
    """Return the number in the last part of ``path``, None if it is another name."""
    match = pattern.fullmatch(path.rsplit("/", 1)[-1])
    return int(match[1]) if match else None


size_of = partial(_number, re.compile(r"n=(\d{3,})"))  # n of the folder of a partition
version_of = partial(_number, _VERSION)  # of the folder of a model


def version_number(text: str) -> int | None:
    """Return the version of a model in ``text``, None if it is not a number."""
    return int(text) if _VERSION.fullmatch(text) else None


def rows_of(path: str) -> tuple[int, int] | None:
    """Return the first and last row (excluded) of the label file at ``path``, None if it has another name."""
    match = _ROWS.fullmatch(path.rsplit("/", 1)[-1])
    return (int(match[1]), int(match[2])) if match else None
