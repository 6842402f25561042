"""The options of `infer`, checked before any work."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, cast

import numpy as np

from blendfield.backends.protocol import DataType
from blendfield.errors import OptionError
from blendfield.inference.anderson import Anderson

METHODS = ("norm-product", "belief-propagation", "mean-field", "exact")
ACCELERATIONS = ("anderson",)
DATA_TYPES = ("float64", "float32")
MOST_THREADS = 4096


@dataclass(frozen=True)
class Progress:
    """What a callback is told at every certificate; sums over all models of the call."""

    iteration: int
    """full sweeps so far"""
    upper: float
    lower: float
    gap: float
    seconds: float
    """since `infer` was called"""


@dataclass(frozen=True)
class Options:
    """The options of one call of `infer`, all valid."""

    epsilon: float
    method: str
    max_iterations: int
    tolerance: float
    time_limit: float | None
    callback: Callable[[Progress], object] | None
    threads: int | None
    dtype: DataType
    backend: str
    acceleration: Anderson | None
    certificate_every: int | None
    """None: on the automatic schedule"""
    damping: float | None
    """share of the old messages that stays; None: as the method sees fit"""
    restarts: int
    tighten: int
    """rounds with larger and larger regions, at epsilon = 0"""
    memory_limit: int | None
    """bytes"""


def check_options(
    *,
    epsilon: Any,
    method: Any,
    max_iterations: Any,
    tolerance: Any,
    time_limit: Any,
    callback: Any,
    threads: Any,
    dtype: Any,
    backend: Any,
    acceleration: Any,
    certificate_every: Any,
    damping: Any,
    restarts: Any,
    tighten: Any,
    memory_limit: Any,
) -> Options:
    """Raise OptionError for the first option that makes no sense."""
    epsilon = check_number("epsilon", epsilon, "a temperature >= 0")
    if epsilon != 0 and not 1e-100 <= epsilon <= 1e100:
        raise OptionError(f"epsilon must be 0 or between 1e-100 and 1e100; got {epsilon}")
    if not isinstance(backend, str):
        raise OptionError(f"backend must be a name such as 'auto', 'reference' or 'cpu'; got {backend!r}")
    if callback is not None and not callable(callback):
        raise OptionError(f"callback must be None or a function of one argument; got {callback!r}")
    return Options(
        epsilon=epsilon,
        method=check_choice("method", method, METHODS),
        max_iterations=check_integer("max_iterations", max_iterations, 0),
        tolerance=check_number("tolerance", tolerance, "a number >= 0"),
        time_limit=None if time_limit is None else check_number("time_limit", time_limit, "None or seconds >= 0", True),
        callback=callback,
        threads=None if threads is None else _threads(threads),
        dtype=check_data_type(dtype),
        backend=backend,
        acceleration=_acceleration(acceleration),
        certificate_every=None
        if isinstance(certificate_every, str) and certificate_every == "auto"
        else check_integer("certificate_every", certificate_every, 1, "'auto' or "),
        damping=_damping(damping, method),
        restarts=check_integer("restarts", restarts, 0),
        tighten=_tighten(tighten, method, epsilon),
        memory_limit=None if memory_limit is None else check_integer("memory_limit", memory_limit, 0, "None or "),
    )


def check_number(name: str, value: Any, expected: str, infinite: bool = False) -> float:
    """`value` as a float >= 0; OptionError names the option."""
    real = isinstance(value, Real) and not isinstance(value, (bool, np.bool_))
    try:
        number = float(value) if real else math.nan
    except OverflowError:
        number = math.inf
    if not number >= 0 or (math.isinf(number) and not infinite):
        raise OptionError(f"{name} must be {expected}{'' if infinite else ', finite'}; got {value!r}")
    return number


def check_integer(name: str, value: Any, smallest: int, also: str = "") -> int:
    """`value` as an integer >= smallest; OptionError names the option."""
    if not isinstance(value, Integral) or isinstance(value, bool) or value < smallest:
        raise OptionError(f"{name} must be {also}an integer >= {smallest}; got {value!r}")
    return int(value)


def check_choice(name: str, value: Any, known: tuple[str, ...]) -> str:
    """`value` if it is one of `known`."""
    if not isinstance(value, str) or value not in known:
        raise OptionError(f"{name} {value!r} is unknown; expected one of {', '.join(map(repr, known))}")
    return value


def check_data_type(value: Any) -> DataType:
    """The name of the number type."""
    try:
        name = value if isinstance(value, str) else np.dtype(value).name if value is not None else ""
    except TypeError:
        name = ""
    if name not in DATA_TYPES:
        raise OptionError(f"dtype must be 'float64' or 'float32'; got {value!r}")
    return cast(DataType, name)


def _threads(value: Any) -> int:
    threads = check_integer("threads", value, 1, "None or ")
    if threads > MOST_THREADS:
        raise OptionError(f"threads must be None or an integer from 1 to {MOST_THREADS}; got {value!r}")
    return threads


def _damping(value: Any, method: Any) -> float | None:
    if value is None:
        return None
    if method != "belief-propagation":
        raise OptionError(f"damping applies to method 'belief-propagation' only; the method is {method!r}")
    damping = check_number("damping", value, "None or a number from 0 to below 1")
    if damping >= 1:
        raise OptionError(f"damping must be None or a number from 0 to below 1; got {value!r}")
    return damping


def _tighten(value: Any, method: Any, epsilon: float) -> int:
    rounds = check_integer("tighten", value, 0)
    if rounds and (method != "norm-product" or epsilon != 0):
        raise OptionError(
            "tighten applies to method 'norm-product' at epsilon = 0 only; "
            f"the method is {method!r}, epsilon is {epsilon:g}"
        )
    return rounds


def _acceleration(value: Any) -> Anderson | None:
    if value is None or isinstance(value, Anderson):
        return value
    if isinstance(value, str) and value in ACCELERATIONS:
        return Anderson()
    raise OptionError(f"acceleration must be None, 'anderson' or an Anderson(...) object; got {value!r}")
