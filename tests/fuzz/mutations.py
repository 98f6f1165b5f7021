"""Mutations of bytes, JSON trees, CSV tables and TOML texts, each decided by one random generator."""

from __future__ import annotations

import copy
import json
import math
from random import Random
from typing import Any

__all__ = ["mutate_bytes", "mutate_csv", "mutate_json", "mutate_toml", "mutate_tree"]

_DEEP, _LONG = "@deep@", "@long@"
_ODD: tuple[Any, ...] = (
    math.nan, math.inf, -math.inf, -1, 0, 1, 2, -0.0, 0.5, 1e308, -1e308, 5e-324, 2**31, 2**63, -(2**63), 2**64,
    10**400, None, True, False, "", "x", "NaN", "1", "é\u2028\x00", "\ud800", "../../etc/passwd", "x" * 10_000, [], {},
    [[]], [None], ["x"], [1, 2, 3], {"": 0}, {"x": {"y": []}}, _DEEP, _LONG,
)  # fmt: skip
_CHUNKS = (
    b"\x00",
    b"\xff" * 8,
    b"\x80",
    b"NaN",
    b"-1",
    b"1e999",
    b"[",
    b"{",
    b'"',
    b",",
    b"\n",
    b"\r",
    b"\xed\xa0\x80",
)
_CELLS = (
    "", "nan", "inf", "-inf", "1e999", "-1", "x", "1,2", '"', '"a\nb"', "\x00", "é", "0x10", "1_000", " 1 ", "٣",
    "9" * 400, "1" * 140_000,
)  # fmt: skip


def mutate_bytes(rng: Random, content: bytes, other: bytes = b"") -> tuple[bytes, str]:
    """Change some bytes, whatever they mean.

    Args:
        rng: Decides everything.
        content: What is changed.
        other: A file of the same kind, for splices.
    """
    size = len(content)
    begin, end = sorted((rng.randrange(size + 1), rng.randrange(size + 1)))
    end = min(end, begin + rng.choice((1, 4, 64, 4096, size)))
    name = rng.choice(
        ("flip", "flips", "set", "truncate", "cut", "double", "insert", "swap", "splice", "zeros", "length")
    )
    data = bytearray(content)
    if name in ("flip", "flips") and size:
        for _ in range(1 if name == "flip" else rng.choice((2, 8, 64))):
            data[rng.randrange(size)] ^= 1 << rng.randrange(8)
    elif name == "set" and size:
        data[rng.randrange(size)] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))
    elif name == "truncate":
        del data[rng.choice((begin, size - 1 if size else 0, rng.randrange(min(size, 16) + 1))) :]
    elif name == "cut":
        del data[begin:end]
    elif name == "double":
        data[end:end] = data[begin:end] * rng.choice((1, 2, 16))
    elif name == "insert":
        data[begin:begin] = rng.choice(_CHUNKS) * rng.choice((1, 3, 100))
    elif name == "swap":
        data = data[end:] + data[begin:end] + data[:begin]
    elif name == "splice":
        data = data[:begin] + bytearray(other[rng.randrange(len(other) + 1) :])
    elif name == "zeros":
        data[begin:end] = bytes(end - begin)
    elif name == "length" and size > 8:  # a length field, wherever one may be
        place = rng.randrange(size - 8)
        width = rng.choice((1, 2, 4, 8))
        value = rng.choice((0, 1, 2 ** (8 * width) - 1, 2 ** (8 * width - 1), rng.randrange(2 ** (8 * width))))
        data[place : place + width] = value.to_bytes(width, rng.choice(("little", "big")))
    return bytes(data), f"bytes: {name}"


def mutate_tree(rng: Random, tree: Any) -> tuple[Any, str]:
    """Return a JSON tree with one to three changes: odd values, keys dropped, renamed, moved, nested."""
    tree = copy.deepcopy(tree)
    names = []
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        places = list(_places(tree))
        if not places:
            break
        holder, key = rng.choice(places)
        name = rng.choice(("odd", "odd", "odd", "odd", "drop", "rename", "wrap", "copy", "text", "more", "number"))
        names.append(name)
        _change(rng, name, holder, key, places)
    if rng.random() < 0.02:
        return rng.choice(_ODD), "tree: root"
    return tree, "tree: " + ", ".join(names)


def _places(tree: Any) -> Any:
    stack = [tree]
    while stack:
        holder = stack.pop()
        keys = list(holder) if isinstance(holder, dict) else range(len(holder)) if isinstance(holder, list) else ()
        for key in keys:
            yield holder, key
            stack.append(holder[key])


def _change(rng: Random, name: str, holder: Any, key: Any, places: list[Any]) -> None:
    value = holder[key]
    if name == "odd":
        holder[key] = copy.deepcopy(rng.choice(_ODD))
    elif name == "drop":
        del holder[key]
    elif name == "rename" and isinstance(holder, dict):
        holder[rng.choice((str(key) + "x", str(key)[:-1], str(key).upper(), "", "{{data}}"))] = holder.pop(key)
    elif name == "wrap":
        holder[key] = [value] if rng.random() < 0.5 else {str(key): value}
    elif name == "copy":
        other, place = rng.choice(places)
        if (isinstance(other, dict) and place in other) or (isinstance(other, list) and place < len(other)):
            holder[key] = copy.deepcopy(other[place])
    elif name == "text":
        holder[key] = str(value)[:1000]
    elif name == "more" and isinstance(value, list):
        holder[key] = value * rng.choice((0, 2, 50)) + [rng.choice(_ODD)] * rng.choice((0, 1))
    elif name == "number" and isinstance(value, int | float) and abs(value) < 1e300:
        holder[key] = rng.choice((-value, value * 1e6, value + 1, value * 0.5, float(value), value * 1e-9))


def mutate_json(rng: Random, tree: Any) -> tuple[bytes, str]:
    """Return a JSON text, mutated as a tree or as bytes."""
    plain = json.dumps(tree, indent=rng.choice((None, 2))).encode()
    if rng.random() < 0.3:
        return mutate_bytes(rng, plain, plain)
    changed, name = mutate_tree(rng, tree)
    text = json.dumps(changed)
    deep = rng.choice((70, 900, 100_000))
    text = text.replace(f'"{_DEEP}"', "[" * deep + "]" * deep).replace(f'"{_LONG}"', "9" * rng.choice((400, 5000)))
    return text.encode(), name


def mutate_csv(rng: Random, content: bytes) -> tuple[bytes, str]:
    """Return a CSV text with odd cells, columns and rows, or mutated as bytes."""
    if rng.random() < 0.35:
        return mutate_bytes(rng, content, content)
    rows = [line.split(",") for line in content.decode().splitlines()]
    name = rng.choice(("cell", "cell", "cells", "header", "drop row", "double row", "swap rows", "drop column",
                       "short row", "long row", "swap columns"))  # fmt: skip
    row, column = rng.randrange(len(rows)), rng.randrange(len(rows[0]))
    if name in ("cell", "cells"):
        for _ in range(1 if name == "cell" else 5):
            rows[rng.randrange(len(rows))][rng.randrange(len(rows[0]))] = rng.choice(_CELLS)
    elif name == "header":
        rows[0][column] = rng.choice((*_CELLS, rng.choice(rows[0]), rows[0][column] + " "))
    elif name == "drop row":
        del rows[row : row + rng.choice((1, len(rows)))]
    elif name == "double row":
        rows.insert(row, list(rows[row]))
    elif name == "swap rows":
        other = rng.randrange(len(rows))
        rows[row], rows[other] = rows[other], rows[row]
    elif name in ("drop column", "swap columns"):
        other = rng.randrange(len(rows[0]))
        for line in rows:
            if name == "drop column":
                del line[column]
            else:
                line[column], line[other] = line[other], line[column]
    elif name == "short row":
        del rows[row][column:]
    else:
        rows[row] += [rng.choice(_CELLS)] * rng.choice((1, 1000))
    ending = rng.choice(("\n", "\n", "\r\n", "\r"))
    return ending.join(",".join(line) for line in rows).encode(errors="surrogatepass"), f"table: {name}"


_TOML_VALUES = (
    "nan", "inf", "-inf", "-1", "0", "1e400", "9" * 400, "true", '"x"', "''", "[]", "[[]]", "{}", "{a = 1}",
    "1979-05-27", "07:32:00", '"\\ud800"', '"\\u0000"', "0x10", "[1, 'x']", "[" * 900 + "]" * 900, '"""', "",
)  # fmt: skip


def mutate_toml(rng: Random, content: bytes) -> tuple[bytes, str]:
    """Return a TOML text with odd values, keys and sections, or mutated as bytes."""
    if rng.random() < 0.3:
        return mutate_bytes(rng, content, content)
    lines = content.decode().splitlines()
    keys = [i for i, line in enumerate(lines) if " = " in line]
    name = rng.choice(("value", "value", "value", "key", "section", "drop", "double", "more"))
    place = rng.choice(keys)
    key, _, value = lines[place].partition(" = ")
    if name == "value":
        lines[place] = f"{key} = {rng.choice(_TOML_VALUES)}"
    elif name == "key":
        lines[place] = f"{rng.choice((key + 'x', key[:-1], '', 'a.b.c', 'title', 'rules', 'seed'))} = {value}"
    elif name == "section":
        section = rng.choice(("curriculum", "training", "actions", "rules", "paper", "x", "[rules]", "curriculum.x"))
        lines.insert(rng.randrange(len(lines) + 1), f"[{section}]")
    elif name == "drop":
        del lines[place]
    elif name == "double":
        lines.insert(place, lines[place])
    else:
        names = ("start_stiffness", "driver", "exponent", "seed", "monotone", "early_termination", "noise_std",
                 "windows", "constant_torque", "action_scale", "tables", "length", "reward",
                 "total_iterations")  # fmt: skip
        section = rng.choice(("curriculum", "training", "actions", "rules", "paper"))
        lines += [f"[{section}]", f"{rng.choice(names)} = {rng.choice(_TOML_VALUES)}"]
    return "\n".join(lines).encode(), f"toml: {name}"
