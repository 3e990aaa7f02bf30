"""Seconds to decode, against decoding without a cache of keys and values.

Takes some minutes. One core, fp32, nucleus sampling with p = 0.9, one instance, random weights, seconds of
processor time. A beam is as wide as there are samples. Without a cache, the whole path so far goes through
the decoder at every step, and its last token is scored over the instance's own nodes; the encoder and the
problem's keys are computed once, nothing is masked or drawn. Some steps of the path are measured, evenly
spaced, times the number of all (~).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import TypeVar

import torch

from mcvrp.model.decoding import Beam, Nucleus, decode
from mcvrp.model.features import CityTable, problem_features
from mcvrp.model.network import FmMcvrp, Memory, NetworkConfig
from mcvrp.model.problem import City, Instance
from tests.benchmarks.common import arguments, heading, instances_of, row

SIZES = (20, 100, 400)
SAMPLES = (1, 100)
NETWORK = NetworkConfig(10_001, dim=256, heads=8, encoder_layers=4, decoder_layers=4, ff=1024)
P = 0.9
STEPS = 5  # of a path, that are measured without a cache
SECONDS = 1.0  # short runs are repeated for so long, and the shortest counts

T = TypeVar("T")


def main() -> None:
    arguments(__doc__).parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = FmMcvrp(NETWORK).eval()
    city = City.uniform(NETWORK.classes - 1, 1)
    table = CityTable.of(city)
    heading("n", "s", "tokens", "seconds", "samples/s", "no cache, s", "ratio", "beam, s", "ratio")
    for n in SIZES:
        (instance,) = instances_of(city, n, 1)
        for samples in SAMPLES:
            ours = partial(decode, model, city, [instance], samples=samples, table=table)
            cached, (decoded,) = measured(partial(ours, strategy=Nucleus(P)))
            beam, _ = measured(partial(ours, strategy=Beam(samples)))
            tokens = decoded.paths.shape[1] - 1
            uncached = without_cache(model, table, instance, samples, tokens)
            slower = (f"~{uncached:.2f}", f"{uncached / cached:.1f}")
            wide = (f"{beam:.2f}", f"{beam / cached:.2f}")
            row(n, samples, tokens, f"{cached:.2f}", f"{samples / cached:.1f}", *slower, *wide)


def measured(run: Callable[[], T]) -> tuple[float, T]:
    durations: list[float] = []
    while sum(durations) < SECONDS:
        began = time.process_time()
        result = run()
        durations.append(time.process_time() - began)
    return min(durations), result


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


if __name__ == "__main__":
    main()
