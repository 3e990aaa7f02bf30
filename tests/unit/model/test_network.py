"""The network's size and its invariances; the cached step equals the whole decoder."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from mcvrp.model.features import FEATURES, CityTable, problem_features, solution_features
from mcvrp.model.network import FmMcvrp, NetworkConfig
from mcvrp.model.problem import City, Instance, Solution
from mcvrp.tasks.train.spec import NetworkSpec
from tests.support.batches import batch_of

Pairs = list[tuple[Instance, Solution]]
SMALL = NetworkConfig(classes=61, dim=32, heads=4, encoder_layers=2, decoder_layers=2, ff=64)


@pytest.fixture(scope="module")
def model() -> FmMcvrp:
    torch.manual_seed(0)
    return FmMcvrp(SMALL).eval()


def test_the_papers_network_has_206_million_parameters() -> None:
    """The default spec is the paper's: 206 M parameters within 1 % (Sec. 5.2)."""
    config = NetworkConfig(classes=10_001, **NetworkSpec().model_dump())
    with torch.device("meta"):
        model = FmMcvrp(config)
    count = sum(p.numel() for p in model.parameters())
    assert count == pytest.approx(206e6, rel=0.01)
    assert count == config.parameters() == 206_174_976


def test_landmarks_are_more_inputs_of_both_streams() -> None:
    model = FmMcvrp(replace(SMALL, landmarks=3))
    assert sum(p.numel() for p in model.parameters()) == model.config.parameters()
    assert model.config.parameters() == SMALL.parameters() + 2 * 3 * SMALL.dim
    assert model.encoder_input.in_features == model.decoder_input.in_features == FEATURES + 3


def test_a_pointer_begins_as_the_network_without_and_has_its_own_parameters() -> None:
    """D x D more, zeros at first: the same scores; then the day's embeddings count."""
    torch.manual_seed(5)
    plain, pointed = FmMcvrp(SMALL), FmMcvrp(replace(SMALL, pointer=True))
    assert sum(p.numel() for p in pointed.parameters()) == pointed.config.parameters()
    assert pointed.config.parameters() == plain.config.parameters() + SMALL.dim**2
    assert pointed.load_state_dict(plain.state_dict(), strict=False).missing_keys == ["pointer.weight"]
    ids, embeddings = torch.tensor([[0, 5, 9]]), torch.randn(1, 3, SMALL.dim)
    assert torch.equal(plain.node_weights(ids, embeddings), pointed.node_weights(ids, embeddings))
    assert pointed.pointer is not None
    torch.nn.init.normal_(pointed.pointer.weight)
    expected = plain.output.weight[ids] + embeddings @ pointed.pointer.weight.T
    torch.testing.assert_close(pointed.node_weights(ids, embeddings), expected)


@torch.no_grad()
def test_padding_changes_no_token(model: FmMcvrp, city: City, pairs: Pairs) -> None:
    """Each instance has the same embeddings alone as in a padded batch."""
    table = CityTable.of(city)

    def run(some: Pairs) -> tuple[torch.Tensor, torch.Tensor]:
        b = batch_of(some)
        problem = problem_features(table, b.ids, b.demands, b.capacity)
        embeddings = model.encode(problem, b.lengths)
        solution = solution_features(problem, b.demands, b.capacity, b.path)
        return embeddings, model.decode(solution, model.memory(embeddings, b.lengths))

    together = run(pairs)
    for row, (instance, solution) in enumerate(pairs):
        alone = run([pairs[row]])
        torch.testing.assert_close(together[0][row, : instance.n + 1], alone[0][0], atol=1e-5, rtol=0)
        length = len(solution.path)
        torch.testing.assert_close(together[1][row, :length], alone[1][0], atol=1e-5, rtol=0)


@torch.no_grad()
@pytest.mark.parametrize("rounded", [False, True])
def test_bf16_knows_customers_apart_who_are_nearer_than_its_grid(rounded: bool) -> None:
    """Coordinates of 0.75 and 0.7515 of the city's side are one number in bf16, but two inputs."""
    torch.manual_seed(0)
    model, features = FmMcvrp(SMALL).eval(), torch.full((2, 1, FEATURES), 0.5)
    features[:, 0, 0] = torch.tensor([0.75, 0.7515])
    assert features[0].bfloat16().equal(features[1].bfloat16())
    with torch.autocast("cpu", torch.bfloat16, enabled=not rounded):
        one, other = (model.to_bf16() if rounded else model).encode(features)
    assert not one.equal(other)


def test_a_cache_has_the_precision_of_its_keys(model: FmMcvrp) -> None:
    for bf16, dtype in ((False, torch.float32), (True, torch.bfloat16)):
        with torch.autocast("cpu", torch.bfloat16, enabled=bf16):
            memory = model.memory(torch.zeros(1, 3, SMALL.dim))
        assert {tensor.dtype for layer in model.new_cache(memory, 1, 2) for tensor in layer} == {dtype}


@torch.no_grad()
def test_encoder_does_not_know_positions(model: FmMcvrp, city: City, pairs: Pairs) -> None:
    """Permuting the problem tokens permutes the embeddings: there is no positional encoding."""
    b = batch_of(pairs[:1])
    problem = problem_features(CityTable.of(city), b.ids, b.demands, b.capacity)
    order = torch.randperm(problem.shape[1], generator=torch.Generator().manual_seed(1))
    torch.testing.assert_close(model.encode(problem[:, order]), model.encode(problem)[:, order])


@torch.no_grad()
def test_cached_steps_equal_the_whole_decoder(model: FmMcvrp, city: City, pairs: Pairs) -> None:
    """Token by token with a cache, for three samples a group, gives the uncached embeddings to 1e-5."""
    b = batch_of(pairs)
    problem = problem_features(CityTable.of(city), b.ids, b.demands, b.capacity)
    solution = solution_features(problem, b.demands, b.capacity, b.path)
    memory = model.memory(model.encode(problem, b.lengths), b.lengths)
    whole = model.decode(solution, memory)
    groups, length = b.path.shape
    cache = model.new_cache(memory, groups * 3, length)
    for t in range(length):
        token = solution[:, t, None].expand(-1, 3, -1)
        stepped = model.step(token, cache, t, memory)
        torch.testing.assert_close(stepped, whole[:, t, None].expand(-1, 3, -1), atol=1e-5, rtol=0)
