"""The driver of the blend: temperatures, certificates, history, and when to stop."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np

from blendfield.backends.protocol import FloatArray, RealArray
from blendfield.engines.placement import recut
from blendfield.engines.protocol import Certificate, Engine, MessagesLost
from blendfield.errors import CheckpointError
from blendfield.inference.norm_product import annealing_temperatures
from blendfield.learning.blend import Blend, BlendOptions, BlendState
from blendfield.learning.completion import SWEEPS as COMPLETION_SWEEPS
from blendfield.learning.dual import DualPoint, height_of
from blendfield.learning.progress import Forecast, TrainingLine
from blendfield.learning.quasi_newton import QuasiNewton
from blendfield.learning.regularisers import Regulariser, divergence
from blendfield.learning.soft import SoftMarginalisation
from blendfield.learning.validation import Validation

T = TypeVar("T")

logger = logging.getLogger("blendfield.learning")

ANNEALING_ITERATIONS = 4
"""at each temperature above the one asked for"""
FACTOR = 0.2
"""from one temperature to the next, at epsilon = 0"""
SHARE = 0.3
"""at epsilon = 0: the temperature falls when its own gap is this small a share of the gap at 0"""
ROUND = 8
"""iterations between certificates at epsilon = 0"""
MOST_ROUNDS = 12
"""at one temperature"""
COLDEST = 1e-7
LAST_SWEEPS = 5
"""at weights that are not those of the last iteration, before they get their bounds"""
LOOSE = 1e-2
"""relative gap at which unobserved labels are completed anew, until that gains no more than the tolerance"""
COUNTERS = (
    "primal",
    "gap",
    "spread",
    "iteration",
    "passes",
    "temperature",
    "_next_certificate",
    "_stage",
    "_round",
    "_done",
    "_checkpoint_at",
    "_complete_at",
)
"""of `Training`, which continue in a resumed run"""


@dataclass(frozen=True)
class TrainingProgress:
    """What a callback is told after every iteration."""

    iteration: int
    primal: float
    dual: float
    """the best so far; nan before the first certificate"""
    gap: float
    passes: float
    seconds: float
    epsilon: float
    """temperature at work: above the one asked for while it comes down"""
    weights: FloatArray
    """float64 [K]: those that `primal` belongs to"""
    validation: float = math.nan
    """share of wrong labels on the validation set, at the last check"""
    seconds_left: float = math.nan
    """about; nan or inf where nothing speaks for an end"""


@dataclass
class Limits:
    """When to stop."""

    tolerance: float = 1e-6
    max_iterations: int = 1000
    time_limit: float | None = None
    callback: Callable[[TrainingProgress], object] | None = None
    certificate_every: int | None = None
    validation: Validation | None = None
    line: TrainingLine | None = None
    """on the terminal"""
    checkpoint: Callable[[Training], None] | None = None
    """called at every checkpoint: keeps `Training.state()`"""
    checkpoint_every: int = 0
    """iterations between checkpoints; 0: none"""


@dataclass
class History:
    """Equal-length lists, one entry per iteration at the temperature asked for."""

    iteration: list[int] = field(default_factory=list)
    primal: list[float] = field(default_factory=list)
    dual: list[float] = field(default_factory=list)
    gap: list[float] = field(default_factory=list)
    passes: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)

    def enter(self, *values: Any) -> None:
        """One entry of each, in the order above."""
        for name, value in zip(self.__dataclass_fields__, values, strict=True):
            getattr(self, name).append(value)

    def arrays(self) -> dict[str, Any]:
        """As arrays."""
        return {
            name: np.array(getattr(self, name), dtype=np.int64 if name == "iteration" else np.float64)
            for name in self.__dataclass_fields__
        }

    @classmethod
    def of_arrays(cls, arrays: dict[str, Any]) -> History:
        """The reverse of `arrays`."""
        return cls(**{name: arrays[name].tolist() for name in cls.__dataclass_fields__})


def solver_for(
    engine: Engine, regulariser: Regulariser, options: BlendOptions, state: BlendState
) -> Blend | QuasiNewton:
    """The way to iterate that suits the problem; see docs/decisions."""
    if options.gamma > 0:
        return SoftMarginalisation(engine, regulariser, options, state)
    if engine.exact and options.memory > 0:
        return QuasiNewton(engine, regulariser, options, state)
    return Blend(engine, regulariser, options, state)


class Training:
    """One run. After `run`: weights, primal, dual, gap, history, reason."""

    def __init__(
        self,
        engine: Engine,
        regulariser: Regulariser,
        epsilon: float,
        hottest: float,
        limits: Limits,
        options: BlendOptions,
        passes_per_sweep: float,
        weights: FloatArray,
        warm: bool = False,
    ) -> None:
        """`hottest`: a temperature of the size of the potentials. `warm`: start at `epsilon` at once."""
        self.engine = engine
        self.regulariser = regulariser
        self.epsilon = epsilon
        self.limits = limits
        self.passes_per_sweep = passes_per_sweep
        self.dual_point = DualPoint(regulariser, len(weights))
        self.history = History()
        self.blend = solver_for(engine, regulariser, options, BlendState(weights.copy()))
        self.warm = warm
        self.hottest = hottest
        self.weights = weights.copy()
        """float64 [K]: the best so far"""
        self.primal = math.inf
        self.gap = math.inf
        self.iteration = 0
        self.passes = 0.0
        self.reason = ""
        self.spread = math.inf
        self.temperature = epsilon
        self.seconds_before = 0.0
        self._next_certificate = 1
        self._started = time.perf_counter()
        self._mark = (0, math.inf, math.inf)
        # Where in the order of temperatures: which one, which round at it (at epsilon = 0), iterations done there.
        self._stage = 0
        self._round = 0
        self._done = 0
        self._checkpoint_at = 0
        self._forecast = Forecast(limits.tolerance)
        self._complete_at = max(self.limits.tolerance, LOOSE)

    @property
    def dual(self) -> float:
        """The best lower bound."""
        return self.primal - self.gap

    def seconds(self) -> float:
        """Since the run began, earlier parts of a resumed run included."""
        return self.seconds_before + time.perf_counter() - self._started

    def run(self) -> None:
        """Iterate until told to stop; Ctrl-C keeps the best weights."""
        try:
            self.reason = self._through_losses(self._solve)
        except KeyboardInterrupt:
            self.reason = "interrupted"
        finally:
            if self.limits.line is not None:
                self.limits.line.clear()
        self._through_losses(self._finish)
        logger.info(
            "%s after %d iterations: primal %.9g, dual %.9g, gap %.3g, %.1f s",
            self.reason,
            self.iteration,
            self.primal,
            self.dual,
            self.gap,
            self.seconds(),
        )

    def _through_losses(self, work: Callable[[], T]) -> T:
        """Do the work; whenever messages were lost on the way, begin anew with those there are and go on with it."""
        lost: MessagesLost | None = None
        while True:
            try:
                if lost is not None:
                    self._begin_anew()
                    lost = None
                return work()
            except MessagesLost as fault:
                lost = fault
                logger.warning("iteration %d: %s; training goes on", self.iteration, lost)

    def _begin_anew(self) -> None:
        """F at the last accepted weights and the messages there are now: the value that the next step has to beat. The
        bound stays what it was, but for the completion of unobserved labels, which is another one now.
        """
        self.blend.recover()
        self.passes += 1.0
        if self.engine.hidden:
            self.dual_point = DualPoint(self.regulariser, len(self.blend.state.weights))
        self.gap = math.inf
        if self.epsilon > 0 or self.engine.hidden:
            self.primal = self.blend.state.primal if self.temperature == self.epsilon else math.inf
        self._mark = (self.iteration, math.inf, math.inf)
        self._next_certificate = self.iteration + 1

    def _finish(self) -> None:
        """Bounds for the weights, whatever ended the iteration."""
        if self.primal == math.inf and self.reason != "diverged":  # the temperature asked for was not reached
            state = self.blend.state
            if len(state.accepted) == 0:
                state.accepted = self.weights
            self._evaluate(state.accepted)
        validation = self.limits.validation
        if validation is not None and self.reason != "diverged":
            if validation.best is None:  # stopped before the first check
                validation.check(self.iteration, self.weights)
            if validation.best is not None and not np.array_equal(validation.best, self.weights):
                self._evaluate(validation.best)
        # The primal value may have fallen since the last certificate; the best bound is as good as it was.
        self.gap = max(0.0, min(self.gap, self.primal - self.dual_point.value))

    def _evaluate(self, weights: FloatArray) -> None:
        """F and a bound for these weights instead of the last."""
        self.engine.set_epsilon(self.epsilon)
        self.blend.visit(weights, LAST_SWEEPS)
        self.weights = weights
        self.primal = math.inf
        self.certify()

    # What continues.

    def state(self) -> dict[str, Any]:
        """All that a resumed run needs, as plain data and arrays; to be asked for where checkpoints are made."""
        blend = self.blend.state
        return {
            "blend": {
                "weights": blend.weights,
                "accepted": blend.accepted,
                "primal": blend.primal,
                "scale": blend.scale,
                "successes": blend.successes,
            },
            "messages": self.engine.messages(),
            "dual_point": {
                "height": self.dual_point.height,
                "moments": self.dual_point.moments,
                "value": self.dual_point.value,
            },
            "history": self.history.arrays(),
            "weights": self.weights,
            "seconds": self.seconds(),
            "mark": list(self._mark),
            "validation": None if self.limits.validation is None else self.limits.validation.state(),
            **{name: getattr(self, name) for name in COUNTERS},
        }

    def resume(self, state: dict[str, Any]) -> None:
        """Go on from `state()` of a run over the same data with the same options."""
        self.blend.state = BlendState(**state["blend"])
        self.engine.set_epsilon(state["temperature"])
        self._set_messages(state["messages"])
        for name, value in state["dual_point"].items():
            setattr(self.dual_point, name, value)
        self.history = History.of_arrays(state["history"])
        self.weights = state["weights"]
        self.seconds_before = state["seconds"]
        iteration, primal, gap = state["mark"]
        self._mark = (iteration, primal, gap)
        for name in COUNTERS:
            setattr(self, name, state[name])
        if self.limits.validation is not None:
            self.limits.validation.resume(state["validation"])
        if self.iteration:
            self._anchor()

    def _set_messages(self, parts: list[RealArray]) -> None:
        """Those of a run whose chunks may have been cut differently."""
        sizes = [len(part) for part in self.engine.messages()]
        if self.engine.hidden and [len(part) for part in parts] != sizes:
            raise CheckpointError(
                "it is of a run with unobserved labels whose chunks were cut differently (by another engine, or for "
                "many more workers); go on with the engine it had"
            )
        self.engine.set_messages(recut(parts, sizes))

    def _checkpoint(self) -> None:
        self._checkpoint_at = self.iteration
        if self.limits.checkpoint is not None:
            self.limits.checkpoint(self)
        self._anchor()

    def _anchor(self) -> None:
        """The mixing memory is cleared at every checkpoint, so that an unbroken run and a resumed one go on alike."""
        self.blend.anchor()
        self.dual_point.forget()
        self.passes += 1.0

    def _checkpoint_due(self) -> bool:
        every = self.limits.checkpoint_every
        return every > 0 and self.iteration - self._checkpoint_at >= every

    # Temperatures.

    def _solve(self) -> str:
        if self.engine.hidden and self.iteration == 0:
            self.engine.complete(self.weights, self.epsilon, self.hottest)
            self.passes += COMPLETION_SWEEPS * self.passes_per_sweep
        if self.limits.checkpoint is not None and self.iteration == 0:
            self.limits.checkpoint(self)
        if self.epsilon > 0:
            temperatures = [self.epsilon]
            if not self.warm and not self.engine.exact:
                temperatures = [*annealing_temperatures(self.epsilon, self.hottest), self.epsilon]
            while self._stage < len(temperatures) - 1:
                if (reason := self._at(temperatures[self._stage], ANNEALING_ITERATIONS)) is not None:
                    return reason
                self._stage += 1
            return self._at(self.epsilon, self.limits.max_iterations + 1) or "max_iterations"
        while True:
            temperature = self.hottest * FACTOR ** (self._stage + (2 if self.warm else 0))
            temperature = max(COLDEST * self.hottest, temperature)
            if (reason := self._at(temperature, ROUND)) is not None:
                return reason
            at_zero = self.certify(temperature)
            if (reason := self._report(True)) is not None:
                return reason
            rest = divergence(self.regulariser, self.blend.state.accepted, at_zero.moments)
            self._round += 1
            if self._round == MOST_ROUNDS or self.spread + rest <= SHARE * (at_zero.divergence + rest):
                self._round = 0
                self._stage += 1

    def _at(self, temperature: float, iterations: int) -> str | None:
        """So many iterations at one temperature; the reason to stop, if there is one."""
        if temperature != self.temperature or self.blend.state.primal == math.inf:
            self.engine.set_epsilon(temperature)
            self.blend.forget()
            self.temperature = temperature
        final = temperature == self.epsilon
        while self._done < iterations:
            if (reason := self._exhausted()) is not None:
                return reason
            trials = self.blend.trials
            accepted = self.blend.step()
            self.iteration += 1
            self._done += 1
            self.passes += self.blend.options.sweeps * self.passes_per_sweep + 1 + self.blend.trials - trials
            checkpoint = accepted and self._checkpoint_due()
            if final and accepted:
                self.primal, self.weights = self.blend.state.primal, self.blend.state.accepted
                # A checkpoint has a certificate, so that runs with other limits have it too.
                due = self._certificate_due() or checkpoint
                if due:
                    self.certify()
                if (reason := self._report(due)) is not None:
                    return reason
            elif (reason := self._tell()) is not None:
                return reason
            if checkpoint:
                self._checkpoint()
        self._done = 0
        return None

    def certify(self, smoothing: float | None = None) -> Certificate:
        """Take F and a lower bound at the present state; at epsilon = 0 from beliefs at temperature `smoothing`."""
        if isinstance(self.blend, SoftMarginalisation):
            self.primal, self.gap = self.blend.bounds()
            self.dual_point.value = max(self.dual_point.value, self.primal - self.gap)
            return Certificate(self.primal, self.gap, np.zeros(0), self.gap)
        self.blend.settle()
        weights = self.blend.state.accepted
        certificate = self._free_certificate()
        if certificate is None:
            certificate = self.engine.certificate(
                weights, self.epsilon, smoothing or self.epsilon or COLDEST * self.hottest
            )
        primal = certificate.value + self.regulariser.value(weights)
        gap = certificate.divergence + divergence(self.regulariser, weights, certificate.moments)
        self.dual_point.add(height_of(certificate, weights), certificate.moments)
        if self.epsilon == 0 and primal < self.primal:
            self.weights = weights
        if self.epsilon > 0 or primal < self.primal:
            self.primal = primal
        else:
            gap = math.inf  # of other weights than the best
        self.gap = max(0.0, min(gap if gap == gap else math.inf, self.primal - self.dual_point.value))
        self.spread = certificate.spread
        return certificate

    # Unobserved labels.

    def _complete(self) -> None:
        """Alternate: the beliefs in place of unobserved labels are made better at the present weights. When that gains
        little, they stay while the rest converges."""
        self.blend.settle()
        weights = self.blend.state.accepted
        smoothing = self.temperature or self.epsilon
        fall = self.engine.complete(weights, self.epsilon, smoothing)
        self.passes += COMPLETION_SWEEPS * self.passes_per_sweep
        little = self.limits.tolerance * max(1.0, abs(self.primal))
        if fall <= little:
            self._complete_at = self.limits.tolerance if self._complete_at > self.limits.tolerance else -1.0
        logger.info("completion: the objective falls by %.3g", fall)
        # F is another function now, and so is its dual.
        self.dual_point = DualPoint(self.regulariser, len(weights))
        self.blend.anchor()
        self.passes += 1.0
        self.primal = self.blend.state.primal if self.temperature == self.epsilon else math.inf
        self.gap = math.inf
        self._mark = (self.iteration, math.inf, math.inf)
        self._next_certificate = self.iteration + 1

    # When to stop.

    def converged(self) -> bool:
        """gap <= tolerance * max(1, |primal|)."""
        return self.gap <= self.limits.tolerance * max(1.0, abs(self.primal))

    def _exhausted(self) -> str | None:
        if self.iteration >= self.limits.max_iterations:
            return "max_iterations"
        if self.limits.time_limit is not None and self.seconds() >= self.limits.time_limit:
            return "time_limit"
        return None

    def _free_certificate(self) -> Certificate | None:
        if self._certificates_are_free() and isinstance(self.blend, QuasiNewton):
            return self.blend.certificate()
        return None

    def _certificates_are_free(self) -> bool:
        """Every evaluation is one."""
        soft = isinstance(self.blend, SoftMarginalisation)
        return self.temperature == self.epsilon > 0 and isinstance(self.blend, QuasiNewton) and not soft

    def _certificate_due(self) -> bool:
        every = self.limits.certificate_every
        if every is None and self._certificates_are_free():
            return True
        last = self.iteration >= self.limits.max_iterations
        if self.iteration < self._next_certificate:
            return last
        if every is not None:
            self._next_certificate = self.iteration + every
        elif self.iteration < 8:
            self._next_certificate = 2 * self.iteration
        else:
            self._next_certificate = math.ceil(1.2 * self.iteration)
        return True

    def _report(self, certified: bool) -> str | None:
        dual, gap = (self.dual, self.gap) if certified else (math.nan, math.nan)
        self.history.enter(self.iteration, self.primal, dual, gap, self.passes, self.seconds())
        validation = self.limits.validation
        exhausted = False
        if validation is not None and validation.due(self.iteration):
            exhausted = validation.check(self.iteration, self.weights)
            logger.info("iteration %d: validation error %.6g", self.iteration, validation.errors[-1])
        if certified:
            logger.info(
                "iteration %d: primal %.9g, dual %.9g, gap %.3g", self.iteration, self.primal, self.dual, self.gap
            )
            self._forecast.add(self.iteration, self.gap / max(1.0, abs(self.primal)))
        reason = self._tell()
        if certified and self.engine.hidden and self.gap <= self._complete_at * max(1.0, abs(self.primal)):
            self._complete()
        elif certified and self.converged():
            return "converged"
        if exhausted:
            return "validation"
        if reason is None and certified and self._stalled():
            return "stalled"
        return reason

    def _tell(self) -> str | None:
        callback, line = self.limits.callback, self.limits.line
        if callback is None and (line is None or not line.due):
            return None
        known = math.isfinite(self.gap)
        validation = self.limits.validation
        progress = TrainingProgress(
            iteration=self.iteration,
            primal=self.primal,
            dual=self.dual if known else math.nan,
            gap=self.gap if known else math.nan,
            passes=self.passes,
            seconds=self.seconds(),
            epsilon=self.temperature,
            weights=self.weights,
            validation=validation.errors[-1] if validation is not None and validation.errors else math.nan,
            seconds_left=self._forecast.seconds_left(
                self.iteration, self.seconds(), self.limits.max_iterations, self.limits.time_limit
            ),
        )
        if line is not None:
            line(progress)
        answer = None if callback is None else callback(progress)
        return "callback" if isinstance(answer, (bool, np.bool_)) and bool(answer) else None

    def _stalled(self) -> bool:
        """Neither F nor the gap got any better during half as many iterations again (and twenty)."""
        if self.epsilon == 0 and self.temperature > COLDEST * self.hottest:
            return False
        at, primal, gap = self._mark
        lower = primal == math.inf or self.primal < primal - 1e-14 * abs(primal)
        if lower or self.gap < 0.99 * gap:
            self._mark = (self.iteration, min(self.primal, primal), min(self.gap, gap))
            return False
        return self.iteration >= 1.5 * at + 20
