"""The exact policy as a custom PyTorch operator, for tools that cannot trace into the kernels.

``torch.compile`` and ``torch.export`` need its output shapes without computing it, ``torch.func``
needs to batch and to differentiate it. Most eager calls bypass it: the dispatcher would take as
long as a small policy.

Values and prior have shape (batch, actions); q and temperature are scalars or of the batch shape.
"""

import sys
from collections.abc import Callable
from functools import cache
from typing import Any, cast

import torch
from torch import Tensor

from mviq.tsallis.checks import (
    Scalar,
    check_distribution,
    check_floating,
    check_positive,
    check_temperature,
)
from mviq.tsallis.derivative import SolutionOfAll, with_mapped_axis
from mviq.tsallis.exact import Solved, solve

_LIBRARY = torch.library.Library("mviq", "DEF")  # type: ignore[no-untyped-call]
_LIBRARY.define(  # type: ignore[no-untyped-call]
    "policy(Tensor values, Tensor q, Tensor temperature, Tensor? prior)"
    " -> (Tensor policy, Tensor psi, Tensor maximum)",
    tags=torch.Tag.pt2_compliant_tag,
)
_Tensors = tuple[Tensor, Tensor, Tensor]


def by_operator(values: Tensor, q: Scalar, temperature: Scalar, prior: Tensor | None) -> Solved:
    """Return the solution of broadcast arguments; tensors are checked when the operator runs."""
    numbers = _as_tensor("q", q, infinity=True), _as_tensor("temperature", temperature)
    # torch.compile takes the operator, torch.func the autograd function, which it can transform.
    compiled = torch.compiler.is_compiling()
    operator: Any = torch.ops.mviq.policy if compiled else SolutionOfAll.apply
    return Solved(*operator(values, *numbers, prior))


def _as_tensor(name: str, x: Scalar, *, infinity: bool = False) -> Tensor:
    if isinstance(x, Tensor):
        check_floating(name, x)
        return x
    # Error messages do not compile: there the operator checks. float64, as in an eager call.
    checked = x if torch.compiler.is_compiling() else check_positive(name, x, infinity=infinity)
    return torch.full((), cast(float, checked), dtype=torch.float64)


def _solve(values: Tensor, q: Tensor, temperature: Tensor, prior: Tensor | None) -> _Tensors:
    index, scale = (x.item() if x.dim() == 0 else x for x in (q, temperature))
    check_positive("q", index, infinity=True)
    check_positive("temperature", scale, infinity=False)
    check_temperature(scale, values.dtype)
    if prior is not None:
        check_distribution("prior", prior)
        prior = prior.to(values.dtype)
    policy, psi, maximum = solve(values, index, scale, prior)
    return policy.contiguous(), psi.clone(), maximum.clone()  # ψ and maximum may share memory


def _solve_unseen(*arguments: Any) -> _Tensors:
    """Call ``_solve`` without letting TorchDynamo trace into it."""
    # Importing torch._dynamo takes seconds; if it is not imported, it is not tracing.
    return (_hidden() if "torch._dynamo" in sys.modules else _solve)(*arguments)


@cache
def _hidden() -> Callable[..., _Tensors]:
    return cast(Callable[..., _Tensors], torch.compiler.disable(_solve))  # type: ignore[no-untyped-call]


def _shapes(values: Tensor, q: Tensor, temperature: Tensor, prior: Tensor | None) -> _Tensors:
    batch = values.shape[:-1]
    return values.new_empty(values.shape), values.new_empty(batch), values.new_empty(batch)


def _mapped(info: Any, in_dims: Any, *inputs: Tensor | None) -> tuple[Any, tuple[int, int, int]]:
    arguments = with_mapped_axis(info.batch_size, in_dims, *inputs)
    return torch.ops.mviq.policy(*arguments), (0, 0, 0)


def _recorded(values: Tensor, q: Tensor, temperature: Tensor, prior: Tensor | None) -> Any:
    if torch._C._are_functorch_transforms_active():
        raise NotImplementedError(
            "PyTorch cannot compile torch.func.grad or jvp of an operator in one graph: "
            "leave out fullgraph=True, or compile a function that calls backward()"
        )
    return SolutionOfAll.apply(values, q, temperature, prior)  # type: ignore[no-untyped-call]


_LIBRARY.impl("policy", _solve_unseen, "CompositeExplicitAutograd")  # type: ignore[no-untyped-call]
_LIBRARY.impl("policy", _recorded, "Autograd")  # type: ignore[no-untyped-call]
torch.library.register_fake("mviq::policy", _shapes, lib=_LIBRARY)
torch.library.register_vmap("mviq::policy", _mapped, lib=_LIBRARY)
