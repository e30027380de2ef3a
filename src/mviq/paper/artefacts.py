"""Every artefact of the paper: what it shows, what it claims, and who makes it again."""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

from mviq.paper import experiments
from mviq.paper.experiments import Experiment

if TYPE_CHECKING:  # the list must not cost the seconds that torch and Matplotlib take to import
    from mviq.paper.reproduction import Reproduction


@dataclass(frozen=True)
class Artefact:
    """Something the paper shows, and how to make it again."""

    name: str
    shows: str
    claim: str
    maker: str
    """Module and function that draw it, of nothing or of the runs of its experiment."""
    experiment: Experiment | None = None

    def make(self, *data: Any) -> "Reproduction":
        """Compute and draw it; an artefact with an experiment needs the data of its study."""
        module, function = self.maker.split(":")
        make: Callable[..., Reproduction]
        make = getattr(import_module(f"mviq.paper.{module}"), function)
        return make(*data)


ARTEFACTS = {
    artefact.name: artefact
    for artefact in (
        Artefact(
            name="fig1",
            shows="ln_q, exp_q and the Tsallis entropy component of N(2, 1), q = 1 to 5",
            claim="as q grows, ln_q and Tsallis entropy become flatter, exp_q steeper",
            maker="fig1:make",
        ),
        Artefact(
            name="fig2",
            shows="Tsallis KL component of two Gaussians; Tsallis policies at q = 2 and q = 50",
            claim="Tsallis KL covers more mass than KL; truncation grows with q, or through τ",
            maker="fig2:make",
        ),
        Artefact(
            name="fig3",
            shows="MVI(q) on CartPole-v1, q = 2 to 5: action gap minus ln_q π, residual R_q",
            claim="the difference settles around -0.5; the residual grows with q, jumps from 4 to "
            "5 and is negligible at 2",
            maker="fig3:make",
            experiment=experiments.CARTPOLE_Q,
        ),
        Artefact(
            name="fig4",
            shows="Atari learning curves of MVI(2) and M-VI, the games with most improvement",
            claim="MVI(2) learns faster and ends higher",
            maker="fig4:selected",
            experiment=experiments.ATARI,
        ),
        Artefact(
            name="fig5",
            shows="percent improvement of MVI(2) over M-VI and over Tsallis-VI, per game",
            claim="of 20 games about 5 large, 5 about double, 7 comparable, 3 slightly worse; over "
            "100 % against Tsallis-VI in more than half of 35 (tested here: better in more games "
            "than worse; over 100 % in more than half)",
            maker="fig5:make",
            experiment=experiments.ATARI,
        ),
        Artefact(
            name="fig6-left",
            shows="CartPole-v1, q = 2: the action gap against ln π replaced by a naive ln_q π",
            claim="the naive curve is flat",
            maker="fig6:left",
            experiment=experiments.CARTPOLE_NAIVE,
        ),
        Artefact(
            name="fig6-right",
            shows="Acrobot-v1: MVI(q) for several q, with 95 % intervals",
            claim="none is stated; tested here: every q learns",
            maker="fig6:right",
            experiment=experiments.ACROBOT_Q,
        ),
        Artefact(
            name="fig7",
            shows="Atari learning curves of MVI(2), M-VI and Tsallis-VI, all games",
            claim="MVI(2) improves on both",
            maker="fig4:every",
            experiment=experiments.ATARI,
        ),
        Artefact(
            name="table1",
            shows="the settings for Gym, beside our presets",
            claim="the experiments had these settings (tested: our preset has them)",
            maker="printed_tables:first",
        ),
        Artefact(
            name="table2",
            shows="the settings for Atari, beside our preset",
            claim="the experiments had these settings (tested: our preset has them)",
            maker="printed_tables:second",
        ),
        Artefact(
            name="sweep",
            shows="MVI(2) on Asterix and Seaquest over α and τ",
            claim="α = 0.9, τ = 10 is the best",
            maker="sweep:make",
            experiment=experiments.SWEEP,
        ),
    )
}
"""Theorems 1 to 4 and the appendix are ``mviq verify``."""
