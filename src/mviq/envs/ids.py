"""The known environment ids, and suggestions for an unknown one."""

import difflib
import importlib
import re
from importlib.util import find_spec
from types import ModuleType
from typing import Any

import gymnasium as gym

from mviq.env_families import ATARI, FAMILIES, OTHER, EnvFamily, family_of
from mviq.messages import one_line

_SUGGESTIONS, _CUTOFF = 3, 0.6


def known_ids() -> list[str]:
    """Return the ids of all environments that can be made."""
    _register_plugins()
    return sorted(filter(_can_be_made, gym.registry))


def _register_plugins() -> None:
    for family in FAMILIES:
        if family.plugin and not _is_missing(family):
            gym.register_envs(importlib.import_module(family.package))


def _can_be_made(name: str) -> bool:
    return name in gym.registry and not _is_missing(_registered_as(gym.registry[name]))


def game_of(env_id: str) -> str | None:
    """Return the ROM name of an Atari id, None for other ids.

    >>> game_of("ALE/SpaceInvaders-v5"), game_of("BreakoutNoFrameskip-v4"), game_of("CartPole-v1")
    ('space_invaders', 'breakout', None)
    """
    name = env_id.rpartition(":")[2]
    _register_plugins()
    if not _can_be_made(name) or _registered_as(gym.registry[name]) is not ATARI:
        return None
    return str(gym.registry[name].kwargs["game"])


def check_known(env_id: Any) -> None:
    """Raise a ``ValueError`` for an unknown id, with similar ids and what to install."""
    if not isinstance(env_id, str) or not env_id:
        raise ValueError(f"env_id must be a Gymnasium id such as 'CartPole-v1', got {env_id!r}")
    module, _, name = env_id.rpartition(":")
    if module:
        import_for(module, env_id)
    _register_plugins()
    if _can_be_made(name):
        return
    registered = name in gym.registry
    family = _registered_as(gym.registry[name]) if registered else family_of(name)
    if registered or (family.plugin and _is_missing(family)):
        raise ValueError(f"{name} needs an extra: {_install(family.extra)}")
    close = _closest(name, known_ids())
    hint = f"; did you mean {' or '.join(close)}?" if close else ""
    missing = sorted(family.extra for family in FAMILIES if _is_missing(family))
    more = f" More environments come with {_install(','.join(missing))}." if missing else ""
    raise ValueError(f"there is no environment {name!r}{hint}{more}")


def import_for(module: str, path: str) -> ModuleType:
    """Import and return the module of a path such as module:Env-v0, or raise ``ValueError``."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        missing = f"there is no module {error.name!r}, which {path!r} needs"
        raise ValueError(f"{missing}: install it, or name its directory in PYTHONPATH") from error
    except Exception as error:  # any error in the module, or a name such as ".relative"
        said = f"{module!r} cannot be imported, which {path!r} needs"
        raise ValueError(f"{said}: {type(error).__name__} {one_line(error)}") from error


def _closest(wanted: str, known: list[str]) -> list[str]:
    """Return the most similar ids, each in its newest version; the namespace may differ."""
    newest: dict[str, str] = {}
    for env_id in known:
        spec = gym.registry[env_id]
        old_atari = _registered_as(spec) is ATARI and spec.namespace is None
        if not old_atari or "noframeskip" in wanted.lower():
            newest[_bare(env_id)] = max(newest.get(_bare(env_id), ""), env_id, key=_version)
    likeness = {name: _likeness(_bare(wanted), name) for name in newest}
    enough = max(_CUTOFF, 0.8 * max(likeness.values(), default=0.0))
    ranked = sorted(newest, key=lambda name: likeness[name], reverse=True)
    return [newest[name] for name in ranked if likeness[name] >= enough][:_SUGGESTIONS]


def _likeness(one: str, other: str) -> float:
    """Return the similarity of two names, with or without their namespaces, from 0 to 1."""
    pairs = (one, other), (one.rpartition("/")[2], other.rpartition("/")[2])
    return max(difflib.SequenceMatcher(None, a.lower(), b.lower()).ratio() for a, b in pairs)


def _bare(env_id: str) -> str:
    return re.sub(r"-v\d+$", "", env_id)


def _version(env_id: str) -> int:
    version = re.search(r"-v(\d+)$", env_id)
    return int(version[1]) if version else -1


def _registered_as(spec: Any) -> EnvFamily:
    """Return the family of a registered environment by its entry point, whatever its id."""
    code = str(spec.entry_point)
    owners = (family for family in FAMILIES if family.package and code.startswith(family.package))
    return next(owners, OTHER)


def _is_missing(family: EnvFamily) -> bool:
    return any(find_spec(module) is None for module in family.modules)


def _install(extra: str) -> str:
    return f"pip install 'mviq[{extra}]'"
