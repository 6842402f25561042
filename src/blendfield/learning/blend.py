"""The blend: learning and inference woven together (mathematics §4, §8).

F(w, lambda) is minimised by iterating one map T and mixing its images by Anderson's method:

    T(w, lambda):   one sweep of the messages at w, then, at the new messages,
                    w <- argmin over v of  gradient.(v - w) + sum_k d_k/2 (v_k - w_k)^2 + h1(v),
                    d_k = sum_r Var_{b_r}(phi_{k,r}) / (eps c_r)

Neither the step in w nor the mixed point is tried out: both are judged by F after the next sweep, which has to be made
anyway and can only lower F. Where F has risen, a mixed point is taken back and the mixing memory forgotten; a step in w
is taken back and shortened by a line search at fixed messages. So F never rises, and an iteration costs one sweep and
one evaluation.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from blendfield.backends.protocol import FloatArray
from blendfield.engines.protocol import Engine, Evaluation, Request
from blendfield.inference.anderson import mixing_weights
from blendfield.learning.regularisers import Regulariser
from blendfield.model.inner import inner_products

STEPS = np.array([0.6, 0.3, 0.1, 0.03, 0.01, 1e-3, 1e-5])
"""tried together when a step in w went too far"""
FADING = 0.3
"""without a C_k the curvature may fall to this share from one step to the next: at low temperatures beliefs are all but
certain, have no variance, and a step as long as the curvature says would lead nowhere"""
RECOVERY = 8
"""accepted iterations after which a shortened step is lengthened again"""


@dataclass
class BlendOptions:
    """How to iterate; see `BlendedLearner`."""

    sweeps: int = 1
    restart_messages: bool = False
    memory: int = 5
    """steps mixed; 0: none"""
    regularisation: float = 1e-10
    gamma: float = 0.0
    """strength of gamma/2 |lambda|^2: soft marginalisation; 0: messages are free"""
    slack: float = 1e-12
    """F may rise by this share of max(1, |F|): rounding"""


@dataclass
class BlendState:
    """What continues from one iteration to the next, besides the messages (which the engine keeps)."""

    weights: FloatArray
    """float64 [K]: where the next sweep starts"""
    primal: float = math.inf
    """F after the last accepted sweep"""
    accepted: FloatArray = field(default_factory=lambda: np.zeros(0))
    """float64 [K]: the weights of that sweep"""
    scale: float = 1.0
    """share of the step in w that is taken"""
    successes: int = 0
    """accepted iterations since the scale was changed"""


class Blend:
    """The iteration. `step` makes one; `state` and the engine's messages are all that continues after `forget`."""

    def __init__(self, engine: Engine, regulariser: Regulariser, options: BlendOptions, state: BlendState) -> None:
        self.engine = engine
        self.regulariser = regulariser
        self.options = options
        self.state = state
        self.slots = max(2, options.memory)
        engine.allocate(self.slots)
        self.trials = 0
        """evaluations in line searches, one for every length tried"""
        # Of the last accepted sweep: w, the step from there, F; and its slot.
        self._good: tuple[FloatArray, FloatArray, float] | None = None
        self._newest: int | None = None
        self._images: dict[int, FloatArray] = {}  # by slot, in order of age: w of T
        self._residuals: dict[int, FloatArray] = {}
        self._gram: FloatArray = np.zeros((self.slots, self.slots))
        self._mixing: FloatArray | None = None
        self._restore: int | None = None
        self._metric: FloatArray | None = None  # the curvature of the last step
        self._clear = True
        self._settled = True

    def anchor(self) -> None:
        """Begin anew at the last accepted weights and the messages as they are; everything else is forgotten.

        At a checkpoint the unbroken run does this, and the resumed one, so that both go on with the same bits: what
        continues is `state.accepted`, `scale`, `successes` and the engine's messages, as they are after a step that was
        accepted. Costs one evaluation.
        """
        self._evaluate_accepted(restore=None)

    def recover(self) -> None:
        """After a loss of messages: `anchor`, from the newest messages that are left."""
        if len(self.state.accepted) == 0:  # nothing was accepted yet
            self._start(self.state.weights, restore=None)
            self.state.primal = math.inf
            return
        # Where the history was being cleared, the newest slot is gone and the messages are those swept from it.
        self._evaluate_accepted(restore=None if self._clear else self._newest)

    def _evaluate_accepted(self, restore: int | None) -> None:
        self._images.clear()
        self._residuals.clear()
        self._metric = None
        self._clear = True
        self.state.weights = self.state.accepted
        request = Request(weights=self.state.weights, sweeps=0, restore=restore, slot=0, forget=True, curvature=True)
        evaluation = self.engine.iterate(request)
        self._clear = False
        self._accept(evaluation.value + self.regulariser.value(self.state.weights), evaluation, 0)
        self._settled = True
        # Nothing has been swept: the residual of the messages is none.
        self._images.clear()
        self._residuals.clear()

    def forget(self) -> None:
        """Drop the mixing memory: the next sweep starts at the last image of T, at whatever temperature holds then.

        Nothing compares that image with the point before it, so where steps can have any length (C_k = 0) it is the
        last accepted point.
        """
        if self._good is not None:
            weights, step, _ = self._good
            self._start(weights + step if self.regulariser.bounded else weights, restore=self._newest)
        self.state.primal = math.inf
        self._good = None

    def settle(self) -> None:
        """Let potentials and messages be those of the last accepted sweep."""
        if not self._settled:
            self.engine.iterate(Request(weights=self.state.accepted, sweeps=0, restore=self._newest))
            self._settled = True

    def visit(self, weights: FloatArray, sweeps: int) -> None:
        """Let these be the accepted weights, after so many sweeps; nothing is compared."""
        self.engine.iterate(Request(weights=weights, sweeps=sweeps))
        self.state.accepted = weights
        self._settled = True

    def step(self) -> bool:
        """One sweep and one evaluation; True when it was accepted."""
        state, options = self.state, self.options
        slot = self._free_slot()
        evaluation = self.engine.iterate(
            Request(
                weights=state.weights,
                sweeps=options.sweeps,
                mixing=self._mixing,
                restore=self._restore,
                erase=options.restart_messages,
                slot=slot,
                forget=self._clear,
                curvature=True,
            )
        )
        self._clear = False
        primal = evaluation.value + self.regulariser.value(state.weights)
        limit = state.primal + options.slack * max(1.0, abs(state.primal)) if math.isfinite(state.primal) else math.inf
        self._settled = bool(primal <= limit)
        if not self._settled:
            self._reject()
            return False
        self._accept(primal, evaluation, slot)
        return True

    def _accept(self, primal: float, evaluation: Evaluation, slot: int) -> None:
        state = self.state
        assert evaluation.curvature is not None
        start = state.weights
        curvature = self._not_much_below(evaluation.curvature)
        full = self.regulariser.minimiser(start, evaluation.gradient, curvature) - start
        state.successes += 1
        if state.scale < 1.0 and state.successes >= RECOVERY:
            state.scale, state.successes = min(1.0, 2.0 * state.scale), 0
        step = state.scale * full
        image = start + step
        state.primal, state.accepted = primal, start
        self._good, self._newest = (start, step, primal), slot
        self._images[slot] = image
        self._residuals[slot] = step
        self._gram[slot, :] = evaluation.products
        self._gram[:, slot] = evaluation.products
        self._mixing = self._restore = None
        state.weights = image
        mixing = self._mix(curvature + self.regulariser.strength)
        if mixing is not None:
            mixed = sum(mixing[j] * self._images[j] for j in self._images)
            # A weight that the step has put to zero stays there.
            mixed = np.where((image == 0.0) & (self.regulariser.sparsity > 0), 0.0, mixed)
            state.weights = self.regulariser.project(mixed)
            self._mixing = mixing

    def _not_much_below(self, curvature: FloatArray) -> FloatArray:
        """The curvature float64 [K], where C_k = 0 no less than a share of that of the step before."""
        if self.regulariser.bounded:
            return curvature
        if self._metric is not None:
            free = self.regulariser.strength == 0
            curvature = np.where(free, np.maximum(curvature, FADING * self._metric), curvature)
        self._metric = curvature
        return curvature

    def _reject(self) -> None:
        assert self._good is not None
        weights, step, primal = self._good
        if self._mixing is not None:  # the mixed point was no good
            self._start(weights + step, restore=self._newest)
            return
        trial = self.engine.trial(weights, step, STEPS, self._newest)
        self.trials += len(STEPS)
        values = trial.value + np.array([self.regulariser.value(weights + t * step) for t in STEPS])
        values = np.where(np.isfinite(values), values, np.inf)
        best = int(values.argmin())
        share = float(STEPS[best]) if values[best] < primal else 0.0
        self.state.scale = max(1e-6, self.state.scale * (share or float(STEPS[-1])))
        self.state.successes = 0
        self._start(weights + share * step, restore=self._newest)

    def _start(self, weights: FloatArray, restore: int | None) -> None:
        """The next sweep starts here, with an empty memory."""
        self.state.weights = weights
        self._restore = restore
        self._mixing = None
        self._images.clear()
        self._residuals.clear()
        self._clear = True

    def _free_slot(self) -> int:
        """The slot for the next image: an empty one, or the oldest."""
        if self._clear:
            # The messages are restored from the newest slot before the memory is cleared.
            return 0 if self._newest != 0 else 1
        for slot in range(self.slots):
            if slot not in self._images and slot != self._newest:
                return slot
        oldest = next(iter(self._images))
        del self._images[oldest], self._residuals[oldest]
        return oldest

    def _mix(self, metric: FloatArray) -> FloatArray | None:
        """The combination float64 [m], or None. Residuals in w are measured by the curvature of F."""
        if self.options.memory < 2 or self.options.restart_messages or len(self._images) < 2:
            return None
        used = list(self._images)
        residuals = np.stack([self._residuals[slot] for slot in used])
        gram = self._gram[np.ix_(used, used)] + inner_products(residuals * metric, residuals)
        weights = mixing_weights(gram, self.options.regularisation)
        if weights is None:
            return None
        mixing: FloatArray = np.zeros(self.slots)
        mixing[used] = weights
        return mixing
