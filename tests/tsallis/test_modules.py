"""The policy as a layer and the Fenchel-Young loss, against entmax and PyTorch."""

import math

import entmax
import pytest
import torch
from torch.autograd import gradcheck, gradgradcheck
from torch.nn.functional import cross_entropy, kl_div, log_softmax
from torch.testing import assert_close

from mviq.tsallis import FenchelYoungLoss, TsallisPolicy, fenchel_young_loss, policy

INDICES = (0.6, 1.0, 1.3, 1.5, 2.0, 3.0, 8.0)


def scores() -> torch.Tensor:
    generator = torch.Generator().manual_seed(3)
    return torch.randn(6, 5, dtype=torch.float64, generator=generator).requires_grad_()


CLASSES = torch.tensor([0, 4, 2, 2, 1, 3])


@pytest.mark.parametrize("q", INDICES)
def test_gradient_is_the_policy_minus_the_target(q: float) -> None:
    soft = scores().detach().flip(0).softmax(-1)
    for target, aim in ((CLASSES, torch.nn.functional.one_hot(CLASSES, 5)), (soft, soft)):
        values = scores()
        loss = fenchel_young_loss(values, target, q, "sum")
        (gradient,) = torch.autograd.grad(loss, values)
        assert_close(gradient, policy(values.detach(), q) - aim)


@pytest.mark.parametrize("q", INDICES)
def test_derivatives_by_finite_differences(q: float) -> None:
    index = torch.tensor(q, dtype=torch.float64, requires_grad=True)
    soft = scores().detach().flip(0).softmax(-1)

    def loss(values: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
        return fenchel_young_loss(values, soft, index, "none")

    assert gradcheck(loss, ((0.3 * scores()).detach().requires_grad_(), index), rtol=1e-3)
    near = (0.1 * scores()).detach().requires_grad_()
    assert gradgradcheck(loss, (near, index), atol=1e-4, rtol=1e-3)  # also mixed ones


def test_losses_of_entmax_and_pytorch() -> None:
    values = scores().detach()
    assert_close(fenchel_young_loss(values, CLASSES, 1), cross_entropy(values, CLASSES))
    assert_close(
        fenchel_young_loss(values, CLASSES, 2, "none"), entmax.sparsemax_loss(values, CLASSES)
    )
    assert_close(
        fenchel_young_loss(values, CLASSES, 1.5, "none"), entmax.entmax15_loss(values, CLASSES)
    )
    for q in (1.2, 1.7):
        theirs = entmax.entmax_bisect_loss(values, CLASSES, q, n_iter=100)
        assert_close(fenchel_young_loss(values, CLASSES, q, "none"), theirs, rtol=1e-6, atol=1e-9)
    soft = values.flip(0).softmax(-1)
    theirs = kl_div(log_softmax(values, -1), soft, reduction="batchmean")
    assert_close(fenchel_young_loss(values, soft, 1), theirs)


@pytest.mark.parametrize("q", [1.3, 2.0, 4.0])
def test_zero_where_the_policy_is_the_target_and_beyond_the_margin(q: float) -> None:
    values = scores().detach()
    assert fenchel_young_loss(values, policy(values, q), q).item() == pytest.approx(0, abs=1e-15)
    lead = torch.tensor([1.0, 1.0 - 1 / (q - 1)], dtype=torch.float64)
    assert fenchel_young_loss(lead, torch.tensor(0), q).item() == pytest.approx(0, abs=1e-15)
    assert fenchel_young_loss(lead + torch.tensor([0.0, 0.1]), torch.tensor(0), q) > 1e-8


def test_greedy_and_unavailable() -> None:
    values = torch.tensor([1.0, 3.0, -math.inf], dtype=torch.float64, requires_grad=True)
    assert fenchel_young_loss(values, torch.tensor(0), math.inf).item() == 2  # the perceptron's
    loss = fenchel_young_loss(values, torch.tensor(0), 1.5)
    assert torch.autograd.grad(loss, values)[0].tolist() == [-1, 1, 0]
    assert fenchel_young_loss(values, torch.tensor(2), 1.5) == math.inf


def test_half_precision() -> None:
    values = scores().detach().half().requires_grad_()
    loss = FenchelYoungLoss(2.0)(values, CLASSES)
    assert loss.dtype == torch.float16
    loss.backward()
    assert values.grad is not None


@pytest.mark.parametrize(
    ("target", "message"),
    [
        (torch.tensor([0, 5]), r"class indices in \[0, 5\), got 5 at \[1\]"),
        (torch.tensor([0, 1, 2]), r"class indices of shape \(2,\) or distributions"),
        (torch.ones(2, 5), "target must sum to one"),
        (torch.ones(5) / 5, r"distributions of shape \(2, 5\), got torch.float32 of shape \(5,\)"),
    ],
)
def test_bad_targets(target: torch.Tensor, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        fenchel_young_loss(torch.zeros(2, 5), target, 1.5)


def test_bad_settings() -> None:
    with pytest.raises(ValueError, match="reduction must be none, mean or sum, got 'all'"):
        FenchelYoungLoss(reduction="all")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="q must be a finite number > 0, got inf"):
        TsallisPolicy(q=math.inf, learnable=True)


def test_layer_along_any_axis() -> None:
    values = torch.randn(2, 3, 4)
    for dim in (0, 1, -1):
        layer = TsallisPolicy(dim, q=1.5, temperature=0.5)
        assert_close(layer(values), policy(values.movedim(dim, -1), 1.5, 0.5).movedim(-1, dim))
    assert not list(layer.parameters())
    assert str(layer) == "TsallisPolicy(dim=-1, q=1.5, temperature=0.5, learnable=False)"


def test_learnable_layer_finds_the_index_that_made_the_data() -> None:
    values = scores().detach().float()
    made = policy(values, 1.8, 0.7)
    layer = TsallisPolicy(q=1.2, temperature=1.5, learnable=True)
    optimizer = torch.optim.Adam(layer.parameters(), lr=0.05)
    for _ in range(300):
        loss = (layer(values) - made).square().sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert layer.q.item() == pytest.approx(1.8, abs=0.02)
    assert layer.temperature.item() == pytest.approx(0.7, abs=0.02)
    again = TsallisPolicy(learnable=True)
    again.load_state_dict(layer.state_dict())
    assert torch.equal(again(values), layer(values))
