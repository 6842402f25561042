"""theta = base + Phi w on a card (`protocol.LinearPotentials`): features, tables and sums stay there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from blendfield.backends.cuda import sources
from blendfield.backends.cuda.device import Replay
from blendfield.backends.cuda.launches import Sums
from blendfield.backends.cuda.layout import Int64Array
from blendfield.backends.cuda.problem import STATIC_ENTRIES, CudaProblem
from blendfield.backends.cuda.terms import layers, places_of, ranks, regions_of, term_arrays, writes_of
from blendfield.backends.protocol import (
    Certificate,
    Features,
    FloatArray,
    LinearEvaluation,
    MatrixPart,
    RealArray,
    RowsPart,
)

KERNELS = ["potentials", "evaluate", "belief_terms", "candidate_terms", "add_rows", "belief_rows", "candidate_rows"]
TERMS = [
    *("weights", "blocks", "first", "weight", "table", "coefficient", "rank", "tables", "sums", "base", "base_at"),
    *("write", "values"),
]
REGIONS = ["place", "which", "count", "n", "rows", "beliefs", "variances", "base", "coefficient", "rank"]
MOST_TERMS = 3
"""per lane, in a kernel compiled for its shape"""
ENOUGH_THREADS = 1 << 17
"""lanes of large tables are shared by several threads until there are so many"""
SQUARES = 1 << 18
"""rows of a dense matrix whose squares are made at a time"""


class CudaPotentials:
    """See `protocol.LinearPotentials`. K weights."""

    def __init__(self, problem: CudaProblem, features: Features, base: RealArray | None) -> None:
        self.problem = problem
        self.features = features
        self.device = device = problem.device
        self._xp = xp = device.xp
        layout, program, dtype = problem.layout, problem.program, problem.dtype
        self._kernel = device.kernels(sources.general(dtype.name, "linear"), KERNELS)
        size = features.size
        terms = term_arrays(layout, program, features.terms, share=device.team > 1)
        self._write = writes_of(layout, program, features)
        rows = [_rows_weights(part) for part in features.rows]
        places, counts = ranks(size, [terms.weight[terms.present], *rows])
        rank = np.zeros(len(terms.weight), dtype=np.int32)
        rank[terms.present] = places[0]
        self._sums = xp.zeros((max(int(counts.sum()), 1), 2))
        self._sum_weights = Sums(device, problem._kernel["sum_pieces"], counts)
        base_at, stored = self._keep_base(base is not None)

        def real(array: Any) -> Any:
            return xp.asarray(array if len(array) else np.zeros(1, dtype=array.dtype))

        self._arrays: dict[str, Any] = {
            "weights": xp.zeros(max(size, 1)),
            "blocks": real(terms.blocks.view(np.uint8)),
            "first": real(terms.first),
            "weight": real(terms.weight),
            "table": real(terms.table),
            "coefficient": real(terms.coefficient),
            "rank": real(rank),
            "tables": real(terms.tables.astype(dtype)),
            "sums": self._sums,
            "base": stored,
            "base_at": real(base_at),
            "write": xp.asarray(self._write),
            "values": problem._lane_values,
        }
        self._terms = xp.asarray(np.array([device.address(self._arrays[name]) for name in TERMS], dtype=np.int64))
        self._rows = [_Rows(problem, part, place) for part, place in zip(features.rows, places[1:], strict=True)]
        self._matrices = [_Matrix(problem, part) for part in features.matrices]
        self._belief_range = self._ranges()
        self._static, self._general = self._plan(terms.most)
        self._filled, self._filled_generally = self._plan_potentials(terms.most)
        self._out = xp.zeros(1 + 2 * size)
        self._replays: dict[tuple[str, bool], Replay | None] = {}
        self._weights: FloatArray = np.zeros(size)
        if device.scarce():
            problem.share_tables(self._refill)

    # Set up.

    def _keep_base(self, given: bool) -> tuple[Int64Array, Any]:
        """(offset per group or -1, tables of the groups that have any). The problem was compiled with the base."""
        layout, xp = self.problem.layout, self._xp
        at = np.full(max(len(layout.groups), 1), -1, dtype=np.int64)
        kept, size = [], 0
        tables = self.problem._arrays["tables"]
        for k, g in enumerate(layout.groups if given else []):
            own = tables[g.tables : g.tables + g.padded * g.entries]
            if bool((own != 0).any()):
                at[k] = size
                kept.append(own)
                size += len(own)
        return at, xp.concatenate(kept) if kept else xp.zeros(1, dtype=self.problem.dtype)

    def _ranges(self) -> tuple[int, int]:
        """First and last position in the layout of the tables at which beliefs are kept."""
        groups = [g for g, write in zip(self.problem.layout.groups, self._write, strict=False) if write]
        if not groups:
            return 0, 1
        return min(g.tables for g in groups), max(g.tables + g.padded * g.entries for g in groups)

    def _plan(self, most: Any) -> tuple[list[tuple[Any, int, int]], list[int]]:
        """How groups are evaluated: launches of kernels of their own [(kernel, item, thread blocks)], the other groups.

        Kernels for one shape want positive temperatures and few terms.
        """
        problem, layout = self.problem, self.problem.layout
        program = problem.program
        texts: dict[tuple[Any, ...], tuple[str, str]] = {}
        chosen: list[tuple[str, int, int]] = []
        others: list[int] = []
        largest = 0
        for k, g in enumerate(layout.groups):
            write = bool(self._write[k])
            positive = bool((program.counting_numbers[g.members] > 0).all())
            fits = g.lanes * g.entries >= STATIC_ENTRIES and most[k] <= MOST_TERMS
            if not (fits and positive) or (write and (g.entries > 32 or g.width == 1)):
                others.append(k)
                continue
            threads = self.device.team if g.width == 1 else 1
            tiles = -(-g.entries // (8 * threads)) if g.width == 1 else sources.tiles(g, problem.dtype.name)
            splits = 1 if write else min(tiles, -(-ENOUGH_THREADS // (g.lanes * threads)))
            key = g.extents, g.masks, g.width, int(most[k]), write, splits
            if key not in texts:
                name = f"evaluate_{len(texts)}"
                text = sources.evaluate_kernel(name, g, int(most[k]), write, problem.dtype.name, splits)
                texts[key] = name, text
            name, item, padded = texts[key][0], problem._group_items[k], g.padded
            chosen.append((name, item, -(-padded * splits * threads // self.device.block)))
            if splits > 1:
                chosen.append((f"merge_{name}", item, -(-padded // self.device.block)))
                largest = max(largest, padded * splits * (2 + 2 * (int(most[k]) + 1)))
        problem._buffer("splits", largest)
        if not texts:
            return [], others
        source = sources.general(problem.dtype.name, "features") + "".join(text for _, text in texts.values())
        kernels = self.device.kernels(source, [name for name, *_ in chosen])
        return [(kernels[name], item, blocks) for name, item, blocks in chosen], others

    def _plan_potentials(self, most: Any) -> tuple[list[tuple[Any, int, int]], list[int]]:
        """How tables are filled: as `_plan`."""
        problem = self.problem
        chosen: list[tuple[str, int, int]] = []
        texts: dict[str, str] = {}
        others = []
        for k, g in enumerate(problem.layout.groups):
            if g.width == 1 or g.lanes * g.entries < STATIC_ENTRIES or most[k] > MOST_TERMS:
                others.append(k)
                continue
            parts = min(-(-g.entries // 32), -(-ENOUGH_THREADS // g.lanes))
            name = f"potentials_{g.entries}_{most[k]}_{parts}"
            texts[name] = sources.potentials_kernel(name, g.entries, int(most[k]), parts)
            chosen.append((name, problem._group_items[k], -(-g.lanes * parts // self.device.block)))
        if not texts:
            return [], others
        kernels = self.device.kernels(
            sources.general(problem.dtype.name, "features") + "".join(texts.values()), [*texts]
        )
        return [(kernels[name], item, blocks) for name, item, blocks in chosen], others

    # Launches.

    def _launch(self, name: str, blocks: Any, a: int = 0, b: int = 0, c: int = 0) -> None:
        problem = self.problem
        at, count = 0, blocks if isinstance(blocks, int) else blocks.count
        if not isinstance(blocks, int):
            at = problem._at(problem._blocks) + 8 * blocks.first
        self.device.launch(self._kernel[name], count, problem._at(problem._view), at, a, b, c, 0, 0.0)

    def _recorded(self, name: str, work: Callable[[], None]) -> None:
        """The first time as it is, then as one graph of launches. Library calls are not recorded."""
        key = name, self.problem.epsilon > 0.0
        if self._matrices or key not in self._replays:
            work()
            self._replays[key] = None
            return
        replay = self._replays[key]
        if replay is None:
            replay = self._replays[key] = self.device.record(work)
        replay()

    def _take_weights(self, weights: FloatArray) -> None:
        if len(weights):
            self._arrays["weights"][...] = self._xp.asarray(np.ascontiguousarray(weights, dtype=np.float64))

    def _fill(self, tables: Any, own: bool) -> None:
        """tables = Phi w (with `own` base + Phi w), in the layout of the tables."""
        problem = self.problem
        weights, at = self._at("weights"), problem._at(tables)
        terms, view = problem._at(self._terms), problem._at(problem._view)
        for kernel, item, count in self._filled:
            self.device.launch(kernel, count, view, 0, terms, item, at, int(own), 0.0)
        for k in self._filled_generally:
            self._launch("potentials", problem._by_group[k], terms, at, int(own))
        for matrix in self._matrices:
            matrix.multiply(self._arrays["weights"])
        for part in (*self._rows, *self._matrices):
            for regions, blocks in part.layers:
                self._launch("add_rows", blocks, problem._at(regions), weights, at)

    def _at(self, name: str) -> int:
        return self.device.address(self._arrays[name])

    # The protocol.

    def set_weights(self, weights: FloatArray) -> None:
        problem = self.problem
        problem._take_shelf()
        self._weights = np.array(weights, dtype=np.float64)
        self._take_weights(self._weights)
        self._recorded("potentials", lambda: self._fill(problem._arrays["tables"], True))
        problem._potentials_changed()

    def _refill(self) -> None:
        self._take_weights(self._weights)
        self._fill(self.problem._arrays["tables"], True)

    def tables(self) -> RealArray:
        self.problem._own_tables()
        tables: RealArray = self.problem._flat(self.problem._arrays["tables"])
        return tables

    def moments(self, d: RealArray) -> FloatArray:
        return self.features.moments(d)

    def trial(self, direction: FloatArray, steps: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        problem = self.problem
        problem._refresh_base()
        along = problem._buffer("direction", problem.layout.table_entries, problem.dtype)
        self._take_weights(direction)
        self._fill(along, False)
        return problem._trial(along, np.asarray(steps, dtype=np.float64))

    def evaluate(self, curvature: bool, slot: int | None = None) -> LinearEvaluation:
        problem, size = self.problem, self.features.size
        problem._refresh_base()
        self._recorded("evaluate", self._evaluate)
        self._take_matrices()
        if slot is None:
            out, products = self.device.host(self._out), np.zeros(0)
        else:
            found = self.device.host(self._xp.concatenate([self._out, problem._push(slot)]))
            out, products = found[: len(self._out)], np.where(problem._pushed, found[len(self._out) :], 0.0)
        return LinearEvaluation(float(out[0]), out[1 : 1 + size], out[1 + size :] if curvature else None, products)

    def _evaluate(self) -> None:
        """F and the sums of terms and rows; rows of beliefs of the matrices."""
        problem, device = self.problem, self.device
        size, splits = self.features.size, problem._at(problem._buffers["splits"])
        terms = device.address(self._terms)
        if len(problem._zero):  # beliefs of regions with c = 0 are made from those of others
            beliefs = problem._at(problem._beliefs(None))
            self._launch("belief_terms", problem._all, terms, beliefs)
        else:
            first, last = self._belief_range
            kept = problem._buffer("kept beliefs", last - first, problem.dtype)
            beliefs = problem._at(kept) - first * problem.dtype.itemsize  # as if all were there
            soft = problem.epsilon > 0.0
            if soft:
                for kernel, item, blocks in self._static:
                    view = problem._at(problem._view)
                    device.launch(kernel, blocks, view, 0, terms, item, beliefs, splits, 0.0)
            for k in self._general if soft else range(len(problem.layout.groups)):
                self._launch("evaluate", problem._by_group[k], terms, beliefs)
        self._take_rows("belief_rows", beliefs)
        self._out[:1] = problem._total(problem._lane_values, 1)
        if size:
            sums = self._sum_weights(self._sums, 2)
            self._out[1 : 1 + size] = sums[:, 0]
            self._out[1 + size :] = sums[:, 1]

    def _take_rows(self, name: str, tables: int) -> None:
        for part in (*self._rows, *self._matrices):
            for regions, blocks in part.layers:
                self._launch(name, blocks, self.device.address(regions), tables, self._at("sums"))

    def _take_matrices(self) -> None:
        size = self.features.size
        for matrix in self._matrices:
            matrix.add_moments(self._out[1 : 1 + size])
            matrix.add_curvature(self._out[1 + size :])

    def certificate(self, smoothing: float) -> tuple[Certificate, FloatArray]:
        problem, size = self.problem, self.features.size
        if not problem.certifies:
            certificate = problem.certificate(smoothing, candidate=True)
            assert certificate.candidate is not None
            return certificate, self.features.moments(certificate.candidate)
        certificate, q = problem._certificate(smoothing, keep=True)
        self._launch("candidate_terms", problem._all, self.device.address(self._terms), problem._at(q))
        self._take_rows("candidate_rows", problem._at(q))
        moments = self._xp.zeros(max(size, 1))
        if size:
            moments[...] = self._sum_weights(self._sums, 2)[:, 0]
        for matrix in self._matrices:
            matrix.add_moments(moments)
        return certificate, self.device.host(moments)[:size]

    @property
    def memory_bytes(self) -> int:
        held = [*self._arrays.values(), self._out, *(a for part in self._matrices for a in part.arrays)]
        return sum(int(array.nbytes) for array in held)


class _Part:
    """Regions of one table size on the card; `layers`: [(Regions, thread blocks)], no region twice in one."""

    def __init__(self, problem: CudaProblem, start: Int64Array, size: int, fields: dict[str, Any]) -> None:
        xp, device = problem.device.xp, problem.device
        regions = regions_of(problem.program, start)
        fields["place"] = xp.asarray(places_of(problem.layout, regions))
        self.fields = fields
        self.layers = []
        self._kept = []
        for which in layers(regions):
            count = len(regions) if which is None else len(which)
            if count == 0:
                continue
            chosen = None if which is None else xp.asarray(which)
            self._kept.append(chosen)
            given = {**fields, "which": chosen, "count": count, "n": len(regions)}
            values = [given.get(name) for name in REGIONS]
            numbers = [v if isinstance(v, int) else 0 if v is None else device.address(v) for v in values]
            blocks = -(-count * size // device.block)
            self.layers.append((xp.asarray(np.array(numbers, dtype=np.int64)), blocks))


def _rows_weights(part: RowsPart) -> Int64Array:
    """int64 [entries * n], entry by entry: weight of (y, j)."""
    return (np.arange(part.size, dtype=np.int64)[:, None] + part.base).reshape(-1)


class _Rows(_Part):
    def __init__(self, problem: CudaProblem, part: RowsPart, rank: Any) -> None:
        xp = problem.device.xp
        coefficient = np.ones(len(part.start)) if part.coefficient is None else part.coefficient
        fields = {"base": part.base.astype(np.int32), "coefficient": coefficient, "rank": rank}
        super().__init__(problem, part.start, part.size, {k: xp.asarray(_padded(v)) for k, v in fields.items()})


class _Matrix(_Part):
    """Dense products by cuBLAS, sparse ones by cuSPARSE. Rows are [size, n], features [n, F]."""

    def __init__(self, problem: CudaProblem, part: MatrixPart) -> None:
        device, xp = problem.device, problem.device.xp
        self.xp = xp
        n, self.width = (int(k) for k in part.features.shape)
        self.size, self.offset = part.size, part.offset
        self.sparse = hasattr(part.features, "tocsr")
        names = ("rows", "beliefs", "variances")
        rows = {name: xp.zeros((part.size, max(n, 1)))[:, :n] for name in names}
        if self.sparse:
            self.features = device.sparse(part.features)
            self.transposed = device.sparse(part.features.T.tocsr())
            self.squares = device.sparse(part.features.T.power(2).tocsr())
            self.arrays = [*rows.values(), self.features.data, self.transposed.data, self.squares.data]
        else:
            self.features = xp.asarray(np.ascontiguousarray(part.features, dtype=np.float64))
            self.arrays = [*rows.values(), self.features]
        self.rows, self.beliefs, self.variances = (rows[name] for name in names)
        super().__init__(problem, part.start, part.size, dict(rows))

    def multiply(self, weights: Any) -> None:
        """rows = W features^T."""
        own = weights[self.offset : self.offset + self.size * self.width].reshape(self.size, self.width)
        if self.sparse:
            self.rows[...] = (self.features @ own.T).T
        elif self.rows.size:
            self.xp.matmul(own, self.features.T, out=self.rows)

    def add_moments(self, out: Any) -> None:
        """out [K] += beliefs features."""
        part = out[self.offset : self.offset + self.size * self.width].reshape(self.size, self.width)
        part += (self.transposed @ self.beliefs.T).T if self.sparse else self.beliefs @ self.features

    def add_curvature(self, out: Any) -> None:
        """out [K] += variances features^2."""
        part = out[self.offset : self.offset + self.size * self.width].reshape(self.size, self.width)
        if self.sparse:
            part += (self.squares @ self.variances.T).T
            return
        for first in range(0, self.features.shape[0], SQUARES):
            some = slice(first, first + SQUARES)
            part += self.variances[:, some] @ self.xp.square(self.features[some])


def _padded(array: Any) -> Any:
    return array if len(array) else np.zeros(1, dtype=array.dtype)
