"""Seconds to decode: ours against no cache, and against Hugging Face's T5 of equal dimensions.

Run as `python -m tests.benchmarks.bench_decoding`; takes some minutes. Nothing
gates on it. One core, fp32, nucleus sampling with p = 0.9, one instance, random weights; seconds are of
processor time, so that other work on the machine disturbs little. All three decode paths of the same
length, that of our longest.

Without a cache, the whole path so far goes through the decoder at every step, and its last token is
scored over the instance's own nodes; the encoder and the problem's keys are still computed once, and
nothing is masked or drawn. T5 runs its own `generate`, with its cache and its own sampling over all
classes, without a mask: its paths are no solutions. With p = 1 it need not sort the classes.

The two are slow, and measured in part. Without a cache: some steps of the path, evenly spaced, times
the number of all. T5: no more tokens than CAP, its seconds in proportion where the path is longer (marked
~); that flatters it, since its steps get longer.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import TypeVar

import torch
from transformers import T5ForConditionalGeneration

from mcvrp.model.decoding import Decoded, Nucleus, decode
from mcvrp.model.features import CityTable, problem_features
from mcvrp.model.instances import InstanceStream
from mcvrp.model.network import FmMcvrp, Memory, NetworkConfig
from mcvrp.model.problem import City, Instance
from tests.benchmarks.t5 import t5_like

SIZES = (20, 100, 400)
SAMPLES = (1, 100)
NETWORK = NetworkConfig(10_001, dim=256, heads=8, encoder_layers=4, decoder_layers=4, ff=1024)
P = 0.9
STEPS = 5  # of a path, that are measured without a cache
CAP = 130  # tokens that T5 is measured over
SECONDS = 1.0  # short runs are repeated for so long, and the shortest counts

T = TypeVar("T")


def main() -> None:
    """Print a table of seconds, and what ours is faster by."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model, t5 = FmMcvrp(NETWORK).eval(), t5_like(NETWORK).eval()
    city = City.uniform(NETWORK.classes - 1, 1)
    table = CityTable.of(city)
    titles = ["n", "s", "tokens", "ours, s", "samples/s"]
    for other in ("no cache", "T5", "T5 with p = 1"):
        titles += [f"{other}, s", "ratio"]
    print(f"| {' | '.join(titles)} |\n|{'--:|' * len(titles)}")
    for n in SIZES:
        instance = InstanceStream(city, 1, "test")(n, 0)
        for samples in SAMPLES:

            def ours(instance: Instance = instance, samples: int = samples) -> Decoded:
                return decode(model, city, [instance], strategy=Nucleus(P), samples=samples, table=table)[0]

            cached, decoded = measured(ours)
            tokens = decoded.paths.shape[1] - 1
            uncached = without_cache(model, table, instance, samples, tokens)
            theirs = min(tokens, CAP)
            scale, about = tokens / theirs, "~" if theirs < tokens else ""
            sorting, drawing = (scale * generating(t5, instance, samples, theirs, p) for p in (P, 1.0))
            cells = [f"{n}", f"{samples}", f"{tokens}", f"{cached:.2f}", f"{samples / cached:.1f}"]
            for sign, slow in (("~", uncached), (about, sorting), (about, drawing)):
                cells += [f"{sign}{slow:.2f}", f"{slow / cached:.1f}"]
            print(f"| {' | '.join(cells)} |", flush=True)


def measured(run: Callable[[], T]) -> tuple[float, T]:
    """Return the processor time of the shortest run, and what it returned."""
    durations: list[float] = []
    while sum(durations) < SECONDS:
        began = time.process_time()
        found = run()
        durations.append(time.process_time() - began)
    return min(durations), found


@torch.inference_mode()
def without_cache(model: FmMcvrp, table: CityTable, instance: Instance, samples: int, tokens: int) -> float:
    """Return the seconds of a path of ``tokens`` when each step computes all that is before it."""
    ids = torch.from_numpy(instance.nodes)[None]
    demands = torch.zeros(ids.shape)
    problem = problem_features(table, ids, demands, torch.tensor([float(instance.capacity)]))
    nodes = model.encode(problem)
    shared, weights = model.memory(nodes), model.node_weights(ids, nodes)
    memory = Memory(
        [(k.expand(samples, -1, -1, -1), v.expand(samples, -1, -1, -1)) for k, v in shared.keys_values], None
    )
    path = torch.randint(ids.shape[1], (samples, tokens))
    solution = problem[0][path]  # (S, L, 9): which nodes they are costs nothing
    lengths = [round((k + 0.5) * tokens / STEPS) for k in range(STEPS)]

    def step(length: int) -> None:
        torch.matmul(model.decode(solution[:, :length], memory)[:, -1:], weights.transpose(1, 2))

    return tokens / STEPS * sum(measured(partial(step, length))[0] for length in lengths)


def generating(
    t5: T5ForConditionalGeneration, instance: Instance, samples: int, tokens: int, p: float
) -> float:
    """Return the seconds of T5's `generate` for ``samples`` paths of ``tokens``."""
    ids = torch.from_numpy(instance.nodes)[None]
    options = {"do_sample": True, "top_p": p, "top_k": 0, "num_return_sequences": samples}
    limits = {"min_new_tokens": tokens, "max_new_tokens": tokens}
    return measured(lambda: t5.generate(input_ids=ids, **options, **limits))[0]


if __name__ == "__main__":
    main()
