"""Which environments there are, and what is said when there is none of a name."""

import difflib
import importlib
import re
from importlib.util import find_spec
from typing import Any

import gymnasium as gym

from mviq.registration import register_minatar

EXTRAS = {"atari": ("ale_py", "cv2"), "box2d": ("Box2D",), "minatar": ("minatar",)}
"""The modules that an extra of mviq installs."""
_SUGGESTIONS, _CUTOFF = 3, 0.6


def known_ids() -> list[str]:
    """Return the ids of all environments that can be made."""
    register_minatar()
    if not _is_missing("atari"):
        import ale_py

        gym.register_envs(ale_py)
    return sorted(env_id for env_id, spec in gym.registry.items() if _missing_extra(spec) is None)


def game_of(env_id: str) -> str | None:
    """Return the ROM's name of an Atari id, None for other ids.

    >>> game_of("ALE/SpaceInvaders-v5"), game_of("BreakoutNoFrameskip-v4"), game_of("CartPole-v1")
    ('space_invaders', 'breakout', None)
    """
    name = env_id.rpartition(":")[2]
    if name not in known_ids() or _package(gym.registry[name]) != "ale_py":
        return None
    return str(gym.registry[name].kwargs["game"])


def check_known(env_id: Any) -> None:
    """Say which names are close, and what to install, if there is no such environment."""
    if not isinstance(env_id, str) or not env_id:
        raise ValueError(f"env_id must be a Gymnasium id such as 'CartPole-v1', got {env_id!r}")
    module, _, name = env_id.rpartition(":")
    if module:
        _import(module, env_id)
    known = known_ids()
    if name in known:
        return
    if name in gym.registry:
        raise ValueError(f"{name} needs an extra: {_install(_missing_extra(gym.registry[name]))}")
    if _is_atari(name) and _is_missing("atari"):
        raise ValueError(f"{name} needs an extra: {_install('atari')}")
    close = _closest(name, known)
    hint = f"; did you mean {' or '.join(close)}?" if close else ""
    missing = list(filter(_is_missing, EXTRAS))
    more = f" More environments come with {_install(','.join(missing))}." if missing else ""
    raise ValueError(f"there is no environment {name!r}{hint}{more}")


def _import(module: str, env_id: str) -> None:
    """Import the module that registers an environment, as Gymnasium does for module:Env-v0."""
    try:
        importlib.import_module(module)
    except ModuleNotFoundError as error:
        found = f"there is no module {error.name!r}, which {env_id!r} needs"
        raise ValueError(f"{found}: install it, or name its directory in PYTHONPATH") from error


def _closest(wanted: str, known: list[str]) -> list[str]:
    """Return the nearest names, each in its newest version; the namespace may be wrong."""
    newest: dict[str, str] = {}
    for env_id in known:
        if not _is_old_atari(env_id) or "noframeskip" in wanted.lower():
            newest[_bare(env_id)] = max(newest.get(_bare(env_id), ""), env_id, key=_version)
    likeness = {name: _likeness(_bare(wanted), name) for name in newest}
    enough = max(_CUTOFF, 0.8 * max(likeness.values(), default=0.0))
    ranked = sorted(newest, key=lambda name: likeness[name], reverse=True)
    return [newest[name] for name in ranked if likeness[name] >= enough][:_SUGGESTIONS]


def _likeness(one: str, other: str) -> float:
    """Return how similar two names are, with their namespaces or without, from 0 to 1."""
    pairs = (one, other), (one.rpartition("/")[2], other.rpartition("/")[2])
    return max(difflib.SequenceMatcher(None, a.lower(), b.lower()).ratio() for a, b in pairs)


def _bare(env_id: str) -> str:
    return re.sub(r"-v\d+$", "", env_id)


def _version(env_id: str) -> int:
    found = re.search(r"-v(\d+)$", env_id)
    return int(found[1]) if found else -1


def _is_atari(env_id: str) -> bool:
    return env_id.startswith("ALE/") or "NoFrameskip" in env_id


def _is_old_atari(env_id: str) -> bool:
    return _package(gym.registry[env_id]) == "ale_py" and not env_id.startswith("ALE/")


def _package(spec: Any) -> str:
    return str(spec.entry_point).partition(".")[0]


def _missing_extra(spec: Any) -> str | None:
    """Return the extra that an environment still needs."""
    needed = {
        "minatar": spec.namespace == "MinAtar",
        "atari": _package(spec) == "ale_py",
        "box2d": ".box2d." in str(spec.entry_point),
    }
    return next((extra for extra, needs in needed.items() if needs and _is_missing(extra)), None)


def _is_missing(extra: str) -> bool:
    return any(find_spec(module) is None for module in EXTRAS[extra])


def _install(extra: str | None) -> str:
    return f"pip install 'mviq[{extra}]'"
