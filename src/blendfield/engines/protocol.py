"""What an engine is: it keeps chunks of samples with their messages and answers for given weights.

The learner knows nothing about where the chunks are. Every answer is a sum over chunks, added up as a fixed tree (see
`engines.sums`), so that it does not depend on how chunks are spread over workers. K weights, m slots of mixing history.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from blendfield.backends.protocol import FloatArray, RealArray


class MessagesLost(Exception):
    """An engine had to start some chunks again, or to move them: their messages are other ones (often zero) and all
    mixing history is worthless. The engine itself is whole again and F, at any weights, is as valid a bound as before;
    but the value last seen is not the value here. The message says what happened.
    """


@dataclass(frozen=True)
class Request:
    """One iteration: move the messages (mix, restore or erase, or leave them), set theta(w), sweep, evaluate."""

    weights: FloatArray
    """float64 [K]"""
    sweeps: int = 1
    mixing: FloatArray | None = None
    """float64 [m]: messages = sum_j mixing_j g_j before the sweep"""
    restore: int | None = None
    """messages = g of this slot before the sweep"""
    erase: bool = False
    """messages = 0 before the sweep"""
    slot: int | None = None
    """where the sweep is entered into the history afterwards; None: it is not"""
    forget: bool = False
    """clear the history before that"""
    curvature: bool = False


@dataclass(frozen=True)
class Evaluation:
    """The data part of the objective, without regulariser, at the messages after the sweeps."""

    value: float
    """sum_r eps c_r logsumexp(hat_r / (eps c_r)) - theta_r(y_r)"""
    gradient: FloatArray
    """float64 [K]: sum_r <b_r, phi_{k,r}> - phi_{k,r}(y_r)"""
    curvature: FloatArray | None
    """float64 [K]: sum_r Var_{b_r}(phi_{k,r}) / (eps |c_r|), where asked for"""
    products: FloatArray
    """float64 [m]: inner products of the newest message residual with those of all slots; empty without slot"""

    def __add__(self, other: Evaluation) -> Evaluation:
        return Evaluation(
            self.value + other.value,
            self.gradient + other.gradient,
            _sum(self.curvature, other.curvature),
            self.products + other.products,
        )


@dataclass(frozen=True)
class Trial:
    """Values along a direction at fixed messages, each float64 [number of steps]."""

    value: FloatArray
    slope: FloatArray
    curvature: FloatArray

    def __add__(self, other: Trial) -> Trial:
        return Trial(self.value + other.value, self.slope + other.slope, self.curvature + other.curvature)


@dataclass(frozen=True)
class Certificate:
    """The data part of the gap for consistent beliefs q."""

    value: float
    """as in `Evaluation`, at the target temperature"""
    divergence: float
    """sum_r eps c_r KL(q_r || b_r) >= 0"""
    moments: FloatArray
    """float64 [K]: z = sum_r <q_r, phi_{k,r}> - phi_{k,r}(y_r)"""
    spread: float
    """sum of the regions' absolute gaps at the smoothing temperature"""

    def __add__(self, other: Certificate) -> Certificate:
        return Certificate(
            self.value + other.value,
            self.divergence + other.divergence,
            self.moments + other.moments,
            self.spread + other.spread,
        )


@dataclass(frozen=True)
class SoftEvaluation:
    """The data part with gamma/2 |lambda|^2 at given messages; M message entries, a list has one array per chunk."""

    value: float
    """as in `Evaluation`, plus the sum of strength/2 |lambda|^2"""
    gradient: FloatArray
    """float64 [K], as in `Evaluation`"""
    slopes: list[FloatArray]
    """float64 [M]: marginal_r(b_p) - b_r + strength lambda_{r->p}"""
    residual: float
    """sum of |slopes|^2 / (2 strength)"""
    curvature: FloatArray | None
    """float64 [K], as in `Evaluation`"""
    curvatures: list[FloatArray]
    """float64 [M]: the diagonal in the messages, where asked for"""

    def __add__(self, other: SoftEvaluation) -> SoftEvaluation:
        return SoftEvaluation(
            self.value + other.value,
            self.gradient + other.gradient,
            self.slopes + other.slopes,
            self.residual + other.residual,
            _sum(self.curvature, other.curvature),
            self.curvatures + other.curvatures,
        )


def _sum(one: FloatArray | None, other: FloatArray | None) -> FloatArray | None:
    return None if one is None or other is None else one + other


class Chunk(Protocol):
    """Samples compiled together: what an engine moves about. Each method answers for this chunk alone."""

    num_weights: int
    all_exact: bool
    hidden: bool
    scale: float
    """a temperature of the size of the first potentials"""
    passes_per_sweep: float
    """table entries read in a sweep, over those of the outer regions"""

    def allocate(self, slots: int) -> None: ...
    def set_epsilon(self, epsilon: float) -> None: ...
    def iterate(self, request: Request) -> Evaluation:
        """Both halves, of a chunk that shares nothing."""
        ...

    def advance(self, request: Request) -> FloatArray:
        """The first half of an iteration, up to the sweeps; float64 [n]: what it tells those it shares regions with."""
        ...

    def finish(self, request: Request, shared: FloatArray) -> Evaluation:
        """The second half; shared: float64 [n], the mean of what they told."""
        ...

    def trial(self, weights: FloatArray, direction: FloatArray, steps: FloatArray, restore: int | None) -> Trial: ...
    def certificate(self, weights: FloatArray, epsilon: float, smoothing: float) -> Certificate: ...
    def complete(self, weights: FloatArray, epsilon: float, smoothing: float) -> float: ...
    def soft(self, weights: FloatArray, messages: FloatArray, gamma: float, curvature: bool) -> SoftEvaluation: ...
    def messages(self) -> RealArray: ...
    def set_messages(self, flat: RealArray) -> None: ...
    def beliefs(self) -> RealArray: ...
    def fill_history(self) -> None:
        """Let every slot hold the present messages, without residual: whatever is mixed or restored next is they."""
        ...


class Recipe(Protocol):
    """How a chunk is made, wherever and as often as it is needed."""

    @property
    def size(self) -> int:
        """Table entries: how much work it is."""

    @property
    def places(self) -> npt.NDArray[np.int64]:
        """int64 [n]: which entries of regions that several chunks share it has; of most there are none."""

    def build(self, threads: int | None, common: dict[str, Any] | None = None) -> Chunk:
        """Compile it; messages are zero. `common`: where chunks of one process, of which one is asked at a time, keep
        what they can have in common; empty at first, and nobody else's business.
        """
        ...

    def streamed(self, compiled: Chunk, threads: int | None) -> Chunk:
        """The same, but not kept in memory between questions."""
        ...

    def needed_bytes(self) -> int:
        """About how many bytes the chunk holds."""
        ...

    def touched(self) -> npt.NDArray[np.bool_]:
        """bool [K]: the weights that its features have."""
        ...


class Engine(Protocol):
    """Holds the training set. Every method but `close` may raise `MessagesLost`."""

    num_weights: int
    scale: float
    """the largest of the chunks'"""
    passes_per_sweep: float
    """the largest of the chunks'"""
    exact: bool
    """every sample is a forest with tree counting numbers: one sweep makes the messages optimal for the weights"""

    hidden: bool
    """some labels are unobserved"""

    def allocate(self, slots: int) -> None:
        """Room for m steps of mixing history, all empty."""

    def set_epsilon(self, epsilon: float) -> None:
        """The temperature of what follows; messages stay."""

    def iterate(self, request: Request) -> Evaluation:
        """One iteration: see `Request`."""

    def trial(self, weights: FloatArray, direction: FloatArray, steps: FloatArray, restore: int | None) -> Trial:
        """Values at weights + t direction for every t in `steps`, at the messages of slot `restore` (or as they are).

        On forests with tree counting numbers the messages are made optimal for each step.
        """

    def certificate(self, weights: FloatArray, epsilon: float, smoothing: float) -> Certificate:
        """For the program at temperature `epsilon`, from beliefs at temperature `smoothing`, at the present messages;
        theta(w) must have been set by `iterate`."""

    def complete(self, weights: FloatArray, epsilon: float, smoothing: float) -> float:
        """Where labels are unobserved: beliefs q in place of the truth, made better for these weights by a clamped
        inference at temperature `epsilon` (at 0 from beliefs at temperature `smoothing`). Returns by how much F falls
        at fixed messages, never negative; infinite at the first time, which has to come before `iterate`.
        """
        ...

    def soft(self, weights: FloatArray, messages: list[FloatArray], gamma: float, curvature: bool) -> SoftEvaluation:
        """Evaluate at these weights and messages, float64 [messages layout] per chunk, with gamma/2 |lambda|^2."""
        ...

    def messages(self) -> list[RealArray]:
        """The messages of every chunk, float [messages layout]."""

    def set_messages(self, messages: list[RealArray]) -> None:
        """The reverse of `messages`."""

    def beliefs(self) -> list[RealArray]:
        """The beliefs of every chunk at its messages, float [tables layout]."""

    def close(self) -> None:
        """Give everything back."""
