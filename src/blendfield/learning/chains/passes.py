"""The passes over chains side by side, on potentials over eps: u float64 [L, N], t float64 [L, L]."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from blendfield.backends.protocol import FloatArray

LongArray = npt.NDArray[np.int64]

WIDEST = 300.0
"""range of t up to which probabilities do without logarithms: their products stay far from the least number there is"""
ALONE = 1 << 18
"""multiplications up to which a product is not shared among threads (OpenBLAS)"""
NARROWEST = 64
"""columns of a piece"""
TEMPORARY = 1 << 21
"""entries of temporary arrays where logarithms are needed"""


class Positions:
    """Where position t of every chain is. n chains, N positions."""

    def __init__(self, lengths: LongArray) -> None:
        order = np.argsort(-lengths, kind="stable")
        self.rank: LongArray = np.empty_like(order)
        """int64 [n]: place of every chain among all, longest first"""
        self.rank[order] = np.arange(len(order))
        counts = np.bincount(lengths, minlength=1)
        self._counts: LongArray = len(lengths) - np.cumsum(counts)[:-1].astype(np.int64)
        self.starts: LongArray = np.concatenate([[0], np.cumsum(self._counts)]).astype(np.int64)
        self.chains = len(lengths)
        self.parts = [slice(a, b) for a, b in pairwise(self.starts.tolist())]
        """columns of position t, of the chains that have it"""
        self.steps = [(slice(a.start, a.start + b.stop - b.start), b) for a, b in pairwise(self.parts)]
        """(columns of position t - 1, of position t) of the chains that have both, for t = 1, 2, ..."""

    def of(self, chain: int, length: int) -> LongArray:
        """int64 [length]: the columns of one chain."""
        columns: LongArray = self.starts[:length] + self.rank[chain]
        return columns


@dataclass(frozen=True)
class Marginals:
    """L labels, N positions, n chains."""

    values: FloatArray
    """float64 [n]: A_i, longest chain first"""
    nodes: FloatArray
    """float64 [L, N]: P(y_t = a)"""
    pairs: FloatArray
    """float64 [L, L]: sum over pairs of s_i P(y_t = a, y_{t+1} = b)"""


def marginals(u: FloatArray, t: FloatArray, positions: Positions, weights: FloatArray) -> Marginals:
    """weights: float64 [N], s_i at every position."""
    passes = scaled_passes if t.max() - t.min() <= WIDEST else logarithmic_passes
    return passes(u, t, positions, weights)


def scaled_passes(u: FloatArray, t: FloatArray, positions: Positions, weights: FloatArray) -> Marginals:
    """Products of probabilities; the forward pass is scaled to sum to one at every position."""
    top, highest = u.max(axis=0), float(t.max())
    local = u - top
    np.exp(local, out=local)
    table = np.exp(t - highest)
    onward = np.ascontiguousarray(table.T)
    forward = np.empty_like(local)
    scale = np.empty(u.shape[1])
    values = np.zeros(positions.chains)
    for k, part in enumerate(positions.parts):
        here = forward[:, part]
        if k == 0:
            here[:] = local[:, part]
        else:
            _matmul(onward, forward[:, positions.steps[k - 1][0]], here)
            here *= local[:, part]
        total = here.sum(axis=0)
        here /= total
        scale[part] = total
        values[: len(total)] += np.log(total) + top[part] + (highest if k else 0.0)
    pairs = np.zeros_like(t)
    backward = np.ones_like(local)
    uniform = bool((weights == 1.0).all())
    for before, part in reversed(positions.steps):
        here = local[:, part]
        here *= backward[:, part]
        here /= scale[part]
        _matmul(table, here, backward[:, before])
        behind, onward_mass = forward[:, before], here if uniform else here * weights[part]
        for some in _pieces(t.size, here.shape[1]):
            pairs += behind[:, some] @ onward_mass[:, some].T
    forward *= backward
    return Marginals(values, forward, pairs * table)


def _matmul(table: FloatArray, columns: FloatArray, out: FloatArray) -> None:
    """out = table columns; float64 [L, L], [L, n]."""
    for some in _pieces(table.size, columns.shape[1]):
        np.matmul(table, columns[:, some], out=out[:, some])


def _pieces(size: int, count: int) -> list[slice]:
    """Cuts n columns so that the library multiplies each piece by [L, L] numbers on the calling thread: for products
    this narrow its threads gain little, and where the machine has other work they wait for each other.
    """
    width = ALONE // size
    if width < NARROWEST:
        return [slice(0, count)]
    return [slice(first, first + width) for first in range(0, count, width)]


def logarithmic_passes(u: FloatArray, t: FloatArray, positions: Positions, weights: FloatArray) -> Marginals:
    """The same in logarithms, for any range."""
    forward, backward = u.copy(), np.zeros_like(u)
    for before, part in positions.steps:
        forward[:, part] += _log_product(t.T, forward[:, before])
    for before, part in reversed(positions.steps):
        backward[:, before] = _log_product(t, u[:, part] + backward[:, part])
    values = np.zeros(positions.chains)
    nodes = forward + backward
    if positions.parts:
        total = nodes[:, positions.parts[0]]
        top = total.max(axis=0)
        values[:] = np.log(np.exp(total - top).sum(axis=0)) + top
    for part in positions.parts:
        nodes[:, part] -= values[: part.stop - part.start]
    pairs = np.zeros_like(t)
    for before, part in positions.steps:
        onward = u[:, part] + backward[:, part] - values[: part.stop - part.start]
        behind = forward[:, before]
        for some in _at_a_time(onward.shape[1], t.size):
            joint = np.exp(behind[:, None, some] + t[:, :, None] + onward[None, :, some])
            pairs += joint @ weights[part][some]
    return Marginals(values, np.exp(nodes), pairs)


def best_labels(u: FloatArray, t: FloatArray, positions: Positions) -> tuple[FloatArray, LongArray]:
    """(max_y of every chain float64 [n], the labels int64 [N]); ties to the lowest label, from the last position on."""
    forward = u.copy()
    came: LongArray = np.zeros(u.shape, dtype=np.int64)
    for before, part in positions.steps:
        behind = forward[:, before]
        for some in _at_a_time(behind.shape[1], t.size):
            joint = behind[:, None, some] + t[:, :, None]
            came[:, part][:, some] = joint.argmax(axis=0)
            forward[:, part][:, some] += joint.max(axis=0)
    chosen: LongArray = forward.argmax(axis=0)
    values = np.zeros(positions.chains)
    for part in positions.parts:  # the last position of every chain is the one that stays
        values[: part.stop - part.start] = forward[:, part].max(axis=0)
    for before, part in reversed(positions.steps):
        chosen[before] = came[chosen[part], np.arange(part.start, part.stop)]
    return values, chosen


def _log_product(t: FloatArray, a: FloatArray) -> FloatArray:
    """log sum_x exp(t[y, x] + a[x, n]): float64 [L, n]."""
    out = np.empty_like(a)
    for some in _at_a_time(a.shape[1], t.size):
        joint = t[:, :, None] + a[None, :, some]
        top = joint.max(axis=1)
        joint -= top[:, None]
        np.exp(joint, out=joint)
        out[:, some] = np.log(joint.sum(axis=1)) + top
    return out


def _at_a_time(count: int, entries: int) -> list[slice]:
    size = max(1, TEMPORARY // entries)
    return [slice(first, min(count, first + size)) for first in range(0, count, size)]
