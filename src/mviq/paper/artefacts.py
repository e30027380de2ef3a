"""The figures of the paper that this version reproduces, one line of data each."""

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:  # the list must not cost the seconds that torch and Matplotlib take to import
    from mviq.paper.figures import Drawing


@dataclass(frozen=True)
class Artefact:
    """Something the paper shows: what, what it claims, and what it costs to make again."""

    name: str
    shows: str
    claim: str
    cost: str

    def make(self) -> "Drawing":
        """Compute and draw it: ``make()`` of the module of the same name."""
        return cast("Drawing", import_module(f"mviq.paper.{self.name}").make())


ARTEFACTS = {
    artefact.name: artefact
    for artefact in (
        Artefact(
            name="fig1",
            shows="ln_q, exp_q and the Tsallis entropy component of N(2, 1), q = 1 to 5",
            claim="as q grows, ln_q and Tsallis entropy become flatter, exp_q steeper",
            cost="seconds",
        ),
        Artefact(
            name="fig2",
            shows="Tsallis KL component of two Gaussians; Tsallis policies at q = 2 and q = 50",
            claim="Tsallis KL covers more mass than KL; truncation grows with q, or through τ",
            cost="seconds",
        ),
    )
}
