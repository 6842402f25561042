"""One sample whose graph is cut into parts, each a sample of its own (mathematics §7).

A region that M parts have gives each of them theta / M and c / M. With messages nu_r^s that sum to zero over the parts,

    F = sum over parts s of F^s(theta_r / M + nu_r^s, c_r / M)

has the optimum of the whole; at fixed nu every part is an ordinary sample, and the best nu at fixed messages is

    nu_r^s = (mean over parts s' of M_r^{s'}) - M_r^s,     M_r^s = sum_c lambda^s_{c->r} - sum_p lambda^s_{r->p} .

Sweeps and exchanges of nu are both exact block minimisations, so F never rises, however seldom nu is exchanged.
Forbidden labels are those of the whole graph, in every part.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from blendfield.backends.linear import HostPotentials
from blendfield.backends.protocol import FloatArray, Program, RealArray, Workspace
from blendfield.engines.protocol import Certificate, Evaluation, Request, Trial
from blendfield.engines.protocol import Chunk as AnyChunk
from blendfield.errors import BlendfieldError, CountingNumberError, LabelError, SupportError
from blendfield.graph import RegionGraph, counting_numbers
from blendfield.graph.partition import Cut, cut, partition, subgraph
from blendfield.inference.program import build_models
from blendfield.learning.chunk import Chunk, require_possible_truth
from blendfield.learning.consistency import Consistency
from blendfield.learning.estimate import estimate_memory
from blendfield.learning.options import LearnerOptions
from blendfield.learning.scaling import Scaling, supported
from blendfield.model.feature_map import touched_weights
from blendfield.model.losses import loss_table
from blendfield.model.pieces import BoundBlock, Linear, Piece, Rows
from blendfield.model.sample import Sample
from blendfield.model.weights import WeightLayout

LongArray = npt.NDArray[np.int64]


@dataclass(frozen=True)
class PartRecipe:
    """One part of one sample; see `engines.protocol.Recipe`."""

    sample: Sample
    """on the part's own graph, with its share of all potentials"""
    number: int
    """of the whole sample, for errors"""
    counting_numbers: FloatArray
    """float64 [regions of the part]: their shares"""
    entries: LongArray
    """int64 [n]: where the shared regions' entries are in the part's tables"""
    places: LongArray
    """int64 [n]: where these are among the shared entries of the whole training set"""
    labelled: bool
    """the whole sample has a truth"""
    layout: WeightLayout
    options: LearnerOptions

    @property
    def size(self) -> int:
        return int(self.sample.graph.table_offsets[-1])

    def build(self, threads: int | None, common: dict[str, Any] | None = None) -> PartChunk:
        """The part compiled; it shares nothing with others."""
        return PartChunk(self, threads)

    def streamed(self, compiled: AnyChunk, threads: int | None) -> AnyChunk:
        """A part stays in memory."""
        return compiled

    def needed_bytes(self) -> int:
        """About how many bytes the chunk holds, history included."""
        options = self.options
        return estimate_memory([self.sample], [(0, 1)], max(2, options.memory), options.dtype).total

    def touched(self) -> npt.NDArray[np.bool_]:
        """bool [K]."""
        return touched_weights(self.layout, [self.sample.blocks])


class PartChunk(Chunk):
    """One part of one sample, with nu. n shared entries."""

    truth_stands_in = False
    """that of one part does not go with the beliefs of the others"""

    def __init__(self, recipe: PartRecipe, threads: int | None) -> None:
        options = recipe.options
        super().__init__(
            [recipe.sample],
            recipe.layout,
            recipe.counting_numbers,
            options.epsilon,
            first=recipe.number,
            dtype=options.dtype,
            threads=options.threads or threads,
            backend=options.backend,
            labelled=recipe.labelled,
        )
        self.exact = self.all_exact = False  # the messages may be optimal, but nu is not
        program = self.models.program
        flat = (program.graph.region_orders[program.edge_children] == 1).all()
        self._scaling = None if flat else Scaling(program)
        self._entries = recipe.entries
        fixed = recipe.sample.fixed
        size = int(recipe.sample.graph.table_offsets[-1])
        self._fixed: RealArray = np.zeros(size, dtype=self._dtype) if fixed is None else fixed.astype(self._dtype)
        self._tables: RealArray = self._fixed.copy()  # theta without features, nu included: changed in place
        self.potentials = HostPotentials(self.problem, self.features, self._tables, Workspace())
        between = Consistency(self.models.program)
        self._sums: Any = (between.parent - between.child).T.tocsr()[self._entries]  # type: ignore
        self._nu: FloatArray = np.zeros(len(self._entries))
        self._nu_of_slot: dict[int, FloatArray] = {}

    def advance(self, request: Request) -> FloatArray:
        """float64 [n]: M_r^s after the sweeps."""
        if request.mixing is not None:  # nu is linear in the messages
            used = [j for j in self._nu_of_slot if request.mixing[j] != 0.0]
            self._nu = sum((request.mixing[j] * self._nu_of_slot[j] for j in used), np.zeros_like(self._nu))
        elif request.restore is not None:
            self._nu = self._nu_of_slot.get(request.restore, self._nu)
        if request.erase:
            self._nu = np.zeros_like(self._nu)
        if request.forget:
            self._nu_of_slot.clear()
        self._put_nu()
        super().advance(request)
        return self._own_sums()

    def finish(self, request: Request, shared: FloatArray) -> Evaluation:
        """`shared`: float64 [n], the mean of M_r over the parts."""
        self._nu = shared - self._own_sums()
        self._put_nu()
        self.potentials.set_weights(request.weights)
        if request.slot is not None:
            self._nu_of_slot[request.slot] = self._nu
        return super().finish(request, shared)

    def trial(self, weights: FloatArray, direction: FloatArray, steps: FloatArray, restore: int | None) -> Trial:
        """See `engines.protocol.Engine.trial`."""
        if restore is not None:
            self._nu = self._nu_of_slot.get(restore, self._nu)
            self._put_nu()
        return super().trial(weights, direction, steps, restore)

    def certificate(self, weights: FloatArray, epsilon: float, smoothing: float) -> Certificate:
        """See `engines.protocol.Engine.certificate`. Right after an exchange the beliefs of a shared region are the
        same in all its parts. Where those of single variables are kept as they are and all others depend on what is
        below them alone, all parts together have one consistent q.
        """
        self.potentials.set_weights(weights)
        if self._scaling is None:
            return super().certificate(weights, epsilon, smoothing)
        return self._scaled(self._scaling, weights, epsilon, smoothing)

    def _scaled(self, scaling: Scaling, weights: FloatArray, epsilon: float, smoothing: float) -> Certificate:
        """The same by iterative scaling, which backends do only where labels are forbidden."""
        problem, program, before = self.problem, self.models.program, self.problem.epsilon
        problem.set_epsilon(smoothing)
        beliefs: FloatArray = np.asarray(problem.beliefs(), dtype=np.float64)
        spread = 0.0 if smoothing == epsilon else float(problem.certificate().spread.sum())
        problem.set_epsilon(epsilon)
        value = float(problem.value().sum())
        problem.set_epsilon(before)
        moments, divergence = self.true_moments, np.inf
        q = scaling.consistent(beliefs)
        if q is not None:
            moments = self.features.moments(q)
            weight = epsilon * np.repeat(program.counting_numbers, program.graph.table_sizes)
            there = q > 0
            if smoothing == epsilon and (weight > 0).all():
                ratio = np.log(np.divide(q, beliefs, out=np.ones_like(q), where=there))
                divergence = max(0.0, float(weight @ (q * ratio - q + beliefs)))
            else:
                theta = np.where(there, self.potentials.tables(), 0.0).astype(np.float64)
                logarithm = np.log(q, out=np.zeros_like(q), where=there)
                divergence = max(0.0, value - float(q @ (theta - weight * logarithm)))
        spread = divergence if smoothing == epsilon else spread
        return Certificate(value - self._truth(weights, epsilon), divergence, moments - self.true_moments, spread)

    def set_messages(self, flat: RealArray) -> None:
        """The reverse of `messages`; nu is exchanged before anything is evaluated."""
        super().set_messages(flat)
        self._nu = np.zeros_like(self._nu)

    def fill_history(self) -> None:
        """See `engines.protocol.Chunk`."""
        super().fill_history()
        self._nu_of_slot = dict.fromkeys(range(self._slots), self._nu)

    def _own_sums(self) -> FloatArray:
        sums: FloatArray = np.asarray(self._sums @ np.asarray(self.problem.messages(), dtype=np.float64))
        return sums

    def _put_nu(self) -> None:
        self._tables[self._entries] = self._fixed[self._entries] + self._nu


def cut_samples(
    samples: Sequence[Sample], layout: WeightLayout, spec: Any, options: LearnerOptions, labelled: bool = True
) -> tuple[list[PartRecipe], list[Cut]]:
    """Every sample in `options.parts` parts (fewer where it has fewer variables), part after part; and its cut. Not
    `labelled`: samples have no truth, and nothing is subtracted for it.
    """
    recipes: list[PartRecipe] = []
    cuts: list[Cut] = []
    shared = 0
    per_sample = isinstance(spec, (list, tuple)) and not all(np.isscalar(item) for item in spec)
    for number, sample in enumerate(samples):
        if labelled:
            _require_cuttable(sample, number)
        own = spec[number] if per_sample else spec
        found, made = _cut_sample(sample, number, own, shared, layout, options)
        recipes += made
        cuts.append(found)
        shared += int(found.offsets[-1])
    return recipes, cuts


def _require_cuttable(sample: Sample, number: int) -> None:
    if sample.labels is None:
        raise LabelError(f"sample {number} has no labels; training needs them")
    if (sample.labels < 0).any():
        variable = int((sample.labels < 0).argmax())
        raise LabelError(f"sample {number}, variable {variable}: a graph in parts needs every label observed")
    require_possible_truth(sample, number)


def _cut_sample(
    sample: Sample, number: int, spec: Any, shared: int, layout: WeightLayout, options: LearnerOptions
) -> tuple[Cut, list[PartRecipe]]:
    """`shared`: entries of shared regions of the samples before."""
    graph = sample.graph
    try:
        numbers = counting_numbers(graph, spec) * sample.weight
    except BlendfieldError as error:
        raise type(error)(f"sample {number}: {error}") from error
    program = build_models([graph], [numbers], options.epsilon, True, False).program
    edges = program.edge_parents, program.edge_children
    assert options.parts is not None
    found = cut(graph, edges, partition(graph, min(options.parts, graph.num_variables), sample.positions))
    _require_entropy(program, found, number)
    loss = None if sample.labels is None else loss_table(graph, sample.labels, sample.loss)
    fixed = [table for table in (loss, sample.fixed) if table is not None]
    known: FloatArray | None = np.sum(fixed, axis=0) * sample.weight if fixed else None
    if known is not None and np.isneginf(known).any():
        known = _with_support(program, known, number)
    made = []
    for own in found.members:
        sizes = graph.table_sizes[own]
        starts = np.cumsum(sizes) - sizes
        copies = found.copies[own]
        flat = np.repeat(graph.table_offsets[own] - starts, sizes) + np.arange(int(sizes.sum()))
        apart = np.repeat(copies > 1, sizes)
        place = np.repeat(found.offsets[own] - starts, sizes) + np.arange(int(sizes.sum())) + shared
        part = copy.copy(sample)
        part.graph = subgraph(graph, edges, own)
        part.labels = _labels_of(sample, own)
        part.loss, part.weight = None, 1.0
        part.fixed = None if known is None else known[flat] / np.repeat(copies, sizes)
        share = sample.weight / copies
        part.blocks = [_block_part(block, graph, own, part.graph, share) for block in sample.blocks]
        made.append(
            PartRecipe(
                part,
                number,
                program.counting_numbers[own] / copies,
                np.flatnonzero(apart),
                place[apart],
                sample.labels is not None,
                layout,
                options,
            )
        )
    return found, made


def _require_entropy(program: Program, found: Cut, number: int) -> None:
    """With c_r = 0 the best nu is not unique, sweeps and exchanges can get stuck above the optimum, and consistent
    beliefs of r would be a parent's marginal, of which each part has another one.
    """
    wrong = found.shared & (program.counting_numbers == 0)
    if wrong.any():
        raise CountingNumberError(
            f"sample {number}, region {int(wrong.argmax())}: parts share it, so its counting number must be > 0; got 0"
        )


def _with_support(program: Program, known: FloatArray, number: int) -> FloatArray:
    """Known potentials, float64 [N], -inf for what has no support in the whole graph: in its parts less is known."""
    graph = program.graph
    support = supported(program, ~np.isneginf(known))
    empty = ~np.logical_or.reduceat(support, graph.table_offsets[:-1])
    if empty.any():
        raise SupportError(
            f"sample {number}, region {int(empty.argmax())}: all labels are forbidden (-inf), or contradict the "
            "neighbours' forbidden labels"
        )
    return np.where(support, known, -np.inf)


def _labels_of(sample: Sample, own: LongArray) -> LongArray | None:
    """int64 [variables of the part]: in increasing order of the variables, as `subgraph` numbers them."""
    if sample.labels is None:
        return None
    graph = sample.graph
    inside = np.zeros(graph.num_regions, dtype=bool)
    inside[own] = True
    labels: LongArray = sample.labels[np.unique(graph.region_variables[np.repeat(inside, graph.region_orders)])]
    return labels


def _block_part(
    block: BoundBlock, graph: RegionGraph, own: LongArray, part: RegionGraph, share: FloatArray
) -> BoundBlock:
    """Its features on the regions `own`, each times its share, float64 [regions of the part]."""
    local = np.full(graph.num_regions, -1, dtype=np.int64)
    local[own] = np.arange(len(own))
    pieces: list[Piece] = []
    for piece in block.pieces:
        region = local[np.searchsorted(graph.table_offsets, piece.start, side="right") - 1]
        kept = np.flatnonzero(region >= 0)
        start, factor = part.table_offsets[region[kept]], share[region[kept]]
        if isinstance(piece, Linear):
            features = piece.features[kept]
            scaled = (
                features.multiply(factor[:, None]).tocsr() if hasattr(features, "tocsr") else features * factor[:, None]
            )
            pieces.append(Linear(start, scaled, piece.size))
            continue
        coefficient = factor if piece.coefficient is None else piece.coefficient[kept] * factor
        if isinstance(piece, Rows):
            pieces.append(replace(piece, start=start, base=piece.base[kept], coefficient=coefficient))
        elif piece.table is None:
            pieces.append(
                replace(
                    piece, start=start, weight=piece.weight[kept], coefficient=coefficient, tables=piece.tables[kept]
                )
            )
        else:
            pieces.append(
                replace(piece, start=start, weight=piece.weight[kept], coefficient=coefficient, table=piece.table[kept])
            )
    return BoundBlock(block.name, block.shape, pieces)
