"""What a backend is: it compiles a `Program` with potentials into a `Problem` and runs the arithmetic.

Nothing above this file knows which backend is at work, and no backend knows why it is asked. All flat arrays share
two layouts:

* *tables* (potentials, beliefs): float [graph.table_offsets[-1]], region after region in index order, each table in C
  order in the axes of the region as written;
* *messages*: float [sum over relinked edges of the child's table size], edge after edge in sorted (parent, child)
  order, each table in C order in the axes of the child as written.

Throughout, with `theta` the potentials and `lambda` the messages over the relinked edges,

    hat_r = theta_r + sum_{c in C(r)} lambda_{c->r} - sum_{p in P(r)} lambda_{r->p}                  (mathematics §1)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from blendfield.errors import PotentialError

if TYPE_CHECKING:
    from blendfield.graph import RegionGraph

DataType = Literal["float64", "float32"]
FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int32]
LabelArray = npt.NDArray[np.int64]
RealArray = npt.NDArray[np.float64] | npt.NDArray[np.float32]


@dataclass(frozen=True)
class Program:
    """All that is compiled apart from potentials: a region graph, often a disjoint union of many, and its schedule.

    R regions, E' relinked edges, S steps of the schedule.
    """

    graph: RegionGraph
    counting_numbers: FloatArray
    """float64 [R], by region of the user's graph (before relinking); where all are the same often a single number seen
    R times (stride 0), as is `segment`
    """
    edge_parents: IntArray
    """int32 [E'], parents of the relinked edges, sorted by (parent, child)"""
    edge_children: IntArray
    """int32 [E'], children of the relinked edges"""
    region_class: npt.NDArray[np.int8] | IntArray
    """int8 [R], int32 where there are more classes: in which a region sends its messages; -1: it sends none (it has no
    parents)
    """
    schedule: IntArray
    """int32 [S], classes in the order in which one full sweep runs them; a class may come up several times"""
    segment: IntArray
    """int32 [R], connected component of each region; sums are kept per segment"""
    num_segments: int


@dataclass(frozen=True)
class Certificate:
    """A bound on how far `value` is above the optimum: `value - gap <= optimum <= value` for counting numbers >= 0."""

    value: FloatArray
    """float64 [num_segments], F at the current messages"""
    gap: FloatArray
    """float64 [num_segments], sum of the regions' gaps; every term is >= 0 where the counting number is >= 0, <= 0
    where it is negative; +inf where no consistent candidate could be made
    """
    spread: FloatArray
    """float64 [num_segments], sum of the absolute gaps of the regions (equals `gap` for counting numbers >= 0)"""
    region_gaps: FloatArray | None
    """float64 [R], where the gap sits; only on request"""
    candidate: FloatArray | None = None
    """float64 [tables layout], the consistent q; only on request; means nothing in segments whose gap is +inf"""


class Problem(Protocol):
    """Models compiled together. Messages start at zero. V variables, R regions, m slots of history."""

    program: Program
    dtype: np.dtype[Any]

    @property
    def epsilon(self) -> float:
        """Temperature; see `set_epsilon`."""

    @property
    def memory_bytes(self) -> int:
        """Bytes held now, history included, the caller's arrays not."""

    def set_epsilon(self, value: float) -> None:
        """Change the temperature; messages stay."""

    def set_potentials(self, tables: RealArray) -> None:
        """Replace all potentials theta, float [tables layout]; messages stay.

        The support found at compile time stays too: entries outside it are ignored. A non-finite entry inside it raises
        PotentialError, and nothing has changed then.
        """

    def sweep(self, count: int = 1) -> None:
        """`count` full sweeps: every class of the schedule once each time it is listed (norm-product, mathematics §3).

        A region r sends lambda_{r->p} = share_p B - mu_{p->r}, B = theta_r + sum lambda + sum mu, centred to mean zero
        over the supported labels of r. With T = c_r + sum_p c_p, share_p = c_p / T at every eps >= 0, and
        1 / (1 + |P(r)|) where T = 0 up to rounding. (At eps = 0 any split is a block minimiser for counting numbers
        >= 0; this one is the limit eps -> 0 and makes a pass over a tree with the Moebius numbers exact.)
        """

    def sweep_value(self) -> float:
        """One full sweep; returns F after it, summed over all segments."""

    def value(self, epsilon: float | None = None) -> FloatArray:
        """float64 [num_segments]: F = sum_r eps c_r logsumexp(hat_r / (eps c_r)) at the messages (mathematics §2).

        At eps c_r = 0 the maximum of hat_r; at eps = 0 and c_r < 0 its minimum (the limit).
        """

    def beliefs(self, epsilon: float | None = None) -> RealArray:
        """float [tables layout], in the problem's dtype: softmax(hat_r / (eps c_r)), exactly 0 on unsupported labels.

        At eps c_r = 0 uniform on the maximisers (minimisers where c_r < 0), entries within 1e-9 (1 + |extremum|);
        but a region with c_r = 0 and relinked parents takes the marginal of its first (lowest) one.
        """

    def value_and_beliefs(self, out: RealArray | None = None) -> tuple[FloatArray, RealArray]:
        """(`value()`, `beliefs()`) in one pass over the tables; the beliefs in `out`, float [tables layout] in the
        problem's dtype and contiguous, where that is given.
        """
        ...

    def trial(self, direction: RealArray, steps: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """F along a line in the potentials at fixed messages: (value, slope, curvature), each float64 [len(steps)].

        With theta_d = `direction`, float [tables layout] (entries without support are ignored), t in `steps` and
        b_r(t) = softmax((hat_r + t theta_d) / (eps c_r)), summed over all segments,

            value = sum_r eps c_r logsumexp((hat_r + t theta_d) / (eps c_r))
            slope = sum_r <b_r(t), theta_d>,    curvature = sum_r Var_{b_r(t)}(theta_d) / (eps c_r)

        At eps c_r = 0 the value is the maximum (for c_r < 0 the minimum), b_r(t) uniform on the entries that attain it
        within 1e-9 (1 + |extremum|), and the curvature 0.
        """
        ...

    def messages(self) -> RealArray:
        """float [messages layout], in the problem's dtype; 0 on unsupported labels."""

    def set_messages(self, flat: RealArray) -> None:
        """Replace the messages, float [messages layout]; entries on unsupported labels are ignored."""

    def certificate(
        self, smoothing: float | None = None, region_gaps: bool = False, candidate: bool = False
    ) -> Certificate:
        """Make the beliefs at temperature `smoothing` (default: epsilon; required, > 0, when epsilon = 0) consistent
        and return the gap of that candidate q for the program at `epsilon` (mathematics §6), region by region

            eps c_r sum (q log(q/b) - q + b),     at eps c_r = 0:  extremum of hat_r - <q_r, hat_r>

        `region_gaps` and `candidate` ask for the arrays of that name.
        """

    def score(self, labels: LabelArray) -> FloatArray:
        """float64 [num_segments]: sum of the potentials of `labels`, int64 [V]; -inf if forbidden."""

    def decode(self) -> LabelArray:
        """int64 [V]: labels by rounding, one variable at a time, each given those already fixed.

        Order of the variables: by decreasing class of the variable's single-variable region (root of a forest first),
        ties and variables without class (-1, last) by index. A variable takes the label that is best for the sum,
        over all regions with the variable, of the maximum of hat_r over its unfixed variables: fewest -inf terms
        first, then the largest sum of the others, then the lowest label.
        """

    def belief_labels(self) -> LabelArray:
        """int64 [V]: argmax of sign(c_i) hat_i, that is of b_i; where c_i = 0 and i has parents, the label of the best
        entry of hat in the first of them. Ties to the lowest label.
        """
        ...

    def local_search(self, labels: LabelArray, max_passes: int) -> LabelArray:
        """int64 [V]: iterated conditional modes from `labels`, variables by index, at most `max_passes` over all.

        Each move is by (number of joint labels without support, score): never worse in score. The current label stays
        when it is among the best, else the lowest of the best is taken.
        """

    def block_search(self, labels: LabelArray, rounds: int, seed: int) -> LabelArray:
        """int64 [V]: from `labels`, `rounds` rounds of block moves, the k-th with the random numbers of seed + k.

        A block move sets all variables of a random induced forest (no region closes a cycle) at once to their best
        labels given the others: fewest -inf terms first, then the largest sum, ties to the lowest label given the
        parent's, from the first variable of a tree that was taken. A round forces new labels upon one in 64 of the
        variables with more than one allowed label, each with up to four more on a random walk; four moves of others;
        two of all. The forests grow from there to 4, 8 or 16 variables for each of the one in 64; where the seed is a
        multiple of 32, over the whole model. New labels that hang together through regions are then taken back where
        they are worse.
        `reference_search` says which random number is used where.
        """
        ...

    def allocate_history(self, slots: int) -> None:
        """Make room for `slots` = m pairs (f, g) of message vectors, all empty."""

    def clear_history(self) -> None:
        """Empty all slots; the room stays."""

    def save_point(self) -> None:
        """Remember the current messages as the point from which the next `push` measures."""

    def push(self, slot: int) -> FloatArray:
        """f[slot] = messages - saved point, g[slot] = messages.

        Returns float64 [m]: the inner products of f[slot] with f of every slot, 0 where a slot is empty.
        """

    def mix(self, weights: FloatArray) -> None:
        """messages = sum_j weights[j] g[j]; weights float64 [m], ignored where a slot is empty."""

    def restore(self, slot: int) -> None:
        """messages = g[slot]."""


class TermsPart(Protocol):
    """n terms of one table size Y: theta[start_j + y] += w[weight_j] coefficient_j tables[table_j, y].

    `start`, where terms are side by side, is rising; every table lies where a region's table begins.
    """

    start: npt.NDArray[np.int64]
    """int64 [n]"""
    weight: IntArray
    """int32 [n]"""
    coefficient: FloatArray | None
    """float64 [n]; None: ones"""
    table: IntArray | None
    """int32 [n], row of `tables`; None: row j, or the only one"""
    tables: FloatArray
    """float64 [rows, Y]"""


class RowsPart(Protocol):
    """n regions with a weight per entry: theta[start_j + y] += w[base_j + y] coefficient_j for y < size."""

    start: npt.NDArray[np.int64]
    """int64 [n]"""
    base: IntArray
    """int32 [n]"""
    coefficient: FloatArray | None
    """float64 [n]; None: ones"""
    size: int


class MatrixPart(Protocol):
    """n regions that share weights [size, F]: theta[start_j + y] += sum_f w[offset + y F + f] features[j, f]."""

    start: npt.NDArray[np.int64]
    """int64 [n]"""
    features: Any
    """float64 [n, F], dense or scipy.sparse CSR"""
    size: int
    offset: int


class Features(Protocol):
    """The linear map Phi from K weights to the potentials of a program (`model.FeatureMap`).

    `terms`, `rows` and `matrices` say what it is, for backends that keep it elsewhere; the methods apply it here.
    """

    size: int
    """K"""

    @property
    def terms(self) -> Sequence[TermsPart]: ...
    @property
    def rows(self) -> Sequence[RowsPart]: ...
    @property
    def matrices(self) -> Sequence[MatrixPart]: ...

    def apply(self, weights: FloatArray, flat: RealArray) -> None:
        """flat += Phi w, float [tables layout]."""

    def moments(self, d: RealArray) -> FloatArray:
        """float64 [K]: Phi^T d, of d float [tables layout]."""
        ...

    def statistics(self, b: RealArray, scale: FloatArray) -> tuple[FloatArray, FloatArray]:
        """(Phi^T b, sum_r scale_r Var_{b_r}(phi_{k,r})), each float64 [K], of beliefs b float [tables layout] and scale
        float64 [R].
        """
        ...


@dataclass(frozen=True)
class LinearEvaluation:
    """K weights, m slots of history."""

    value: float
    """F, summed over all segments"""
    moments: FloatArray
    """float64 [K]: Phi^T b"""
    curvature: FloatArray | None
    """float64 [K]: sum_r Var_{b_r}(phi_{k,r}) / (eps |c_r|) over the regions with eps c_r != 0; where asked for"""
    products: FloatArray
    """float64 [m]: what `Problem.push` returns; empty without slot"""


class Workspace:
    """Arrays to work in, for problems of which one is at work at a time."""

    def __init__(self) -> None:
        self._arrays: dict[str, RealArray] = {}

    def array(self, name: str, size: int, dtype: Any) -> RealArray:
        """float [size], with anything in it: whoever asks next under this name gets the same memory."""
        known = self._arrays.get(name)
        if known is None or len(known) < size or known.dtype != dtype:
            known = self._arrays[name] = np.empty(size, dtype=dtype)
        return known[:size]


class LinearPotentials(Protocol):
    """The potentials of a problem as theta = base + Phi w. K weights.

    While it is in use nobody else sets the problem's potentials. Where the base is -inf (at compile time) there is no
    support, whatever the weights.
    """

    def set_weights(self, weights: FloatArray) -> None:
        """theta = base + Phi w, float64 [K]; messages stay."""

    def tables(self) -> RealArray:
        """float [tables layout]: theta at the weights set last; not to be written to, and only good until potentials
        with the same workspace are asked for anything. Means nothing without support.
        """
        ...

    def evaluate(self, curvature: bool, slot: int | None = None) -> LinearEvaluation:
        """F and its derivatives at the messages as they are; with `slot` also what `Problem.push(slot)` does."""
        ...

    def trial(self, direction: FloatArray, steps: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """`Problem.trial` along Phi d, of d float64 [K]."""
        ...

    def certificate(self, smoothing: float) -> tuple[Certificate, FloatArray]:
        """(`Problem.certificate(smoothing)`, Phi^T q float64 [K] of its candidate q)."""
        ...

    def moments(self, d: RealArray) -> FloatArray:
        """float64 [K]: Phi^T d, of d float [tables layout]."""
        ...


def unusable_potential(graph: RegionGraph, tables: RealArray, position: int) -> PotentialError:
    """The error for the entry at `position` of `tables`, float [tables layout], which had to be finite."""
    region = int(np.searchsorted(graph.table_offsets, position, side="right")) - 1
    entry = np.unravel_index(position - int(graph.table_offsets[region]), graph.shape(region))
    return PotentialError(
        f"potentials of region {region}: entry {tuple(int(k) for k in entry)} is {tables[position]}; expected a finite "
        "number, as when the model was compiled"
    )


@runtime_checkable
class Backend(Protocol):
    """Compiles programs."""

    name: str
    chunk_entries: int
    """of a large set of models, about how many table entries to compile together: enough to keep the machine busy, few
    enough for its fast memory"""
    in_host_memory: bool
    """problems are kept in the memory of the host"""

    def compile(
        self,
        program: Program,
        tables: RealArray,
        *,
        epsilon: float,
        dtype: DataType = "float64",
        threads: int | None = None,
    ) -> Problem:
        """Compile `program` with potentials `tables`, float [tables layout], finite or -inf.

        Where -inf occurs the support is found by generalised arc consistency over the relinked edges (mathematics §3);
        SupportError names a region left without labels.
        """

    def linear(
        self, problem: Problem, features: Features, base: RealArray | None, workspace: Workspace
    ) -> LinearPotentials:
        """The potentials of a problem of this backend as base + Phi w from now on; base [tables layout], None: 0."""
        ...

    def estimate_bytes(self, program: Program, dtype: DataType = "float64") -> int:
        """About how many bytes a problem will take at most, in certificates, say; the caller's arrays and the mixing
        history not included.
        """
