"""Under ``torch.compile``, ``torch.export`` and ``torch.func`` all is equal to plain calls."""

import math
import subprocess
import sys
from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.func import grad, hessian, jacfwd, jacrev, vmap
from torch.testing import assert_close

from mviq.tsallis import (
    Family,
    FenchelYoungLoss,
    divergence,
    entropy,
    exp_q,
    log_q,
    munchausen_residual,
    policy,
    policy_and_normalizer,
    soft_maximum,
    soft_value,
    support,
    taylor_policy,
)

pytestmark = [  # PyTorch's own, of its own parts
    pytest.mark.filterwarnings("ignore:`torch.jit.script:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning"),
]
INDICES = (0.6, 1.0, 1.5, 2.0, 3.0, math.inf)


def random_values(rows: int = 3) -> Tensor:
    return torch.randn(rows, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


def number(x: float) -> Tensor:
    return torch.tensor(x, dtype=torch.float64)


PRIOR = number(0.0) + torch.tensor([0.4, 0.3, 0.2, 0.1], dtype=torch.float64)


def in_one_graph(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Compile without the code generator, which takes seconds and adds nothing to the graph."""
    torch._dynamo.reset()
    return torch.compile(function, fullgraph=True, backend="aot_eager")


def check_compiled(function: Callable[..., Tensor], *arguments: Tensor) -> None:
    compiled = in_one_graph(function)
    leaves = [x.clone().requires_grad_() for x in arguments]
    results = compiled(*leaves), function(*leaves)
    assert_close(*results)
    weights = torch.randn_like(results[1])
    assert_close(*(torch.autograd.grad(result, leaves, weights) for result in results))


@pytest.mark.parametrize("q", INDICES)
def test_compiled_for_every_q(q: float) -> None:
    check_compiled(lambda values: policy(values, q, 0.7), random_values())


def test_compiled_with_tensors_of_q_temperature_and_prior() -> None:
    index = torch.tensor([1.0, 1.5, 3.0], dtype=torch.float64)
    check_compiled(policy, random_values(), index, number(0.7), PRIOR)


def test_one_compiled_function_takes_any_number_and_shape() -> None:
    compiled = in_one_graph(policy)
    for rows, q in ((2, 1.5), (3, 1.7), (5, 2.5)):
        values = random_values(rows)
        assert_close(compiled(values, q), policy(values, q), rtol=0, atol=0)


@pytest.mark.parametrize(
    "function",
    [
        lambda z, p, r: soft_value(z, 2.5, 0.3) + soft_maximum(z, 1.5),
        lambda z, p, r: exp_q(z, 1.5) + log_q(p, 1.3) + taylor_policy(z, 1.8),
        lambda z, p, r: entropy(p, 1.5) + divergence(p, r, 1.5) + munchausen_residual(p, r, 2.0),
        lambda z, p, r: Family(q=2.0).munchausen(z, Family(q=2.0).evaluate(z)),
        lambda z, p, r: FenchelYoungLoss(1.5, "none")(z, p),
    ],
)
def test_everything_else_compiles(function: Callable[..., Tensor]) -> None:
    first, second = policy(random_values(), 1.0), policy(random_values().flip(-1), 1.0)
    compiled = in_one_graph(function)
    assert_close(compiled(random_values(), first, second), function(random_values(), first, second))


def test_a_compiled_policy_still_says_what_is_wrong() -> None:
    compiled = in_one_graph(policy)
    with pytest.raises(ValueError, match="q must be a number > 0"):
        compiled(random_values(), number(-1.0))
    with pytest.raises(ValueError, match="values must be finite"):
        compiled(random_values() * math.nan, number(1.5))
    with pytest.raises(RuntimeError, match="policy must sum to one"):
        in_one_graph(entropy)(torch.ones(3, 4), 1.5)


def test_exported() -> None:
    class Head(torch.nn.Module):
        def forward(self, values: Tensor) -> Tensor:
            return policy(values, 1.5, 0.3)

    rows = {0: torch.export.Dim("rows")}
    program = torch.export.export(Head(), (random_values(),), dynamic_shapes={"values": rows})
    assert_close(program.module()(random_values(5)), policy(random_values(5), 1.5, 0.3))


@pytest.mark.parametrize("prior", [None, PRIOR])
def test_the_operator_keeps_the_rules_of_operators(prior: Tensor | None) -> None:
    index = torch.tensor([1.5, 2.0, 3.0], dtype=torch.float64, requires_grad=True)
    weights = prior if prior is None else prior.expand(3, 4).clone().requires_grad_()
    values, temperature = random_values().requires_grad_(), number(0.7).requires_grad_()
    torch.library.opcheck(torch.ops.mviq.policy.default, (values, index, temperature, weights))


def test_compiled_in_a_fresh_process() -> None:
    """Nothing is compiled by numba yet: its dispatcher must not be traced."""
    code = """if True:
        import sys, torch
        from mviq.tsallis import policy
        assert "torch._dynamo" not in sys.modules and "sympy" not in sys.modules
        values = torch.tensor([1.0, 0.5, -0.2])
        for fullgraph in (True, False):
            compiled = torch.compile(lambda z: policy(z, 2), fullgraph=fullgraph, backend="eager")
            assert compiled(values).tolist() == [0.75, 0.25, 0.0]
        """
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("q", [*INDICES, number(1.7)])
@pytest.mark.parametrize("prior", [None, PRIOR])
def test_function_transforms(q: float | Tensor, prior: Tensor | None) -> None:
    """Against the same derivatives row by row from plain autograd."""
    values = random_values()

    def of_row(row: Tensor) -> Tensor:
        chosen, psi = policy_and_normalizer(row, q, 0.7, prior)
        return torch.cat((chosen, psi.unsqueeze(0)))

    def energy(row: Tensor) -> Tensor:
        return of_row(row).square().sum()

    rows = torch.autograd.functional
    assert_close(vmap(of_row)(values), torch.stack([of_row(row) for row in values]))
    jacobian = torch.stack([rows.jacobian(of_row, row) for row in values])
    assert_close(vmap(jacrev(of_row))(values), jacobian)
    assert_close(vmap(jacfwd(of_row))(values), jacobian)
    assert_close(
        vmap(grad(energy))(values), 2 * torch.einsum("rij,ri->rj", jacobian, vmap(of_row)(values))
    )
    second = torch.stack([rows.hessian(energy, row) for row in values])
    assert_close(vmap(hessian(energy))(values), second)
    assert_close(vmap(jacrev(jacfwd(energy)))(values), second)


def test_forwards_and_backwards_agree_in_q_temperature_and_prior() -> None:
    values, arguments = random_values(), (number(1.7), number(0.6), PRIOR)

    def value(q: Tensor, temperature: Tensor, prior: Tensor) -> Tensor:
        return policy(values, q, temperature, prior)

    each = (0, 1, 2)
    assert_close(jacfwd(value, each)(*arguments), jacrev(value, each)(*arguments))


def test_mapped_over_q() -> None:
    index, values = torch.tensor([1.0, 1.5, 3.0], dtype=torch.float64), random_values()
    for mapped in (index, index.requires_grad_()):
        assert_close(
            vmap(lambda q: policy(values, q))(mapped), policy(values, mapped.unsqueeze(-1))
        )


@pytest.mark.parametrize("function", [log_q, exp_q])
def test_transforms_of_logarithm_and_exponential(function: Callable[..., Tensor]) -> None:
    x = random_values().abs()[0]
    for q in INDICES[:-1]:
        assert_close(
            vmap(grad(function), (0, None))(x, number(q)),
            vmap(jacfwd(function), (0, None))(x, number(q)),
        )
    with pytest.raises(ValueError, match="x must"):
        vmap(function, (0, None))(x * math.nan, 1.5)


def test_forward_mode_of_autograd() -> None:
    values, direction = random_values(), torch.ones(4).double().cumsum(0)
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(values, direction.expand(3, 4))
        push = torch.autograd.forward_ad.unpack_dual(soft_value(dual, 1.5)).tangent
    (pulled,) = torch.autograd.functional.jvp(
        lambda x: soft_value(x, 1.5), values, direction.expand(3, 4)
    )[1:]
    assert push is not None
    assert_close(push, pulled)


def test_a_forward_derivative_of_a_forward_derivative_is_refused() -> None:
    """PyTorch would return zeros."""
    for function in (lambda x: policy(x, 1.5), lambda x: exp_q(x, 1.5)):
        with pytest.raises(RuntimeError, match="jacrev for one of the two"):
            jacfwd(jacfwd(function))(random_values()[0])


def test_the_support_is_mapped_too() -> None:
    values = random_values()
    assert torch.equal(vmap(lambda row: support(row, 3.0))(values), support(values, 3.0))
