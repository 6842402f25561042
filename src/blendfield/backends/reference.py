"""The reference backend: NumPy, one region at a time, written to be obviously right rather than fast.

Every other backend must agree with this one (`blendfield.testing.conformance`). All arithmetic is float64; with dtype
float32 only what is stored (potentials, messages, beliefs) is rounded. Tables of unsupported labels hold 0 in
potentials and messages and -inf in `hat`, so that forbidden labels never take part in a sum or difference.
"""

from __future__ import annotations

import numpy as np

from blendfield.backends.linear import HostPotentials
from blendfield.backends.protocol import (
    Certificate,
    DataType,
    Features,
    FloatArray,
    LabelArray,
    LinearPotentials,
    Problem,
    Program,
    RealArray,
    Workspace,
    unusable_potential,
)
from blendfield.backends.reference_certificate import consistent_beliefs, gaps
from blendfield.backends.reference_search import BlockSearch
from blendfield.backends.reference_tables import BoolArray, Link, arc_consistent_support, soft_max
from blendfield.errors import OptionError


class ReferenceProblem:
    """See `protocol.Problem`. Lists are by region (tables in its shape) or by link (tables in the child's shape)."""

    def __init__(self, program: Program, tables: RealArray, epsilon: float, dtype: DataType) -> None:
        graph = program.graph
        self.program = program
        self.epsilon = float(epsilon)
        self.dtype = np.dtype(dtype)
        self.counting_numbers = program.counting_numbers
        self.regions = [tuple(int(variable) for variable in region) for region in graph.regions]
        self.shapes = [tuple(int(size) for size in graph.shape(r)) for r in range(graph.num_regions)]
        edges = zip(program.edge_parents.tolist(), program.edge_children.tolist(), strict=True)
        self.links = [Link(e, p, c, self.regions, self.shapes[p]) for e, (p, c) in enumerate(edges)]
        self.links_up: list[list[Link]] = [[] for _ in self.regions]  # to the parents of a region
        self.links_down: list[list[Link]] = [[] for _ in self.regions]  # to the children of a region
        for link in self.links:
            self.links_up[link.child].append(link)
            self.links_down[link.parent].append(link)
        self.regions_of_variable: list[list[int]] = [[] for _ in range(graph.num_variables)]
        for r, region in enumerate(self.regions):
            for variable in region:
                self.regions_of_variable[variable].append(r)

        self.potentials = self._split(self._rounded(tables), range(len(self.regions)))
        self.support = arc_consistent_support(self.potentials, self.links)
        self.theta = [np.where(s, t, 0.0) for s, t in zip(self.support, self.potentials, strict=True)]
        self.lambdas = [np.zeros(self.shapes[link.child]) for link in self.links]
        self._saved = self._flat_messages()
        self.allocate_history(0)

    # Potentials and messages: flat outside, one table per region or link inside.

    def _rounded(self, values: RealArray) -> FloatArray:
        return np.asarray(values, dtype=self.dtype).astype(np.float64)

    def _split(self, flat: FloatArray, regions: range | list[int]) -> list[FloatArray]:
        shapes = [self.shapes[r] for r in regions]
        ends = np.cumsum([int(np.prod(shape)) for shape in shapes], dtype=np.int64)
        parts = np.split(flat, ends[:-1]) if shapes else []
        return [part.reshape(shape) for part, shape in zip(parts, shapes, strict=True)]

    def _flat_messages(self) -> FloatArray:
        return _flat(self.lambdas)

    def messages(self) -> RealArray:
        return self._flat_messages().astype(self.dtype)

    def set_messages(self, flat: RealArray) -> None:
        tables = self._split(self._rounded(flat), [link.child for link in self.links])
        self.lambdas = [np.where(self.support[k.child], t, 0.0) for k, t in zip(self.links, tables, strict=True)]

    def set_potentials(self, tables: RealArray) -> None:
        flat = self._rounded(tables)
        inside = np.concatenate([np.zeros(0, dtype=bool), *(support.ravel() for support in self.support)])
        unusable = np.flatnonzero(inside & ~np.isfinite(flat))
        if unusable.size:
            raise unusable_potential(self.program.graph, flat, int(unusable[0]))
        given = self._split(flat, range(len(self.regions)))
        self.potentials = [np.where(s, t, -np.inf) for s, t in zip(self.support, given, strict=True)]
        self.theta = [np.where(s, t, 0.0) for s, t in zip(self.support, given, strict=True)]

    def set_epsilon(self, value: float) -> None:
        self.epsilon = float(value)

    def hat(self, r: int) -> FloatArray:
        """hat_r = theta_r + sum of the children's messages - sum of its own, -inf off the support."""
        table = self.theta[r]
        for link in self.links_down[r]:
            table = table + link.up(self.lambdas[link.index])
        for link in self.links_up[r]:
            table = table - self.lambdas[link.index]
        return np.where(self.support[r], table, -np.inf)

    # Inference (mathematics §3).

    def sweep(self, count: int = 1) -> None:
        for _ in range(count):
            for step in self.program.schedule:
                updates = [self._update(int(r)) for r in np.flatnonzero(self.program.region_class == step)]
                for new_messages in updates:
                    for index, table in new_messages.items():
                        self.lambdas[index] = table

    def _update(self, r: int) -> dict[int, FloatArray]:
        """Norm-product: the exact minimum of F over all messages that leave r, {index of link: message}."""
        support, links = self.support[r], self.links_up[r]
        belief = self.theta[r]
        for link in self.links_down[r]:
            belief = belief + link.up(self.lambdas[link.index])
        incoming = {}
        for link in links:
            c_parent = self.counting_numbers[link.parent]
            others = self.hat(link.parent) - link.up(self.lambdas[link.index])
            mu = link.down(others, lambda table, axis, c=c_parent: soft_max(table, self.epsilon, c, axis))
            incoming[link.index] = np.where(support, mu, 0.0)
            belief = belief + incoming[link.index]
        shares = self._shares(r)
        messages = {}
        for link, share in zip(links, shares, strict=True):
            message = share * belief - incoming[link.index]
            messages[link.index] = self._rounded(np.where(support, message - message[support].mean(), 0.0))
        return messages

    def _shares(self, r: int) -> list[float]:
        """The part of r's reparametrised potential that goes to each parent: c_p / (c_r + sum c_p), at any eps.

        Where c_r + sum c_p = 0 every split is an exact block minimiser; equal parts keep the potential of r moving.
        """
        parents = [float(self.counting_numbers[link.parent]) for link in self.links_up[r]]
        own = float(self.counting_numbers[r])
        total = own + sum(parents)
        if abs(total) <= 1e-12 * (abs(own) + sum(abs(c) for c in parents)):
            return [1.0 / (1 + len(parents))] * len(parents)
        return [c / total for c in parents]

    def _per_segment(self, by_region: FloatArray) -> FloatArray:
        sums = np.bincount(self.program.segment, weights=by_region, minlength=self.program.num_segments)
        return sums.astype(np.float64)

    def _region_values(self, epsilon: float) -> FloatArray:
        """float64 [R]: eps c_r logsumexp(hat_r / (eps c_r))."""
        return np.array([soft_max(self.hat(r), epsilon, c) for r, c in enumerate(self.counting_numbers)])

    def value(self, epsilon: float | None = None) -> FloatArray:
        return self._per_segment(self._region_values(self.epsilon if epsilon is None else epsilon))

    def sweep_value(self) -> float:
        self.sweep()
        return float(self.value().sum())

    def softmax(self, r: int, hat: FloatArray, epsilon: float) -> FloatArray:
        """softmax(hat / (eps c_r)); at eps c_r = 0 uniform on the maximisers (minimisers for c_r < 0)."""
        c = float(self.counting_numbers[r])
        if epsilon * c == 0.0:
            best = soft_max(hat, epsilon, c)
            chosen = self.support[r] & (np.abs(hat - best) <= 1e-9 * (1.0 + np.abs(best)))
            return np.asarray(chosen / chosen.sum())
        scaled = np.where(self.support[r], hat / (epsilon * c), -np.inf)
        belief = np.exp(scaled - scaled.max())
        return np.asarray(belief / belief.sum())

    def belief_tables(self, epsilon: float) -> list[FloatArray]:
        """Beliefs by region; a region with parents and c_r = 0 takes the marginal of a parent."""
        beliefs = [self.softmax(r, self.hat(r), epsilon) for r in range(len(self.regions))]
        for r, links in enumerate(self.links_up):
            if links and self.counting_numbers[r] == 0.0:  # relinking: a parent is never such a region
                beliefs[r] = links[0].down(beliefs[links[0].parent])
        return beliefs

    def beliefs(self, epsilon: float | None = None) -> RealArray:
        tables = self.belief_tables(self.epsilon if epsilon is None else epsilon)
        return _flat(tables).astype(self.dtype)

    def value_and_beliefs(self, out: RealArray | None = None) -> tuple[FloatArray, RealArray]:
        beliefs = self.beliefs()
        if out is None:
            return self.value(), beliefs
        out[:] = beliefs
        return self.value(), out

    def trial(self, direction: RealArray, steps: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        along = self._split(self._rounded(direction), range(len(self.regions)))
        points = np.zeros((3, len(steps)))
        for k, step in enumerate(steps):
            for r, c in enumerate(self.counting_numbers):
                d = np.where(self.support[r], along[r], 0.0)
                moved = self.hat(r) + step * d
                belief = self.softmax(r, moved, self.epsilon)
                slope = float((belief * d).sum())
                scale = self.epsilon * c
                variance = float((belief * (d - slope) ** 2).sum())
                points[0, k] += soft_max(moved, self.epsilon, c)
                points[1, k] += slope
                points[2, k] += variance / scale if scale else 0.0
        value, slopes, curvature = points
        return value, slopes, curvature

    def certificate(
        self, smoothing: float | None = None, region_gaps: bool = False, candidate: bool = False
    ) -> Certificate:
        smoothing = self.epsilon if smoothing is None else smoothing
        if not smoothing > 0.0:
            raise OptionError("smoothing must be positive: at epsilon = 0 no candidate can be made from beliefs")
        consistent, failed = consistent_beliefs(self, self.belief_tables(smoothing))
        gap = gaps(self, consistent)
        gap[failed[self.program.segment]] = np.inf
        return Certificate(
            value=self.value(),
            gap=self._per_segment(gap),
            spread=self._per_segment(np.abs(gap)),
            region_gaps=gap if region_gaps else None,
            candidate=_flat(consistent) if candidate else None,
        )

    # Labels.

    def score(self, labels: LabelArray) -> FloatArray:
        terms = [
            table[tuple(labels[list(region)])] for table, region in zip(self.potentials, self.regions, strict=True)
        ]
        return self._per_segment(np.array(terms))

    def decode(self) -> LabelArray:
        singles = {region[0]: r for r, region in enumerate(self.regions) if len(region) == 1}
        classes = [int(self.program.region_class[singles[v]]) for v in range(len(self.regions_of_variable))]
        tables = [self.hat(r) for r in range(len(self.regions))]
        labels = np.zeros(len(classes), dtype=np.int64)
        for variable in sorted(range(len(classes)), key=lambda v: (-classes[v], v)):
            terms = []
            for r in self.regions_of_variable[variable]:
                axis = self.regions[r].index(variable)
                terms.append(np.moveaxis(tables[r], axis, 0).reshape(tables[r].shape[axis], -1).max(axis=1))
            labels[variable] = np.flatnonzero(_best(terms))[0]
            for r in self.regions_of_variable[variable]:  # from here on only the chosen label
                tables[r] = np.take(tables[r], [labels[variable]], axis=self.regions[r].index(variable))
        return labels

    def belief_labels(self) -> LabelArray:
        labels = np.zeros(len(self.regions_of_variable), dtype=np.int64)
        for r, region in enumerate(self.regions):
            if len(region) == 1:
                c, links = self.counting_numbers[r], self.links_up[r]
                if c == 0.0 and links:  # hat is flat
                    hat = links[0].down(self.hat(links[0].parent), np.max)
                else:
                    hat = self.hat(r) * (-1.0 if c < 0.0 else 1.0)
                labels[region[0]] = int(np.where(self.support[r], hat, -np.inf).argmax())
        return labels

    def local_search(self, labels: LabelArray, max_passes: int) -> LabelArray:
        labels = np.array(labels, dtype=np.int64)
        # Joint labels that no feasible labelling has count as forbidden too: more guidance for an infeasible start.
        tables = [np.where(s, t, -np.inf) for s, t in zip(self.support, self.theta, strict=True)]
        for _ in range(max_passes):
            before = labels.copy()
            for variable, regions in enumerate(self.regions_of_variable):
                terms = []
                for r in regions:
                    place = tuple(slice(None) if v == variable else int(labels[v]) for v in self.regions[r])
                    terms.append(tables[r][place])
                best = _best(terms)
                if not best[labels[variable]]:
                    labels[variable] = np.flatnonzero(best)[0]
            if np.array_equal(before, labels):
                break
        return labels

    def block_search(self, labels: LabelArray, rounds: int, seed: int) -> LabelArray:
        labels = np.array(labels, dtype=np.int64)
        tables = [np.where(s, t, -np.inf) for s, t in zip(self.support, self.theta, strict=True)]
        search = BlockSearch(self.regions, tables, labels)
        for k in range(rounds):
            search.round(seed + k)
        return labels

    # History of the mixing.

    def allocate_history(self, slots: int) -> None:
        self._history: list[tuple[FloatArray, FloatArray] | None] = [None] * slots

    def clear_history(self) -> None:
        self._history = [None] * len(self._history)

    def save_point(self) -> None:
        self._saved = self._flat_messages()

    def push(self, slot: int) -> FloatArray:
        now = self._flat_messages()
        difference = self._rounded(now - self._saved)
        self._history[slot] = (difference, now)
        return np.array([0.0 if pair is None else float(difference @ pair[0]) for pair in self._history])

    def mix(self, weights: FloatArray) -> None:
        pairs = [(weight, pair[1]) for weight, pair in zip(weights, self._history, strict=True) if pair is not None]
        self.set_messages(sum((weight * messages for weight, messages in pairs), np.zeros_like(self._saved)))

    def restore(self, slot: int) -> None:
        pair = self._history[slot]
        if pair is None:
            raise OptionError(f"slot {slot} of the history is empty; push before restore")
        self.set_messages(pair[1])

    @property
    def memory_bytes(self) -> int:
        entries = sum(table.size for table in self.theta) * 17  # potentials, theta, support
        messages = self._saved.size * 8 * (2 + 2 * sum(pair is not None for pair in self._history))
        return entries + messages


def _flat(tables: list[FloatArray]) -> FloatArray:
    return np.concatenate([np.zeros(0), *(table.ravel() for table in tables)])


def _best(terms: list[FloatArray]) -> BoolArray:
    """bool [labels]: those with the fewest -inf among the terms and, of these, the largest sum of the others."""
    stacked = np.array(terms)
    forbidden = np.isneginf(stacked).sum(axis=0)
    total = np.where(np.isneginf(stacked), 0.0, stacked).sum(axis=0)
    total[forbidden > forbidden.min()] = -np.inf
    return np.asarray(total == total.max())


class ReferenceBackend:
    """See `protocol.Backend`."""

    name = "reference"
    chunk_entries = 1 << 18
    in_host_memory = True

    def compile(
        self,
        program: Program,
        tables: RealArray,
        *,
        epsilon: float,
        dtype: DataType = "float64",
        threads: int | None = None,
    ) -> Problem:
        del threads  # always one
        return ReferenceProblem(program, tables, epsilon, dtype)

    def linear(
        self, problem: Problem, features: Features, base: RealArray | None, workspace: Workspace
    ) -> LinearPotentials:
        return HostPotentials(problem, features, base, workspace)

    def estimate_bytes(self, program: Program, dtype: DataType = "float64") -> int:
        sizes = np.asarray(program.graph.table_sizes)
        return int(sizes.sum()) * 17 + int(sizes[program.edge_children].sum()) * 16 + 2000 * len(sizes)
