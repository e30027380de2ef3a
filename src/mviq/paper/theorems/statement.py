"""A statement of the paper, and the result of checking it numerically."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

import torch
from torch import Tensor

Convention = Literal["ours", "physics", "both"]


@dataclass(frozen=True, kw_only=True)
class Statement:
    """What the paper claims, what is true instead, and how far the numbers are from each.

    A residual is the largest violation found: of an equation the distance between its sides, of
    an inequality the excess, of a yes-or-no property the number of failures.

    >>> Statement(
    ...     name="sum", reference="Example", claim="1 + 1 = 3", where="always",
    ...     printed_residual=1.0, corrected="1 + 1 = 2", residual=0.0, tolerance=0.0,
    ... ).verdict
    'fails'
    """

    reference: str
    """The place in the paper."""
    claim: str
    """What is printed, in our words."""
    convention: Convention = "both"
    """The convention of q in which the claim is printed; ``both`` where it reads the same."""
    where: str
    """For which q, and under which conditions, it was measured."""
    residual: float
    """The violation of the corrected statement; of the printed one if none is needed."""
    tolerance: float = 1e-12
    """The largest residual that rounding explains."""
    printed_residual: float | None = None
    """The violation of the printed statement, where it is not ``residual``."""
    only_for: str | None = None
    """The part of its domain on which a printed statement that fails does hold."""
    evidence: str = ""
    """What was measured, in numbers: the counterexample if the printed statement fails."""
    corrected: str | None = None
    """The true statement, where it differs from the printed one or reads differently in our q."""
    name: str = ""
    """The name of the check, which ``mviq verify --only`` takes."""

    @property
    def holds(self) -> bool:
        """Whether the corrected statement holds (a NaN does not)."""
        return self.residual <= self.tolerance

    @property
    def printed_holds(self) -> bool:
        """Whether the statement holds as it is printed."""
        error = self.residual if self.printed_residual is None else self.printed_residual
        return error <= self.tolerance

    @property
    def verdict(self) -> str:
        """The verdict on the printed statement: holds, fails, or holds only for a part."""
        if self.printed_holds:
            return "holds"
        return "fails" if self.only_for is None else f"holds only for {self.only_for}"


Check: TypeAlias = Callable[[], Statement]


def name_of(check: Check) -> str:
    """Return the name of the statement a check measures, without measuring it."""
    return check.__name__.replace("_", "-")


def measure(check: Check) -> Statement:
    """Return the statement that a check measures, with its name."""
    return replace(check(), name=name_of(check))


def worst(*errors: Tensor) -> float:
    """Return the largest absolute entry of all tensors; NaN if there is one."""
    return float(torch.stack([error.abs().max() for error in errors]).max())


def largest(*numbers: float) -> float:
    """Return the largest number; NaN if there is one, which ``max`` may drop."""
    return float(torch.tensor(numbers, dtype=torch.float64).max())


def excess(*differences: Tensor) -> float:
    """Return by how much the largest entry exceeds 0; NaN if there is one."""
    largest = torch.stack([difference.max() for difference in differences]).max()
    return float(largest.clamp(min=0.0)) + 0.0  # not −0


def share(flags: Tensor) -> float:
    """Return the share of the entries that are true."""
    return float(flags.double().mean())


def relative(measured: Tensor, expected: Tensor) -> Tensor:
    """Return the error relative to the expected size, and absolute where that is below 1."""
    return (measured - expected) / expected.abs().clamp(min=1.0)


def ascent(gradient: Tensor, policy: Tensor) -> Tensor:
    """Return the violation of the optimality conditions of a policy, given the gradient there.

    At a maximum the gradient is constant on the support and not larger off it; for a concave
    objective only the maximiser has this property.
    """
    inside = policy > 0
    level = (policy * torch.where(inside, gradient, 0.0)).sum(-1, keepdim=True)
    return torch.where(inside, (gradient - level).abs(), (gradient - level).clamp(min=0.0))
