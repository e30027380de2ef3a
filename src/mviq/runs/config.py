"""The configuration of one training run, with help texts and checks.

The help text of a field is also used by the command line. Defaults and their sources are in
``presets``. Torch is imported only when a ``Config`` is created, so that ``--help`` is quick.
"""

import hashlib
import json
import math
import re
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Literal, NamedTuple, get_args

from mviq.choices import Form, PolicyMethod
from mviq.env_families import FAMILIES

PRESET_NAMES = (*dict.fromkeys(family.preset for family in FAMILIES), "btr")
HASH_LENGTH = 8
FEW = 3  # evaluations; a curve of fewer says little
SEEDS = 2**31
LARGEST = 2**63  # integers must fit in 64 bits
MOST_THREADS = 1024  # native libraries abort the process if they cannot create their threads


class Critic(NamedTuple):
    """How the value of an action is represented."""

    agent: str  # the class in mviq.agents
    prefix: str = ""  # what reports put before the name of the algorithm
    settings: tuple[str, ...] = ()  # the fields that its network takes


CRITICS = {
    "scalar": Critic("MVI"),
    "quantile": Critic("QRMVI", prefix="QR-", settings=("n_quantiles",)),
    "implicit": Critic("IQMVI", prefix="IQ-", settings=("fractions", "head")),
}


def option(text: str, *, identity: bool = True, optional: bool = False) -> Any:
    """Declare a field; ``identity`` says whether it can change what is learnt or measured.

    ``optional`` marks users' own components and settings added later: without a value they are not
    hashed and may be missing in config.yaml, so that runs from before they existed stay valid.
    """
    return field(metadata={"help": text, "identity": identity, "optional": optional})


@dataclass(frozen=True, kw_only=True)
class Config:
    """Everything that determines a run; ``mviq.runs.resolve`` fills in what is not given."""

    env: str = option("Gymnasium id: CartPole-v1, MinAtar/Breakout-v1, ALE/Pong-v5, …")
    preset: str = option(
        f"set of defaults: {', '.join(PRESET_NAMES)} (chosen by the environment)", identity=False
    )
    given: tuple[str, ...] = option("settings given explicitly, not by the preset", identity=False)
    seed: int = option("seed of everything random in the run")
    total_steps: int = option("agent steps of training")

    algorithm: Literal["mvi", "m-vi", "tsallis-vi", "soft-vi", "advantage-learning", "vi"] = option(
        "mvi; vi is DQN, m-vi M-DQN, soft-vi soft DQN"
    )
    critic: Literal["scalar", "quantile", "implicit"] = option(
        "scalar (as DQN), quantile (as QR-DQN) or implicit (as IQN)"
    )
    q: float = option("entropic index ≥ 1: 1 softmax, 2 sparsemax, inf greedy")
    temperature: float = option("τ, the scale of action values at which the policy is soft")
    munchausen_alpha: float = option("α, weight of the Munchausen term, below 1 to learn")
    form: Form = option("the Munchausen term")
    clip: tuple[float, float] | None = option("bounds of the Munchausen term, as -1,0, or none")
    entropy_weight: float = option("c, weight of the entropy in the bootstrap")
    policy_method: PolicyMethod = option("exact, or the paper's approximation")
    acting: Literal["epsilon_greedy", "sample"] = option("how to act while learning")

    gamma: float = option("discount of the future")
    n_steps: int = option("steps of the return before bootstrapping")
    n_quantiles: int = option("quantiles of the return, for the quantile critic")
    network: Literal["mlp", "minatar", "nature", "impala"] = option(
        "mlp, or the convolutions of minatar, nature (Mnih et al. 2015) or impala (as in BTR)"
    )
    hidden: tuple[int, ...] = option("widths of the fully connected layers, as 512,512, or none")

    fractions: tuple[int, int] | None = option(
        "quantiles that the implicit critic samples in an update, and averages to act, or none for "
        "8,32",
        optional=True,
    )
    head: Literal["none", "dueling"] = option(
        "end of the implicit critic's network: dueling (a value and advantages) or none",
        optional=True,
    )

    learning_rate: float = option("step size of Adam")
    learning_rate_end: float | None = option(
        "final step size of a linear schedule, or none for a constant one"
    )
    adam_epsilon: float = option("ε of Adam")
    max_grad_norm: float | None = option("limit of the gradient's norm, or none")
    batch_size: int = option("transitions of one update")
    buffer_size: int = option("transitions the replay buffer holds")
    prioritized_replay: tuple[float, float] | None = option(
        "exponent of the priorities and first β of the importance weights, as 0.5,0.4, or none for "
        "uniform replay",
        optional=True,
    )
    learning_starts: int = option("steps of random actions before the first update")
    train_every: int = option("steps of each environment between updates")
    gradient_steps: int = option("updates each time")
    target_every: int = option("steps between copies to the target network")
    value_limit: float = option("an action value beyond it counts as divergence")

    epsilon_start: float = option("probability of a random action at the beginning")
    epsilon_end: float = option("probability of a random action after the decay")
    epsilon_fraction: float = option("fraction of the steps over which it decays linearly")

    n_envs: int = option("environments stepped together")
    time_limit: Literal["bootstrap", "terminal"] = option(
        "how the end of an episode by its time limit is stored: bootstrap (the future goes on) or "
        "terminal (it does not)"
    )
    observation_bounds: Literal["none", "space"] | tuple[float, ...] = option(
        "rescale observations from ±bounds to [-1, 1]: none, space (the observation space's own "
        "where they are below 1, others stay), or one number each as 2.4,5,1,6"
    )
    protocol: Literal["sb3", "machado"] = option("Atari: sb3 (life loss) or machado (sticky)")
    backend: Literal["wrappers", "vector", "overlap"] = option(
        "Atari: wrappers (resumes exactly), vector (ale-py's, faster; resumes with a new episode) "
        "or overlap (vector, and updates are made while the emulators work)"
    )

    wrappers: tuple[str, ...] = option(
        "your own environment wrappers as module:Class, the first innermost, or none",
        optional=True,
    )
    normalize: Literal["none", "observations", "rewards", "both"] = option(
        "what Stable-Baselines3's VecNormalize rescales by running statistics", optional=True
    )
    features_extractor: str | None = option(
        "your own features extractor as module:Class, or none", optional=True
    )
    learning_rate_schedule: str | None = option(
        "your own step size as module:function of the progress remaining, 1 to 0, or none",
        optional=True,
    )
    q_schedule: str | None = option(
        "your own q as module:function of the progress remaining, 1 to 0, or none", optional=True
    )
    callbacks: tuple[str, ...] = option(
        "your own callbacks as module:Class, or none", optional=True
    )

    log_every: int = option("steps between rows of progress.csv, besides those of evaluations")
    eval_every: int = option("steps between evaluations; 0 for none")
    eval_episodes: int = option("episodes of an evaluation")

    threads: int = option("threads of torch; results depend on it in the last bits")
    device: str = option("cpu, cuda, cuda:1, …, or auto", identity=False)
    checkpoint_every: int | None = option(
        "steps between additional checkpoints, or none; one is made every minute anyway",
        identity=False,
    )
    keep_checkpoint: bool = option("keep the last checkpoint of a finished run", identity=False)
    track: Literal["none", "tensorboard", "wandb", "mlflow", "trackio"] = option(
        "also show what is logged in TensorBoard, Weights & Biases, MLflow or Trackio, or none",
        identity=False,
    )
    video: bool = option("film an episode at every evaluation", identity=False)

    def __post_init__(self) -> None:
        _check_types(self)
        _check_ranges(self)
        _check_together(self)

    @property
    def hash(self) -> str:
        """A short hash of everything that determines the result."""
        values = asdict(self)
        names = [
            f.name
            for f in fields(self)
            if f.metadata["identity"]
            and not (f.metadata["optional"] and values[f.name] in (None, (), "none"))
        ]
        text = json.dumps({name: values[name] for name in names}, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:HASH_LENGTH]

    @property
    def name(self) -> str:
        """Return the name of the run's directory."""
        env = re.sub("[/:]", "-", self.env)  # "/" separates paths, and rsync reads ":" as a host
        return f"{env}_{self.algorithm}_q{self.q:g}_seed{self.seed}_{self.hash}"


AT_LEAST_ONE = (
    *("total_steps", "n_steps", "n_quantiles", "batch_size", "buffer_size", "train_every"),
    *("gradient_steps", "target_every", "n_envs", "log_every", "eval_episodes", "threads"),
)
POSITIVE = ("learning_rate", "adam_epsilon", "value_limit", "epsilon_fraction")
PROBABILITIES = ("gamma", "epsilon_start", "epsilon_end", "epsilon_fraction")


def _check_types(config: Config) -> None:
    """Check that every field has its annotated type; an integer is accepted as a float."""
    for declared in fields(config):
        value = getattr(config, declared.name)
        if not fits(value, declared.type):
            _refuse(declared.name, value, describe_type(declared.type))
        numbers = value if isinstance(value, tuple) else (value,)
        if any(isinstance(number, int) and abs(number) >= LARGEST for number in numbers):
            _refuse(declared.name, value, "below 2**63")
        if "float" in str(declared.type):  # q=2 and q=2.0 are the same run, with one name
            object.__setattr__(config, declared.name, _as_float(value))


def _as_float(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(map(float, value))
    return float(value) if isinstance(value, int) else value


def fits(value: object, kind: Any) -> bool:
    """Return whether a value is of an annotated type."""
    choices = get_args(kind)
    if kind in (int, float):
        numbers = (int,) if kind is int else (int, float)
        return isinstance(value, numbers) and not isinstance(value, bool)
    if isinstance(kind, type) and not choices:
        return isinstance(value, kind)
    if getattr(kind, "__origin__", None) is Literal:
        return value in choices
    if getattr(kind, "__origin__", None) is tuple:
        if not isinstance(value, tuple):
            return False
        kinds = choices[:1] * len(value) if choices[-1] is Ellipsis else choices
        return len(kinds) == len(value) and all(map(fits, value, kinds))
    return any(value is None if one is type(None) else fits(value, one) for one in choices)


def describe_type(kind: Any) -> str:
    """Describe the values of an annotated type, for messages."""
    choices = get_args(kind)
    if getattr(kind, "__origin__", None) is Literal:
        return "one of " + ", ".join(map(str, choices))
    if getattr(kind, "__origin__", None) is tuple:
        kinds = "names" if choices[0] is str else "numbers"
        return f"{'' if Ellipsis in choices else f'{len(choices)} '}{kinds} separated by commas"
    if type(None) in choices:
        return f"{describe_type(choices[0])}, or none"
    if choices:
        return ", or ".join(map(describe_type, choices))
    return {int: "a whole number", float: "a number", bool: "true or false", str: "text"}[kind]


def _check_ranges(config: Config) -> None:
    for name in AT_LEAST_ONE:
        _require(config, name, getattr(config, name) >= 1, "at least 1")
    for name in POSITIVE:
        _require(config, name, 0 < getattr(config, name) < math.inf, "a finite number > 0")
    for name in PROBABILITIES:
        _require(config, name, 0 <= getattr(config, name) <= 1, "between 0 and 1")
    for name in ("eval_every", "learning_starts"):
        _require(config, name, getattr(config, name) >= 0, "at least 0")
    _require(config, "threads", config.threads <= MOST_THREADS, f"at most {MOST_THREADS}")
    last = SEEDS - config.n_envs  # each environment has its own seed
    _require(config, "seed", 0 <= config.seed <= last, f"between 0 and {last}")
    end = config.learning_rate_end
    finite = end is None or 0 <= end < math.inf
    _require(config, "learning_rate_end", finite, "a finite number of at least 0, or none")
    unknown = set(config.given) - {f.name for f in fields(config)}
    _require(config, "given", not unknown, "names of settings")
    every = config.checkpoint_every
    _require(config, "checkpoint_every", every is None or every >= 1, "at least 1, or none")
    norm = config.max_grad_norm
    _require(config, "max_grad_norm", norm is None or norm > 0, "a number > 0, or none")
    _require(config, "hidden", all(width >= 1 for width in config.hidden), "widths of at least 1")
    numbers = config.fractions or (1,)
    _require(config, "fractions", min(numbers) >= 1, "two numbers of at least 1, or none")
    shares = config.prioritized_replay or ()
    proper = all(0 <= share <= 1 for share in shares)
    _require(config, "prioritized_replay", proper, "two numbers between 0 and 1, or none")
    bounds = config.observation_bounds
    finite = isinstance(bounds, str) or (bounds != () and all(0 < x < math.inf for x in bounds))
    _require(config, "observation_bounds", finite, "none, space, or finite numbers > 0")


def _check_together(config: Config) -> None:
    """Check fields that depend on each other; ``named`` checks those of the MVI(q) family."""
    from mviq.tsallis.family import FIXED, named

    bare = config.features_extractor is None or config.observation_bounds == "none"
    raw = "none with a features_extractor, which gets the observations as they are"
    _require(config, "observation_bounds", bare, raw)
    unscaled = config.normalize in ("none", "rewards")
    pictures = config.network == "mlp" or unscaled
    _require(config, "normalize", pictures, f"none or rewards for network {config.network}")
    once = unscaled or config.observation_bounds == "none"
    _require(config, "observation_bounds", once, f"none with normalize = {config.normalize}")
    free = config.q_schedule is None or "q" not in FIXED[config.algorithm]
    _require(config, "q_schedule", free, f"none for {config.algorithm}, whose q is fixed")
    end = config.learning_rate_end is None or "learning_rate_end" not in config.given
    constant = config.learning_rate_schedule is None or end
    _require(config, "learning_rate_end", constant, "none with a learning_rate_schedule")

    for name in sorted({name for critic in CRITICS.values() for name in critic.settings}):
        used, never_none = name in CRITICS[config.critic].settings, name in AT_LEAST_ONE
        unused = getattr(config, name) in (None, "none")
        unused |= never_none and name not in config.given
        allowed = f"{'left out' if never_none else 'none'} for the {config.critic} critic"
        _require(config, name, used or unused, allowed)

    named(config.algorithm, **family_fields(config))
    size = config.buffer_size
    _require(config, "batch_size", config.batch_size <= size, f"at most buffer_size = {size}")
    total = config.total_steps
    starts = f"below total_steps = {total}, or nothing is learnt"
    _require(config, "learning_starts", config.learning_starts < total, starts)
    often = f"at most total_steps / n_envs = {total // config.n_envs}, or nothing is learnt"
    _require(config, "train_every", config.train_every * config.n_envs <= total, often)
    parallel = f"at least n_envs × n_steps = {config.n_envs * config.n_steps}"
    _require(config, "buffer_size", size >= config.n_envs * config.n_steps, parallel)


def remarks(config: Config) -> list[str]:
    """Return warnings about settings that do not suit learning, with better ones."""
    total, starts = config.total_steps, config.learning_starts
    lines = []
    decayed = int(config.epsilon_fraction * total)
    if config.epsilon_start > config.epsilon_end and 0 < decayed <= starts:
        fraction = min(1.0, float(f"{3 * starts / total:.3g}"))
        lines.append(
            f"ε falls to {config.epsilon_end:g} by step {decayed}, before learning starts at "
            f"step {starts}: try --epsilon-fraction {fraction:g}"
        )
    evaluations = math.ceil(total / config.eval_every) if config.eval_every else FEW
    if evaluations < FEW:
        often = "only one evaluation" if evaluations == 1 else f"only {evaluations} evaluations"
        lines.append(f"there will be {often}: try --eval-every {max(total // 20, 1)}")
    if config.munchausen_alpha >= 1:
        lines.append(
            f"munchausen_alpha is {config.munchausen_alpha:g}: with 1 or more, differences between "
            "action values grow without bound"
        )
    if total // config.target_every * config.target_every <= starts:
        lines.append(
            f"the target network is never updated while learning: "
            f"try --target-every {max((total - starts) // 20, 1)}"
        )
    return lines


def family_fields(config: Config) -> dict[str, Any]:
    """Return the fields that define a member of the MVI(q) family."""
    names = ("q", "temperature", "munchausen_alpha", "form", "clip")
    return {name: getattr(config, name) for name in (*names, "entropy_weight", "policy_method")}


def _require(config: Config, name: str, good: bool, allowed: str) -> None:
    if not good:
        _refuse(name, getattr(config, name), allowed)


def _refuse(name: str, value: object, allowed: str) -> None:
    raise ValueError(f"{name} must be {allowed}, got {value!r}")
