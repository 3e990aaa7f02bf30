"""Real tokens per second: our training step against Hugging Face's T5 of equal dimensions, padded at random.

Takes about ten minutes. Both see the same instances and labels, with dropout, one step of AdamW on every 8,
on one core, in fp32 but for the last line. A real token is a node of an instance, or a token of its solution
that is to be predicted; T5 predicts the latter only. The lines between the two change one setting at a time.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from unittest.mock import patch

import torch
from torch import Tensor
from transformers import T5Config, T5ForConditionalGeneration

from mcvrp.model.curriculum import Curriculum, Order
from mcvrp.model.features import Batch, CityTable
from mcvrp.model.network import FmMcvrp, NetworkConfig
from mcvrp.model.problem import City
from mcvrp.storage.store.store import Store
from mcvrp.tasks.train.batches import GlobalBatch, SampleStream
from mcvrp.tasks.train.distributed import distributed
from mcvrp.tasks.train.engine import Engine, EngineOptions, Totals
from tests.benchmarks.bench_stream import join, labels_cache
from tests.benchmarks.common import arguments
from tests.support.training import write_dataset

SIZES = range(20, 401, 38)  # the paper's, every 38th
BATCH = 8  # rows of each size, and samples of a step: the bucketed order has batches of one size
ROUNDS = 2
ORDERS: tuple[Order, Order] = ("bucketed", "paper")
NETWORK = NetworkConfig(10_001, dim=256, heads=8, encoder_layers=4, decoder_layers=4, ff=1024)
NO_TARGET, DEPOT = -100, 0

Step = Callable[[Sequence[Batch], int, int], object]  # micro-batches, real problem and solution tokens


@dataclass(frozen=True)
class Work:
    """All instances once: each step's micro-batches, and the real tokens of the problems and solutions."""

    steps: list[list[Batch]]
    tokens: list[tuple[int, int]]

    @property
    def padding(self) -> float:
        computed = sum(b.ids.numel() + b.path[:, 1:].numel() for step in self.steps for b in step)
        return 1 - sum(map(sum, self.tokens)) / computed


def main() -> None:
    arguments(__doc__).parse_args()
    city = City.uniform(NETWORK.classes - 1, 1)
    with tempfile.TemporaryDirectory() as folder:
        store, counts = Store.open(f"{folder}/store"), dict.fromkeys(SIZES, BATCH)
        for n in SIZES:
            write_dataset(store, city, range(n, n + 1), BATCH)
        join()
        with labels_cache(folder, store, "tiny", counts) as cache, distributed(cores=1) as device:
            alike, random = (work(SampleStream(curriculum(order), cache, False)) for order in ORDERS)
            table = CityTable.of(city, device)
            ours, in_bf16, t5 = our_step(table, bf16=False), our_step(table, bf16=True), t5_step()
            compare(
                {
                    "T5, random batches": (random, t5),
                    "T5, batches of one size": (alike, t5),
                    "ours, random batches, all classes at every token": (random, with_all_classes(ours)),
                    "ours, random batches": (random, ours),
                    "ours, bucketed": (alike, ours),
                    "ours, bucketed, bf16": (alike, in_bf16),
                }
            )


def curriculum(order: Order) -> Curriculum:
    every = range(SIZES[0], SIZES[-1] + 1)
    counts = tuple(BATCH if n in SIZES else 0 for n in every)
    return Curriculum(counts, every[0], every[-1], every[-1], BATCH, ("bench",), order=order)


def work(stream: SampleStream) -> Work:
    steps: list[tuple[GlobalBatch, list[Batch]]] = list(stream.steps(1, stream.curriculum.steps, 0))
    tokens = [(batch.problem_tokens, batch.solution_tokens) for batch, _ in steps]
    return Work([batches for _, batches in steps], tokens)


def our_step(table: CityTable, bf16: bool) -> Step:
    torch.manual_seed(0)
    options = EngineOptions(train_decoder=True, zero=0, bf16=bf16, weight_decay=0.01, clip=1.0)
    trained = Engine(FmMcvrp(NETWORK), table, options)
    return lambda batches, problem, solution: trained.step(batches, Totals(problem, solution), 1e-4)


def with_all_classes(step: Step) -> Step:
    """Return ``step`` with solution tokens scored over the whole city, as T5 scores them."""

    def scores(network: FmMcvrp, embeddings: Tensor, ids: Tensor) -> Tensor:
        return network.output(embeddings).gather(2, ids[:, None].expand(-1, embeddings.shape[1], -1))

    def whole(batches: Sequence[Batch], problem_tokens: int, solution_tokens: int) -> None:
        with patch.object(FmMcvrp, "scores", scores):
            step(batches, problem_tokens, solution_tokens)

    return whole


def t5_like(network: NetworkConfig) -> T5ForConditionalGeneration:
    """Return an untrained T5: as many layers, heads, dimensions and classes, node numbers for features."""
    torch.manual_seed(0)
    config = T5Config(
        vocab_size=network.classes,
        d_model=network.dim,
        d_kv=network.dim // network.heads,
        d_ff=network.ff,
        num_layers=network.encoder_layers,
        num_decoder_layers=network.decoder_layers,
        num_heads=network.heads,
        dropout_rate=network.dropout,
        feed_forward_proj="gelu",
        pad_token_id=DEPOT,
        decoder_start_token_id=DEPOT,
    )
    return T5ForConditionalGeneration(config)


def t5_step() -> Step:
    """Return a step of T5: forward, backward, clipping and AdamW, as its own examples do it."""
    model = t5_like(NETWORK).train()
    adam = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)

    def step(batches: Sequence[Batch], problem_tokens: int, solution_tokens: int) -> None:
        for batch in batches:
            inside = torch.arange(batch.ids.shape[1]) < batch.lengths[:, None]
            ends = torch.arange(1, batch.path.shape[1]) < batch.path_lengths[:, None]
            labels = batch.ids.gather(1, batch.path)[:, 1:].masked_fill(~ends, NO_TARGET)
            model(input_ids=batch.ids, attention_mask=inside.long(), labels=labels).loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        adam.step()
        adam.zero_grad()

    return step


def compare(cases: dict[str, tuple[Work, Step]]) -> None:
    """Print real tokens per second of each case, the best of several alternating rounds."""
    for data, step in cases.values():  # warm up
        step(data.steps[0], *data.tokens[0])
    rates: dict[str, list[float]] = {name: [] for name in cases}
    for _ in range(ROUNDS):
        for name, (data, step) in cases.items():
            began = time.perf_counter()
            for batches, tokens in zip(data.steps, data.tokens, strict=True):
                step(batches, *tokens)
            rates[name].append(sum(map(sum, data.tokens)) / (time.perf_counter() - began))
    first = max(rates[next(iter(cases))])
    print(f"{'':>50} {'padding':>8} {'tokens/s':>9} {'ratio':>6}")
    for name, (data, _) in cases.items():
        rate = max(rates[name])
        print(f"{name:>50} {data.padding:>8.1%} {rate:>9,.0f} {rate / first:>6.2f}")


if __name__ == "__main__":
    main()
