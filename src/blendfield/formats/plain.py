"""Plain Python data with arrays inside, as JSON and tensors: numbers, strings, lists, mappings, None and NumPy arrays.

Nothing that is read is ever executed. What JSON lacks is written as an object with one key:

    {"tensor": name}      an array, kept under that name
    {"pairs": [[k, v]]}   a mapping; keys may be None or numbers
    {"float": "inf"}      inf, -inf or nan
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from blendfield.errors import FileFormatError
from blendfield.formats.safetensors import Array, TensorFile


def pack(value: Any, name: str, tensors: dict[str, Array]) -> Any:
    """`value` as JSON data; its arrays go into `tensors`, under names that begin with `name`.

    TypeError for anything that is not plain data.
    """
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else {"float": repr(value)}
    if isinstance(value, np.ndarray):
        tensors[name] = value
        return {"tensor": name}
    if isinstance(value, Mapping):
        pairs = [
            [pack(key, f"{name}.key{k}", tensors), pack(item, f"{name}.{key}", tensors)]
            for k, (key, item) in enumerate(value.items())
        ]
        return {"pairs": pairs}
    if isinstance(value, (list, tuple)):
        return [pack(item, f"{name}.{k}", tensors) for k, item in enumerate(value)]
    raise TypeError(f"{name}: {type(value).__name__} is no plain data")


def unpack(data: Any, file: TensorFile) -> Any:
    """The reverse of `pack`; tuples have become lists."""
    if isinstance(data, list):
        return [unpack(item, file) for item in data]
    if not isinstance(data, dict):
        return data
    match data:
        case {"tensor": str(name), **rest} if not rest and name in file:
            return file[name]
        case {"float": ("inf" | "-inf" | "nan") as number, **rest} if not rest:
            return float(number)
        case {"pairs": list(pairs), **rest} if not rest and all(isinstance(p, list) and len(p) == 2 for p in pairs):
            unpacked = [(unpack(key, file), unpack(item, file)) for key, item in pairs]
            if all(key is None or isinstance(key, (bool, int, float, str)) for key, _ in unpacked):
                return dict(unpacked)
    raise FileFormatError(f"{file.path}: expected a tensor, a mapping or a number, got {str(data)!r:.60}")


def to_text(data: Any) -> str:
    """As strict JSON."""
    return json.dumps(data, separators=(",", ":"), allow_nan=False)


def from_metadata(file: TensorFile, key: str, plain: bool = True) -> Any:
    """What is kept as text under a key of the metadata: plain data, or bare JSON."""
    try:
        data = json.loads(file.metadata[key])
    except KeyError:
        raise FileFormatError(f"{file.path}: the metadata lack {key!r}") from None
    except (ValueError, RecursionError) as fault:
        raise FileFormatError(f"{file.path}: {key} is no JSON ({fault})") from None
    return unpack(data, file) if plain else data
