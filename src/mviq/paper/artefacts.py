"""The artefacts of the paper: what each shows and claims, and the function that reproduces it."""

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

from mviq.paper import experiments
from mviq.paper.experiments import Experiment

if TYPE_CHECKING:  # importing torch and Matplotlib takes seconds, too long for a list
    from mviq.paper.reproduction import Reproduction


@dataclass(frozen=True)
class Artefact:
    """A figure or table of the paper, and how to reproduce it."""

    name: str
    shows: str
    claim: str
    maker: str
    """``module:function`` that draws it, from the study data of its experiment if it has one."""
    experiment: Experiment | None = None
    minutes: int = 0
    """Run time without an experiment; 0 for less than a minute."""

    def make(self, *data: Any) -> "Reproduction":
        """Compute and draw it; an artefact with an experiment needs the data of its study."""
        module, function = self.maker.split(":")
        made: Reproduction = getattr(import_module(f"mviq.paper.{module}"), function)(*data)
        return made


_ALL = (
    Artefact(
        "fig1",
        "ln_q, exp_q and the Tsallis entropy component of N(2, 1), q = 1 to 5",
        "as q grows, ln_q and Tsallis entropy become flatter, exp_q steeper",
        "fig1:make",
    ),
    Artefact(
        "fig2",
        "Tsallis KL component of two Gaussians; Tsallis policies at q = 2 and q = 50",
        "Tsallis KL covers more mass than KL; truncation grows with q, or through τ",
        "fig2:make",
    ),
    Artefact(
        "fig3",
        "MVI(q) on CartPole-v1, q = 2 to 5: action gap minus ln_q π, residual R_q",
        "the difference settles around -0.5; the residual grows with q, jumps from 4 to "
        "5 and is negligible at 2",
        "fig3:make",
        experiments.CARTPOLE_Q,
    ),
    Artefact(
        "fig4",
        "Atari learning curves of MVI(2) and M-VI, the games with most improvement",
        "MVI(2) learns faster and ends higher",
        "fig4:selected",
        experiments.ATARI_COMPARISON,
    ),
    Artefact(
        "fig5",
        "percent improvement of MVI(2) over M-VI and over Tsallis-VI, per game",
        "of 20 games about 5 large, 5 about double, 7 comparable, 3 slightly worse; over "
        "100 % against Tsallis-VI in more than half of 35 (tested here: better in more than "
        "half of the games; over 100 % in more than half)",
        "fig5:make",
        experiments.ATARI_COMPARISON,
    ),
    Artefact(
        "fig6-left",
        "CartPole-v1, q = 2: the action gap against ln π replaced by a naive ln_q π",
        "the naive curve is flat",
        "fig6:left",
        experiments.CARTPOLE_NAIVE,
    ),
    Artefact(
        "fig6-right",
        "Acrobot-v1: MVI(q) for several q, with 95 % intervals",
        "none is stated; tested here: every q learns",
        "fig6:right",
        experiments.ACROBOT_Q,
    ),
    Artefact(
        "fig7",
        "Atari learning curves of MVI(2), M-VI and Tsallis-VI, all games",
        "MVI(2) improves on both",
        "fig4:every",
        experiments.ATARI_COMPARISON,
    ),
    Artefact(
        "table1",
        "the settings for Gym, beside our presets",
        "the experiments had these settings (tested: our preset has them)",
        "printed_tables:first",
    ),
    Artefact(
        "table2",
        "the settings for Atari, beside our preset",
        "the experiments had these settings (tested: our preset has them)",
        "printed_tables:second",
    ),
    Artefact(
        "when-q-helps",
        "ours: regret of value iteration with errors, over noise, temperature, α, form and q",
        "a Tsallis KL divergence weights down errors that are far off, where KL averages all alike",
        "when_q_helps:make",
        minutes=3,
    ),
    Artefact(
        "sweep",
        "MVI(2) on Asterix and Seaquest over α and τ",
        "α = 0.9, τ = 10 is the best",
        "alpha_tau_sweep:make",
        experiments.SWEEP,
    ),
    Artefact(
        "minatar-q",
        "ours: MVI(q) on Asterix and Breakout of MinAtar, q = 1 to ∞, at two temperatures",
        "q = 2 does better than q = 1 at the same settings (tested here: every q > 1 does, also "
        "each at its better τ)",
        "minatar_q:make",
        experiments.MINATAR_Q,
    ),
)
ARTEFACTS = {artefact.name: artefact for artefact in _ALL}
"""All artefacts by name; ``mviq verify`` checks Theorems 1 to 4 and the appendix."""
