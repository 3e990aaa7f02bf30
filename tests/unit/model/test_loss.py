"""The loss is the mean over real tokens, however the batch is cut or padded."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from mcvrp.model.features import CityTable, problem_features, solution_features
from mcvrp.model.loss import losses
from mcvrp.model.network import FmMcvrp, NetworkConfig
from mcvrp.model.problem import City, Instance, Solution
from tests.support.batches import batch_of

Pairs = list[tuple[Instance, Solution]]


@pytest.fixture(scope="module")
def model() -> FmMcvrp:
    torch.manual_seed(0)
    config = NetworkConfig(classes=61, dim=32, heads=4, encoder_layers=2, decoder_layers=2, ff=64)
    return FmMcvrp(config).eval()


def test_loss_equals_a_softmax_over_all_classes_with_mask_m(model: FmMcvrp, city: City, pairs: Pairs) -> None:
    """Scoring only the instance's nodes equals E W_o and G W_o + M over the whole city (Eq. F, H)."""
    table = CityTable.of(city)
    result = losses(model, table, batch_of(pairs))
    problem_sum = solution_sum = 0.0
    for instance, answer in pairs:
        b = batch_of([(instance, answer)])
        problem = problem_features(table, b.ids, b.demands, b.capacity)
        embeddings = model.encode(problem)
        log_f = model.output(embeddings)[0].double().log_softmax(-1)
        problem_sum -= sum(log_f[k, node].item() for k, node in enumerate(instance.nodes))
        path = b.path[:, :-1]
        decoded = model.decode(
            solution_features(problem, b.demands, b.capacity, path), model.memory(embeddings)
        )
        demand = dict(zip(instance.ids.tolist(), instance.demands.tolist(), strict=True))
        served: set[int] = set()
        load = 0
        for step, node in enumerate(answer.path[:-1].tolist()):
            load = 0 if node == 0 else load + demand[node]
            served.add(node)
            mask = torch.full((61,), -torch.inf, dtype=torch.double)
            for customer, wanted in demand.items():
                if customer not in served and load + wanted <= instance.capacity:
                    mask[customer] = 0.0
            if node != 0:
                mask[0] = 0.0
            log_h = (model.output(decoded[0, step]).double() + mask).log_softmax(-1)
            solution_sum -= log_h[answer.path[step + 1]].item()
    assert result.problem.loss_sum.item() == pytest.approx(problem_sum, rel=1e-5)
    assert result.solution is not None
    assert result.solution.loss_sum.item() == pytest.approx(solution_sum, rel=1e-5)
    assert int(result.problem.tokens) == sum(i.n + 1 for i, _ in pairs)
    assert int(result.solution.tokens) == sum(len(s.path) - 1 for _, s in pairs)


def test_phase_one_touches_no_decoder_parameter(model: FmMcvrp, city: City, pairs: Pairs) -> None:
    """With the encoder's loss alone, exactly `encoder_parameters` get a gradient."""
    model.zero_grad(set_to_none=True)
    result = losses(model, CityTable.of(city), batch_of(pairs), train_decoder=False)
    assert result.solution is None
    result.problem.loss_sum.backward()
    trained = {id(p) for p in model.parameters() if p.grad is not None}
    assert trained == {id(p) for p in model.encoder_parameters()}


def alike(pairs: Pairs) -> Pairs:
    """Return the pairs of the first size: their instances need no padding, their solutions may."""
    return [pair for pair in pairs if pair[0].n == pairs[0][0].n]


def test_instances_of_one_size_need_no_mask(
    model: FmMcvrp, city: City, pairs: Pairs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without it, so that flash attention can take the batch, the loss is that of the batch called padded."""
    masks, exact = [], F.scaled_dot_product_attention

    def attention(*args: torch.Tensor, attn_mask: torch.Tensor | None = None, **rest: Any) -> torch.Tensor:
        masks.append(attn_mask)
        return exact(*args, attn_mask=attn_mask, **rest)  # type: ignore[misc, arg-type]

    monkeypatch.setattr(F, "scaled_dot_product_attention", attention)
    table, batch = CityTable.of(city), batch_of(alike(pairs))
    free = losses(model, table, replace(batch, padded=False))
    assert masks == [None] * (2 + 2 * 2)  # encoder layers, and two calls a decoder layer
    masks.clear()
    masked = losses(model, table, replace(batch, padded=True))
    assert sum(mask is not None for mask in masks) == 2 + 2  # all but the causal ones
    for a, b in ((masked.problem, free.problem), (masked.solution, free.solution)):
        assert a is not None
        assert b is not None
        torch.testing.assert_close(a.loss_sum, b.loss_sum, rtol=1e-6, atol=0)
        assert a.correct == b.correct


@pytest.mark.parametrize("angle", [None, 1.0])
def test_the_loss_never_waits_for_the_device(city: City, pairs: Pairs, angle: float | None) -> None:
    """On the meta device, which has no values to wait for, loss and gradients are computed all the same."""
    with torch.device("meta"):
        model = FmMcvrp(NetworkConfig(61, dim=32, heads=4, encoder_layers=1, decoder_layers=1, ff=64))
    result = losses(model, CityTable.of(city, "meta"), batch_of(pairs, angle).to("meta"))
    assert result.solution is not None
    (result.problem.loss_sum + result.solution.loss_sum).backward()
    assert all(p.grad is not None for p in model.parameters())


def test_padding_of_a_path_has_no_gradient(model: FmMcvrp, city: City, pairs: Pairs) -> None:
    """Gradients stay numbers where a padded path has no node left to go to, and change with no padding."""
    table, batch = CityTable.of(city), batch_of(pairs)
    longer = replace(batch, path=F.pad(batch.path, (0, 9)))
    gradients = []
    for b in (batch, longer):
        model.zero_grad()
        found = losses(model, table, b).solution
        assert found is not None
        found.loss_sum.backward()
        gradients.append(torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None]))
    assert gradients[0].isfinite().all()
    torch.testing.assert_close(gradients[0], gradients[1], atol=2e-3, rtol=1e-4)
