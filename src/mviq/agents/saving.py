"""Agents as files: what is written, and how it is checked before anything is built from it."""

from collections.abc import Collection
from typing import Any, TypeVar, cast, get_args

from stable_baselines3.common.base_class import maybe_make_env
from stable_baselines3.common.utils import check_for_correct_spaces, get_system_info

from mviq.agents.archive import Archive, Target, blaming, read_archive, write_archive
from mviq.agents.arguments import LARGEST, Rule, argument_names, arguments_of, number, whole
from mviq.agents.description import describe, restore
from mviq.agents.last_observations import last_observations, observations_for
from mviq.agents.learner import Status
from mviq.agents.parameters import check_parameters, no_more_weights_than, optimizer_state

SPACES = ("observation_space", "action_space")
_COUNT = whole(0)
COUNTERS: dict[str, Rule] = {
    "n_envs": whole(1, 2**16),
    "num_timesteps": _COUNT,
    "exploration_rate": number(0, 1),
    "status": (lambda value: value in get_args(Status), f"one of {get_args(Status)}"),
    "_total_timesteps": _COUNT,
    "_num_timesteps_at_start": _COUNT,
    "_current_progress_remaining": number(-LARGEST, 1),
    "_episode_num": _COUNT,
    "_n_calls": _COUNT,
    "_n_updates": _COUNT,
}
Agent = TypeVar("Agent")


def save_agent(agent: Any, path: Target, exclude: set[str]) -> None:
    """Write an agent: the arguments that build it, its counters and its numbers."""
    arguments = arguments_of(agent)
    unknown = exclude - arguments.keys()
    if unknown:
        raise ValueError(f"exclude may name {sorted(arguments)}, got {sorted(unknown)}")
    parameters = agent.get_parameters()
    optimizer = parameters["policy.optimizer"]
    content = {
        "class": type(agent).__name__,
        "arguments": {k: describe(v, k) for k, v in arguments.items() if k not in exclude},
        "counters": {name: describe(getattr(agent, name), name) for name in COUNTERS},
        "spaces": {name: describe(getattr(agent, name), name) for name in SPACES},
        "optimizer": [describe(group, "optimizer") for group in optimizer["param_groups"]],
        "system": get_system_info(print_info=False)[1],
    }
    moments = {
        f"{index}.{name}": value
        for index, state in optimizer["state"].items()
        for name, value in state.items()
    }
    write_archive(path, Archive(content, parameters["policy"], moments, last_observations(agent)))


def load_agent(
    cls: type[Agent],
    path: Target,
    env: Any,
    device: Any,
    changes: dict[str, Any],
    *,
    force_reset: bool,
    print_system_info: bool,
) -> Agent:
    """Build an agent again, for another environment or with other arguments if so wished."""
    archive = read_archive(path)
    if print_system_info:
        print(f"== CURRENT SYSTEM INFO ==\n{get_system_info(print_info=False)[1]}")
        print(f"== SAVED MODEL SYSTEM INFO ==\n{archive.content.get('system')}")
    with blaming(path):
        _check_class(cls, archive.content)
        arguments = _restored(archive.content, "arguments", set(changes))
        spaces, counters = _restored(archive.content, "spaces"), _counters(archive.content)
        _check_names("spaces", set(spaces), set(SPACES))
        _check_names("arguments", set(arguments), argument_names(cls), missing=True)
    arguments |= _checked_changes(cls, path, changes, set(arguments))
    if env is not None:
        env = cast(Any, cls)._wrap_env(maybe_make_env(env, 0), 0)
        check_for_correct_spaces(env, *(spaces[name] for name in SPACES))
        if not force_reset:
            _check_number_of_environments(path, counters["n_envs"], env.num_envs)
        counters["n_envs"] = env.num_envs
    with blaming(path):
        model = cast(Any, cls)(env=env, device=device, _init_setup_model=False, **arguments)
        vars(model).update(spaces, n_envs=counters["n_envs"])
        with no_more_weights_than(sum(tensor.numel() for tensor in archive.policy.values())):
            model._setup_model()
        vars(model).update(counters)
        model.set_parameters(parameters_for(model, archive))
        if env is None or not force_reset:
            vars(model).update(observations_for(model, archive.observations))
    return cast(Agent, model)


def _check_number_of_environments(path: Target, saved: int, given: int) -> None:
    if given != saved:
        raise ValueError(f"force_reset=False needs the {saved} environments of {path}, got {given}")


def parameters_for(agent: Any, archive: Archive) -> dict[str, Any]:
    """Return weights and optimiser state of a file as ``set_parameters`` takes them."""
    groups = restore(archive.content.get("optimizer"))
    moments = optimizer_state(agent.policy.optimizer, groups, archive.optimizer)
    found = {"policy": archive.policy, "policy.optimizer": moments}
    check_parameters(agent, found)
    return found


def _check_class(cls: type, content: dict[str, Any]) -> None:
    if content.get("class") != cls.__name__:
        raise ValueError(
            f"it holds an agent of class {content.get('class')!r:.40}, not {cls.__name__}"
        )


def _checked_changes(
    cls: type, path: Target, changes: dict[str, Any], stored: set[str]
) -> dict[str, Any]:
    """Require that what is given now has a name, and is all that the file was saved without."""
    known = argument_names(cls)
    unknown = sorted(changes.keys() - known)
    if unknown:
        raise ValueError(f"load can replace {', '.join(sorted(known))}; got {', '.join(unknown)}")
    for name in sorted(known - stored - changes.keys()):
        raise ValueError(f"{path} was saved without {name}: pass it to load, as {name}=…")
    return changes


def _restored(content: dict[str, Any], part: str, without: Collection[str] = ()) -> dict[str, Any]:
    described = content.get(part)
    if not isinstance(described, dict):
        raise ValueError(f"its {part} must be an object, got {described!r:.40}")
    return {name: restore(value) for name, value in described.items() if name not in without}


def _check_names(what: str, found: set[str], known: set[str], missing: bool = False) -> None:
    odd = sorted(found - known if missing else found ^ known)
    if odd:
        raise ValueError(f"its {what} must be {sorted(known)}, missing or unknown: {odd}")


def _counters(content: dict[str, Any]) -> dict[str, Any]:
    counters = _restored(content, "counters")
    _check_names("counters", set(counters), set(COUNTERS))
    for name, (good, allowed) in COUNTERS.items():
        if not good(counters[name]):
            raise ValueError(f"{name} must be {allowed}, got {counters[name]!r:.40}")
    return counters
