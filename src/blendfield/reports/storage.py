"""Run records in JSON files.

NaN is written as null, infinities as "inf" and "-inf"; figures carry their kind. Reading checks everything and names
the place of what it does not expect.
"""

from __future__ import annotations

import dataclasses
import json
import math
import os
import types
import typing
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin

import numpy as np

from blendfield.errors import FileFormatError, OptionError
from blendfield.files import written_atomically
from blendfield.reports.record import Bars, Lines, Panels, RunRecord

FORMAT = "blendfield.run"
SCHEMA = 1
FILE_NAME = "run.json"
_FIGURES = {"lines": Lines, "bars": Bars, "panels": Panels}
_KIND_OF = {kind: name for name, kind in _FIGURES.items()}


def write_run(path: str | os.PathLike[str], record: RunRecord) -> Path:
    """Writes the record to the file, or to `run.json` in the folder, at once or not at all; returns the file's path."""
    target = _file(path)
    content = {"format": FORMAT, "schema": SCHEMA, **_encoded(record, "record")}
    text = json.dumps(content, indent=1, allow_nan=False, ensure_ascii=False)
    target.parent.mkdir(parents=True, exist_ok=True)
    with written_atomically(target) as file:
        file.write(text.encode() + b"\n")
    return target


def read_run(path: str | os.PathLike[str]) -> RunRecord:
    """Reads a record from a file, or from `run.json` in a folder."""
    source = _file(path)
    try:
        content = json.loads(source.read_bytes())
    except FileNotFoundError:
        raise FileFormatError(f"{source}: there is no such file; expected a run record") from None
    except ValueError as fault:  # no JSON, or no UTF-8
        raise FileFormatError(f"{source}: not a run record: {fault}") from None
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise FileFormatError(f'{source}: not a run record (no "format": "{FORMAT}")')
    schema = content.get("schema")
    if schema != SCHEMA:
        newer = isinstance(schema, int) and schema > SCHEMA
        hint = " (written by a newer blendfield)" if newer else ""
        raise FileFormatError(f"{source}: expected schema {SCHEMA}, got {schema!r:.40}{hint}")
    fields = {name: value for name, value in content.items() if name not in ("format", "schema")}
    try:
        return typing.cast(RunRecord, _decoded(RunRecord, fields, "record"))
    except (_FaultError, OptionError) as fault:
        raise FileFormatError(f"{source}: {fault}") from None


def _file(path: str | os.PathLike[str]) -> Path:
    given = Path(path)
    return given / FILE_NAME if given.is_dir() or not given.suffix else given


def _encoded(thing: Any, place: str) -> Any:
    if dataclasses.is_dataclass(thing):
        kind = {"kind_of_figure": _KIND_OF[type(thing)]} if type(thing) in _KIND_OF else {}
        return kind | {f.name: _encoded(getattr(thing, f.name), f"{place}.{f.name}") for f in dataclasses.fields(thing)}
    if isinstance(thing, dict):
        return {str(key): _encoded(value, f"{place}.{key}") for key, value in thing.items()}
    if isinstance(thing, np.ndarray):
        return _encoded(thing.tolist(), place)
    if isinstance(thing, list | tuple):
        return [_encoded(value, f"{place}[{k}]") for k, value in enumerate(thing)]
    if isinstance(thing, np.generic):
        return _encoded(thing.item(), place)
    if isinstance(thing, float) and not math.isfinite(thing):
        return None if math.isnan(thing) else "inf" if thing > 0 else "-inf"
    if thing is None or isinstance(thing, bool | int | float | str):
        return thing
    if isinstance(thing, os.PathLike):
        return os.fspath(thing)
    raise OptionError(f"{place}: expected numbers, strings, lists or dictionaries, got {type(thing).__name__}")


class _FaultError(Exception):
    """Something in the file that does not fit; the reader adds the file's name."""


def _decoded(expected: Any, value: Any, place: str) -> Any:
    """`value` as an object of the type `expected` (a dataclass, a container or a plain type of the record)."""
    if expected is Any:
        return value
    origin, arguments = get_origin(expected), get_args(expected)
    if origin in (Union, types.UnionType):
        return _decoded_union(arguments, value, place)
    if origin is Literal:
        if value not in arguments:
            raise _FaultError(f"{place}: expected one of {arguments}, got {value!r:.40}")
        return value
    if origin is list:
        _expect(isinstance(value, list), "a list", value, place)
        return [_decoded(arguments[0], entry, f"{place}[{k}]") for k, entry in enumerate(value)]
    if origin is dict:
        _expect(isinstance(value, dict), "an object", value, place)
        return {key: _decoded(arguments[1], entry, f"{place}.{key}") for key, entry in value.items()}
    if dataclasses.is_dataclass(expected):
        return _decoded_fields(expected, value, place)
    if expected is float:
        if value is None or value in ("inf", "-inf"):
            return float(value or "nan")
        _expect(isinstance(value, int | float) and not isinstance(value, bool), "a number", value, place)
        return float(value)
    names = {str: "a string", bool: "true or false", int: "a whole number", type(None): "null"}
    fits = isinstance(value, expected) and (expected is bool or not isinstance(value, bool))
    _expect(fits, names[expected], value, place)
    return value


def _decoded_union(choices: tuple[Any, ...], value: Any, place: str) -> Any:
    if set(choices) == set(_FIGURES.values()):
        _expect(isinstance(value, dict), "a figure", value, place)
        kind = value.get("kind_of_figure")
        if kind not in _FIGURES:
            raise _FaultError(f"{place}.kind_of_figure: expected one of {', '.join(_FIGURES)}; got {kind!r:.40}")
        return _decoded(_FIGURES[kind], {k: v for k, v in value.items() if k != "kind_of_figure"}, place)
    if value is None and type(None) in choices:
        return None
    if isinstance(value, int) and int in choices:
        return _decoded(int, value, place)
    if isinstance(value, str) and str in choices and value not in ("inf", "-inf"):
        return value
    rest = [choice for choice in choices if choice not in (int, str, type(None))]
    return _decoded(rest[0], value, place)


def _decoded_fields(expected: Any, value: Any, place: str) -> Any:
    _expect(isinstance(value, dict), "an object", value, place)
    hints = typing.get_type_hints(expected)
    unknown = sorted(set(value) - set(hints))
    if unknown:
        raise _FaultError(f"{place}: unknown entry {unknown[0]!r:.40}")
    fields = {}
    for field in dataclasses.fields(expected):
        if field.name in value:
            fields[field.name] = _decoded(hints[field.name], value[field.name], f"{place}.{field.name}")
        elif field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
            raise _FaultError(f"{place}: {field.name!r} is missing")
        elif field.name in ("versions", "machine", "created"):
            raise _FaultError(f"{place}: {field.name!r} is missing")  # never those of the reader
    return expected(**fields)


def _expect(fits: bool, what: str, value: Any, place: str) -> None:
    if not fits:
        raise _FaultError(f"{place}: expected {what}, got {value!r:.40}")
