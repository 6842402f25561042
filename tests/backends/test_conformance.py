"""Every backend against the reference, and the suite against backends that are wrong."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from blendfield.backends import Certificate, get
from blendfield.backends.linear import HostPotentials
from blendfield.backends.protocol import Backend, LinearEvaluation
from blendfield.backends.reference import ReferenceBackend, ReferenceProblem
from blendfield.testing.conformance import CHECKS, Check, Tolerance, check_threads
from blendfield.testing.linear_conformance import LINEAR_CHECKS, check_linear

TOLERANCES = {"reference": Tolerance(), "cpu": Tolerance(float64=1e-10, float32=2e-5)}  # by backend


@pytest.fixture(params=list(TOLERANCES))
def backend(request: pytest.FixtureRequest) -> Backend:
    return get(request.param)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("check", [*CHECKS, *LINEAR_CHECKS])
def test_conforms(check: Check, backend: Backend, seed: int) -> None:
    check(backend, np.random.default_rng(seed), TOLERANCES[backend.name])


# Backends that are wrong in one place each: the check named must notice.


def fault(method: str, change: Callable[[Any], Any]) -> type[ReferenceProblem]:
    """The reference with what `method` returns changed."""

    def wrong(self: ReferenceProblem, *arguments: Any, **options: Any) -> Any:
        return change(getattr(ReferenceProblem, method)(self, *arguments, **options))

    return type("Faulty", (ReferenceProblem,), {method: wrong})


class SkipsTheLastClass(ReferenceProblem):
    def sweep(self, count: int = 1) -> None:
        whole = self.program
        self.program = replace(whole, schedule=whole.schedule[:-1])
        super().sweep(count)
        self.program = whole


class EqualShares(ReferenceProblem):
    def _shares(self, r: int) -> list[float]:
        return [1.0 / (1 + len(self.links_up[r]))] * len(self.links_up[r])


class UncentredMessages(ReferenceProblem):
    def sweep(self, count: int = 1) -> None:
        super().sweep(count)
        self.lambdas = [table + 1.0 for table in self.lambdas]


class Overshoots(ReferenceProblem):
    def sweep(self, count: int = 1) -> None:
        before = list(self.lambdas)
        super().sweep(count)
        self.lambdas = [3.0 * new - 2.0 * old for new, old in zip(self.lambdas, before, strict=True)]


class ForgetsTheSavedPoint(ReferenceProblem):
    def save_point(self) -> None:
        pass


class DropsMessagesWithTheTemperature(ReferenceProblem):
    def set_epsilon(self, value: float) -> None:
        super().set_epsilon(value)
        self.lambdas = [np.zeros_like(table) for table in self.lambdas]


class KeepsOldPotentials(ReferenceProblem):
    def set_potentials(self, tables: Any) -> None:
        before = list(self.theta)
        super().set_potentials(tables)
        self.theta[0] = before[0]


class TakesAnyPotential(ReferenceProblem):
    def set_potentials(self, tables: Any) -> None:
        super().set_potentials(np.nan_to_num(tables))


class MovesTheWrongWay(ReferenceProblem):
    def trial(self, direction: Any, steps: Any) -> Any:
        return super().trial(direction, -steps)


def double(which: int) -> Callable[[Any], Any]:
    return lambda columns: tuple(2.0 * c if k == which else c for k, c in enumerate(columns))


def spoil_the_candidate(certificate: Certificate) -> Certificate:
    if certificate.candidate is None:
        return certificate
    return replace(certificate, candidate=np.maximum(certificate.candidate, 1e-3))


def halve_the_gap(certificate: Certificate) -> Certificate:
    return replace(certificate, gap=0.5 * certificate.gap)


def with_nan(values: Any) -> Any:
    return np.where(np.arange(len(values)) == 0, np.nan, values)


FAULTS: list[tuple[type[ReferenceProblem], str]] = [
    (SkipsTheLastClass, "sweeps"),
    (EqualShares, "sweeps"),
    (EqualShares, "block_minimum"),
    (EqualShares, "forest"),
    (UncentredMessages, "sweeps"),
    (Overshoots, "descent"),
    (Overshoots, "block_minimum"),
    (Overshoots, "float32_close"),
    (ForgetsTheSavedPoint, "history"),
    (DropsMessagesWithTheTemperature, "messages"),
    (fault("value", with_nan), "values"),
    (fault("value", with_nan), "messages"),
    (fault("value", lambda value: value * (1 + 1e-8)), "values"),
    (fault("beliefs", with_nan), "beliefs"),
    (fault("beliefs", with_nan), "support"),
    (KeepsOldPotentials, "potentials"),
    (KeepsOldPotentials, "derivatives"),
    (TakesAnyPotential, "potentials"),
    (MovesTheWrongWay, "trial"),
    (MovesTheWrongWay, "derivatives"),
    (fault("trial", double(0)), "trial"),
    (fault("trial", double(1)), "trial"),
    (fault("trial", double(1)), "derivatives"),
    (fault("trial", double(2)), "trial"),
    (fault("trial", double(2)), "derivatives"),
    (fault("value_and_beliefs", double(0)), "value_and_beliefs"),
    (fault("value_and_beliefs", double(1)), "value_and_beliefs"),
    (fault("certificate", spoil_the_candidate), "certificate"),
    (fault("beliefs", lambda beliefs: np.maximum(beliefs, 1e-12)), "beliefs"),
    (fault("certificate", halve_the_gap), "certificate"),
    (fault("score", with_nan), "score"),
    (fault("score", lambda score: np.maximum(score, -1e300)), "score"),
    (fault("decode", np.zeros_like), "decode"),
    (fault("decode", lambda labels: labels - 1), "decode"),
    (fault("local_search", np.zeros_like), "local_search"),
    (fault("block_search", np.zeros_like), "block_search"),
    (fault("push", lambda products: products + 1.0), "history"),
]


class FaultyBackend(ReferenceBackend):
    def __init__(self, problem: type[ReferenceProblem]) -> None:
        self.problem = problem

    def compile(self, program: Any, tables: Any, *, epsilon: float, dtype: Any = "float64", threads: Any = None) -> Any:
        return self.problem(program, tables, epsilon, dtype)


@pytest.mark.parametrize(("problem", "name"), FAULTS)
def test_the_suite_notices(problem: type[ReferenceProblem], name: str) -> None:
    check = next(check for check in CHECKS if check.__name__ == f"check_{name}")
    with pytest.raises(AssertionError):
        for seed in range(5):
            check(FaultyBackend(problem), np.random.default_rng(seed), Tolerance())


class LoudPotentials(HostPotentials):
    """Wrong in what `fault` names."""

    fault = ""

    def evaluate(self, curvature: bool, slot: int | None = None) -> LinearEvaluation:
        found = super().evaluate(curvature, slot)
        if self.fault not in ("value", "moments", "curvature", "products") or getattr(found, self.fault) is None:
            return found
        return replace(found, **{self.fault: getattr(found, self.fault) * (1.0 + 1e-6) + 1e-6})

    def set_weights(self, weights: Any) -> None:
        super().set_weights(weights + (1e-6 if self.fault == "weights" else 0.0))

    def trial(self, direction: Any, steps: Any) -> Any:
        return super().trial(direction + (1e-4 if self.fault == "trial" else 0.0), steps)

    def certificate(self, smoothing: float) -> Any:
        certificate, moments = super().certificate(smoothing)
        return certificate, moments + (1e-3 if self.fault == "certificate" else 0.0)


@pytest.mark.parametrize("name", ["value", "moments", "curvature", "products", "weights", "trial", "certificate"])
def test_the_suite_notices_wrong_linear_potentials(name: str) -> None:
    class Wrong(ReferenceBackend):
        def linear(self, *arguments: Any) -> Any:
            potentials = LoudPotentials(*arguments)
            potentials.fault = name
            return potentials

    with pytest.raises(AssertionError):
        for seed in range(3):
            check_linear(Wrong(), np.random.default_rng(seed), Tolerance())


def test_the_suite_notices_threads_that_disagree() -> None:
    class Noisy(ReferenceBackend):
        def compile(self, program: Any, tables: Any, *, threads: Any = None, **options: Any) -> Any:
            return super().compile(program, tables * (1.0 if threads == 1 else 1.0 + 1e-6), **options)

    with pytest.raises(AssertionError, match="two threads"):
        check_threads(Noisy(), np.random.default_rng(0), Tolerance())
