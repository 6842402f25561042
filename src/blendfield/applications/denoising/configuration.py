"""Every knob of the denoising study, checked before any work."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from blendfield import backends
from blendfield.errors import OptionError

NOISES = ("gaussian", "bimodal")
MODELS = ("free", "tied")
PROTOCOLS = ("A", "B", "C")
USUAL_MODEL = {"A": "free", "B": "tied", "C": "free"}
C_GRID = (0.1, 1.0, 10.0)
RIVALS = ("pseudo-likelihood", "lbp-lbfgs", "lbp-sgd", "mf-lbfgs", "svm", "lbp-smd", "mf-sgd", "mf-smd")
"""the quickest first"""
STUDIES = ("accuracy", "temperature", "sharing", "double-loop")
LARGEST_SIZE = 1024


@dataclass(frozen=True)
class DenoisingConfiguration:
    """What a study is given. OptionError, one line, for what makes no sense.

    noises: "gaussian", "bimodal"; model: "free", "tied", None for the usual one of each protocol; C: a number, None to
    choose on held-out training images from C_GRID; loss: Hamming loss in training; both: the blend with the other model
    and with the other loss too; protocols: of "A", "B", "C"; rivals: of RIVALS; studies: of STUDIES; images: a folder
    of the user's own binary pictures, "binary_images" for that data set, None for the generated ones; size: pixels a
    side; copies: noisy images per picture, a fifth of them for testing.
    """

    noises: tuple[str, ...] = ("gaussian",)
    model: str | None = None
    epsilon: float = 1.0
    counting_numbers: str = "cover"
    C: float | None = 1.0
    loss: bool = True
    both: bool = False
    protocols: tuple[str, ...] = PROTOCOLS
    rivals: tuple[str, ...] = ()
    studies: tuple[str, ...] = ("accuracy",)
    images: str | None = None
    size: int = 64
    copies: int = 50
    seed: int = 0
    tolerance: float = 1e-4
    max_iterations: int = 1000
    time_limit: float | None = None
    backend: str = "auto"
    threads: int | None = None

    def __post_init__(self) -> None:
        _one_or_more("noise", self.noises, NOISES)
        _one_or_more("protocol", self.protocols, PROTOCOLS)
        _one_or_more("study", self.studies, STUDIES)
        if self.rivals:
            _one_or_more("rival", self.rivals, RIVALS)
        _choice("model", self.model, (None, *MODELS))
        _choice("counting numbers", self.counting_numbers, ("ones", "cover", "cover-outer"))
        _number("epsilon", self.epsilon, "a temperature >= 0", self.epsilon >= 0)
        if self.C is not None:
            _number("C", self.C, "a number > 0", self.C > 0)
        _number("tolerance", self.tolerance, "a number > 0", self.tolerance > 0)
        if self.time_limit is not None:
            _number("time limit", self.time_limit, "seconds > 0", self.time_limit > 0)
        _integer("size", self.size, 4, LARGEST_SIZE)
        _integer("copies", self.copies, 5, 10_000)
        _integer("seed", self.seed, 0, 2**63 - 1)
        _integer("max_iterations", self.max_iterations, 1, 10**9)
        backends.get(self.backend)  # known and usable, or an error
        if self.threads is not None:
            _integer("threads", self.threads, 1, 4096)
        if self.images is not None and self.images != "binary_images" and not Path(self.images).is_dir():
            raise OptionError(f"images: expected a folder of pictures or binary_images, got {self.images!r:.200}")

    @property
    def testing(self) -> int:
        """Number of copies for testing."""
        return self.copies // 5

    def model_of(self, protocol: str) -> str:
        """ "free" or "tied"."""
        return self.model or USUAL_MODEL[protocol]

    def entries(self) -> dict[str, Any]:
        """For the record of the run."""
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}


def _choice(what: str, value: Any, choices: tuple[Any, ...]) -> None:
    if value not in choices:
        names = ", ".join(str(choice) for choice in choices if choice is not None)
        raise OptionError(f"{what}: expected one of {names}; got {value!r:.60}")


def _one_or_more(what: str, values: tuple[str, ...], choices: tuple[str, ...]) -> None:
    if not values:
        raise OptionError(f"{what}: expected at least one of {', '.join(choices)}")
    for value in values:
        _choice(what, value, choices)
    if len(set(values)) < len(values):
        raise OptionError(f"{what}: expected each at most once, got {', '.join(values)}")


def _number(what: str, value: Any, expected: str, fits: bool) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or not fits:
        raise OptionError(f"{what}: expected {expected}, got {value!r:.60}")


def _integer(what: str, value: Any, lowest: int, highest: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not lowest <= value <= highest:
        raise OptionError(f"{what}: expected a whole number from {lowest} to {highest}, got {value!r:.60}")
