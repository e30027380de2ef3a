"""Reads and writes settings: on the command line, in YAML and in TOML."""

import argparse
import math
import tomllib
from collections.abc import Callable, Iterable
from dataclasses import Field, fields
from itertools import chain
from pathlib import Path
from typing import Any, Literal, get_args

from mviq.messages import error_line, one_line
from mviq.runs.config import Config, describe_type, fits
from mviq.runs.presets import check_names, sources

FIELDS: dict[str, Field[Any]] = {declared.name: declared for declared in fields(Config)}
NOTHING = ("none", "null", "")
MOST_DEPTH, MOST_VALUES = 50, 1_000_000  # of a file: more is a mistake, or an attack
MOST_BYTES = 2_000_000  # of a file: PyYAML may take 20 s to read that many
PICKING = ("preset", "algorithm", "total_steps")  # what the defaults of other settings depend on


def parse(name: str, text: str, kind: Any = None) -> Any:
    """Parse the text of a field, or of another value whose type is given as ``kind``.

    >>> parse("total_steps", "5e5"), parse("q", "inf"), parse("hidden", "512,512")
    (500000, inf, (512, 512))
    >>> parse("clip", "none") is None
    True
    """
    kind = FIELDS[name].type if kind is None else kind
    try:
        return _read(text.strip(), kind)
    except ValueError:
        raise ValueError(f"{name} must be {describe_type(kind)}, got {text!r}") from None


def _read(text: str, kind: Any) -> Any:
    choices = get_args(kind)
    origin = getattr(kind, "__origin__", None)
    if origin is Literal:
        return text
    if origin is tuple:
        if text.lower() in NOTHING:
            return ()
        return tuple(_read(part, choices[0]) for part in text.strip("()[]").split(","))
    if type(None) in choices:
        return None if text.lower() in NOTHING else _read(text, choices[0])
    if choices:  # a union of names and another type
        name = "none" if text.lower() in NOTHING else text.lower()
        return name if fits(name, choices[0]) else _read(text, choices[1])
    if kind is bool:
        return _truth(text)
    if kind is int:
        return _whole(text)
    return kind(text)


def _truth(text: str) -> bool:
    if text.lower() not in ("true", "yes", "1", "false", "no", "0"):
        raise ValueError(text)
    return text.lower() in ("true", "yes", "1")


def _whole(text: str) -> int:
    """Return a whole number, also from 5e5 or 500_000."""
    try:
        return int(text)
    except ValueError:
        number = float(text)
        if not number.is_integer():
            raise
        return int(number)


def read_file(path: Path) -> dict[str, Any]:
    """Return the settings of a YAML or TOML file; errors name the file and the setting."""
    content = load(path)
    try:
        check_names(name for name in content if name != "given")
        return {name: convert(name, value) for name, value in content.items()}
    except ValueError as error:
        raise ValueError(f"{path}: {error_line(error)}") from None


def load(path: Path) -> dict[Any, Any]:
    """Return the content of a YAML or TOML file, without conversion."""
    if not path.is_file():
        raise ValueError(f"there is no file {path}")
    if path.suffix not in (".yaml", ".yml", ".toml"):
        raise ValueError(f"{path} must end in .yaml, .yml or .toml")
    if (size := path.stat().st_size) > MOST_BYTES:
        raise ValueError(f"{path} must have at most {MOST_BYTES:,} bytes, has {size:,}")
    import yaml

    try:
        content = _load(path)
        _check_extent(content, _items_of)
    except OSError:
        raise
    except RecursionError:
        raise ValueError(f"{path} cannot be read: it is nested too deeply") from None
    except Exception as error:  # PyYAML lets through what its constructors raise
        what = "is not YAML" if isinstance(error, yaml.YAMLError) else "cannot be read"
        raise ValueError(f"{path} {what}: {one_line(error):.300}") from None
    if not isinstance(content, dict):
        raise ValueError(
            f"{path} must hold settings as 'name: value', got {type(content).__name__}"
        )
    return content


def _load(path: Path) -> Any:
    if path.suffix == ".toml":
        return tomllib.loads(path.read_text(encoding="utf-8"))
    import yaml

    return yaml.load(path.read_text(encoding="utf-8"), _strict_loader()) or {}


def _check_extent(root: Any, inside: Callable[[Any], Iterable[Any]]) -> None:
    """Raise ``ValueError`` if content is nested too deeply, or too large with aliases expanded."""
    count, ahead = 0, [(root, 0)]
    while ahead:
        value, depth = ahead.pop()
        count += 1
        if depth > MOST_DEPTH:
            raise ValueError(f"it is nested more than {MOST_DEPTH} levels deep")
        if count > MOST_VALUES:
            raise ValueError(f"it holds more than {MOST_VALUES:,} values")
        ahead += [(item, depth + 1) for item in inside(value)]


def _items_of(value: Any) -> Iterable[Any]:
    return value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()


def _nodes_of(node: Any) -> Iterable[Any]:
    if not isinstance(node.value, list):
        return ()
    return chain(*node.value) if node.id == "mapping" else node.value


def _strict_loader() -> Any:
    """Return a safe loader that refuses duplicate keys, of which PyYAML would use the last."""
    import yaml

    class Strict(yaml.SafeLoader):
        def construct_document(self, node: Any) -> Any:
            _check_extent(node, _nodes_of)  # before merge keys expand it
            return super().construct_document(node)

        def construct_mapping(self, node: Any, deep: bool = False) -> Any:
            seen: set[Any] = set()
            for key in (key for key, _ in node.value if isinstance(key, yaml.ScalarNode)):
                if key.value in seen:
                    raise yaml.YAMLError(f"{key.value} again in line {key.start_mark.line + 1}")
                seen.add(key.value)
            return super().construct_mapping(node, deep)

    return Strict


def convert(name: Any, value: Any, kind: Any = None) -> Any:
    """Convert a value of a file to the type of its field; YAML reads 1e-3 as text, for example.

    The type of a value that is not a field is given as ``kind``.

    >>> convert("learning_rate", "1e-3"), convert("hidden", [32, 32]), convert("clip", ["-inf", 0])
    (0.001, (32, 32), (-inf, 0.0))
    """
    if kind is None and name not in FIELDS:
        return value  # resolve reports it, with the closest known name
    kind = FIELDS[name].type if kind is None else kind
    plain = tuple(value) if isinstance(value, list) else value
    if fits(plain, kind):
        return plain
    text = ",".join(map(str, value)) if isinstance(value, list) else str(value)
    return parse(name, "none" if value is None else text, kind)


def add_setting_options(parser: argparse.ArgumentParser) -> None:
    """Add one option per field to a parser; options not given are not in the namespace."""
    group = parser.add_argument_group("settings of the run (default: the preset's, see --explain)")
    for name, declared in FIELDS.items():
        if name in ("env", "given"):
            continue
        flag = "--" + name.replace("_", "-")
        text = declared.metadata["help"].replace("%", "%%")
        options: dict[str, Any] = {"help": text, "default": argparse.SUPPRESS}
        if declared.type is bool:
            group.add_argument(flag, action=argparse.BooleanOptionalAction, **options)
        else:
            group.add_argument(flag, metavar=_metavar(declared.type), **options)


def _metavar(kind: Any) -> str:
    if getattr(kind, "__origin__", None) is Literal:
        return "{" + ",".join(map(str, get_args(kind))) + "}"
    return {int: "N", float: "X", str: "NAME"}.get(kind, "X,X" if "tuple" in str(kind) else "X")


def given(options: argparse.Namespace) -> dict[str, Any]:
    """Return the fields that were given on the command line."""
    typed = {name: value for name, value in vars(options).items() if name in FIELDS}
    typed.pop("env", None)
    return {
        name: value if isinstance(value, bool) else parse(name, value)
        for name, value in typed.items()
    }


def merged(settings: dict[str, Any], typed: dict[str, Any]) -> dict[str, Any]:
    """Merge the settings of a file with those of the command line, which take precedence.

    The config.yaml of a run has every setting. If a setting that defaults depend on is changed,
    only the settings that were given explicitly for that run are taken from it.
    """
    if "given" not in settings:
        return settings | typed
    given = tuple(dict.fromkeys((*settings["given"], *typed)))
    if any(name in typed and typed[name] != settings.get(name) for name in PICKING):
        settings = {name: settings[name] for name in settings if name in ("env", *given)}
    return settings | typed | {"given": given}


def config_yaml(config: Config) -> str:
    """Return a configuration as commented YAML that ``read_file`` can read."""
    import yaml

    lines, source = [], sources(config)
    for name, declared in FIELDS.items():
        value = getattr(config, name)
        written = yaml.safe_dump(
            value, default_flow_style=True, allow_unicode=True, width=math.inf
        ).split("\n")[0]
        lines += [f"# {declared.metadata['help']} ({source[name]})", f"{name}: {written}"]
    return "\n".join(lines) + "\n"
