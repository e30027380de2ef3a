"""Seeded damage to files and arguments: bits, lengths, values of a tree, words of a text."""

import copy
import json
import math
import os
import random
from collections.abc import Callable, Iterator
from typing import Any

TRIES = int(os.environ.get("FUZZ", "12"))  # of every row of a table; ``make fuzz`` has more
WRONG: tuple[Any, ...] = (
    *(None, True, -1, 0, 2**31, -(2**63), 10**30, 1e400, float("nan"), 0.5, "", "nope", "x" * 5000),
    *([], [[]], [None], [-1] * 3, {}, {"same": "nope"}, {"same": []}, {"constant": "x"}),
    *({"ndarray": None}, {"ndarray": ["<f8", [2**40]]}, {"Tensor": None}, {"dict": {}}),
    *({"dict": []}, {"tuple": [1, 2]}, {"class": "system"}, {"object": ["Generator", {}]}),
    *({"object": []}, {"float": ["nan"]}, {"bytes": ["00"]}, {"deque": [-1, 2]}),
)
WORDS = (
    *("!!bool abc", "!!int x", "2024-99-99", "!!python/name:os.system", "<<: *a", "&a [*a]", "*b"),
    *("[" * 3000, "{a: " * 3000, "a.b.c = 1", "1e9", "10" * 30, "9" * 5000, "-1", "nan", "''"),
    *("null", "[]", "{}", "? [1]", "- - -", "\t", "\x00", "\x1b[31m", "[/red]", "\ud800", "é", "'"),
)


def bits(content: bytes, rng: random.Random) -> bytes:
    """Flip a bit, cut the end off, or repeat a part."""
    damaged = bytearray(content)
    kind = rng.randrange(4)
    place = rng.randrange(len(damaged))
    if kind == 0:
        del damaged[place:]
    elif kind == 1:
        damaged[place:place] = damaged[: rng.randrange(len(damaged))][-64:]
    else:
        damaged[place] ^= 1 << rng.randrange(8)
    return bytes(damaged)


def text(content: bytes, rng: random.Random) -> bytes:
    """Put a word at a place where there is one, or after all."""
    lines = content.decode().splitlines()
    i = rng.randrange(len(lines))
    head, colon, _ = lines[i].partition(rng.choice((": ", " = ")))
    word = rng.choice(WORDS)
    lines[i] = rng.choice((f"{head}{colon}{word}", word, f"{lines[i]}\n{word}", f"&b {lines[i]}"))
    return "\n".join(lines).encode("utf-8", "surrogatepass")


def tree(content: bytes, rng: random.Random) -> bytes:
    """Replace or remove one value of a JSON text."""
    root = json.loads(content)
    return json.dumps(changed_tree(root, rng.choice(list(nodes(root))), rng)).encode()


def nodes(root: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Return where every value of a tree is."""
    for key, value in root.items() if isinstance(root, dict) else enumerate(root):
        yield (*path, key)
        if isinstance(value, dict | list):
            yield from nodes(value, (*path, key))


def changed_tree(root: Any, where: tuple[Any, ...], rng: random.Random) -> Any:
    root = copy.deepcopy(root)
    holder = root
    for key in where[:-1]:
        holder = holder[key]
    kind = rng.randrange(8)
    if kind == 0:
        del holder[where[-1]]
    elif kind == 1 and isinstance(holder, dict):
        holder[rng.choice(("step", "__class__", "x.y", ""))] = rng.choice(WRONG)
    else:
        holder[where[-1]] = rng.choice(WRONG)
    return root


Change = Callable[[bytes, random.Random], bytes]


def tries(name: str, cost: int = 1) -> Iterator[random.Random]:
    """Yield as many generators as there are to be tries, the same for the same name."""
    for number in range(math.ceil(TRIES / cost)):
        yield random.Random(f"{name} {number} {os.environ.get('FUZZ_SEED', 0)}")
