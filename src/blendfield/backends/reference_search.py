"""Block moves of the reference backend: the labels of all variables of an induced forest at once.

What a round does is said at `protocol.Problem.block_search`. All random numbers are hashes of the seed and a place, so
that every backend draws the same.
"""

from __future__ import annotations

from collections.abc import Callable

from blendfield.backends.protocol import FloatArray, LabelArray

VARIABLES_PER_KICK = 64
WALK_LENGTH, MOVES_AROUND, MOVES_OF_ALL = 5, 4, 2
ROUNDS_PER_WIDE_ONE, SIZE_PLACE = 32, 2**64 - 1
LEAST_MEMBERS, DOUBLINGS = 4, 3

Rank = tuple[int, float]
"""(- number of forbidden terms, sum of the others): larger is better"""
_BITS = 2**64 - 1


def hashed(seed: int, place: int) -> int:
    """splitmix64."""
    z = (seed + 0x9E3779B97F4A7C15 * (place + 1)) & _BITS
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _BITS
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _BITS
    return z ^ (z >> 31)


class BlockSearch:
    """Rounds of block moves in V variables, R regions."""

    def __init__(self, regions: list[tuple[int, ...]], tables: list[FloatArray], labels: LabelArray) -> None:
        """`tables`: by region, in its shape, -inf where forbidden; `labels`: int64 [V], changed in place."""
        self.regions = regions
        self.tables = tables
        self.labels = labels
        count = len(labels)
        self.cardinalities = [0] * count
        self.regions_of: list[list[int]] = [[] for _ in range(count)]
        self.movable = []
        for r, region in enumerate(regions):
            for axis, v in enumerate(region):
                self.regions_of[v].append(r)
                self.cardinalities[v] = tables[r].shape[axis]
        for region, table in sorted(zip(regions, tables, strict=True), key=lambda pair: pair[0]):
            if len(region) == 1 and (table > float("-inf")).sum() > 1:
                self.movable.append(region[0])

    def round(self, seed: int) -> None:
        if not self.movable:
            return
        before = self.labels.copy()
        forced = self._force(hashed(seed, 0))
        for k in range(MOVES_AROUND + MOVES_OF_ALL):
            blocked = forced if k < MOVES_AROUND else {}
            self._move(hashed(seed, 1 + k), forced, blocked, everywhere=seed % ROUNDS_PER_WIDE_ONE == 0)
        self._keep_what_is_no_worse(before)

    def _force(self, seed: int) -> dict[int, None]:
        """New labels for some variables, each with perhaps a few on a walk from it; which, in their order."""
        count = len(self.movable)
        forced: dict[int, None] = {}
        for k in range(1 + count // VARIABLES_PER_KICK):
            place = WALK_LENGTH * 3 * k
            v = self.movable[hashed(seed, place) % count]
            for step in range(place, place + 3 * WALK_LENGTH, 3):
                shift = 1 + hashed(seed, step + 1) % (self.cardinalities[v] - 1)
                self.labels[v] = (self.labels[v] + shift) % self.cardinalities[v]
                forced[v] = None
                around = [u for u in self._neighbours(v) if u in self.movable and u not in forced]
                number = hashed(seed, step + 2)
                if number % 2 == 0 or not around:
                    break
                v = around[(number >> 1) % len(around)]
        return forced

    def _neighbours(self, v: int) -> list[int]:
        """As often as there are regions with both."""
        return [u for r in self.regions_of[v] for u in self._in_core_order(r) if u != v]

    def _in_core_order(self, region: int) -> list[int]:
        return sorted(self.regions[region], key=lambda u: (self.cardinalities[u], u))

    def _move(self, seed: int, forced: dict[int, None], blocked: dict[int, None], everywhere: bool) -> None:
        """The best labels of the variables of a random induced forest, given all others."""
        trees: list[set[int]] = []
        members: list[int] = []

        def join(v: int) -> bool:
            inside = {u for u in self._neighbours(v) if u in members}
            joined = [tree for tree in trees if tree & inside]
            if not all(len(tree & inside) == 1 for tree in joined):
                return False
            trees[:] = [tree for tree in trees if not tree & inside] + [{v}.union(*joined)]
            members.append(v)
            return True

        if everywhere:
            self._scatter(seed, blocked, join)
        else:
            self._grow(seed, forced, blocked, join)
        for tree in trees:
            root = next(v for v in members if v in tree)
            _, best = self._best(root, None, tree)[0]
            for v, label in best.items():
                self.labels[v] = label

    def _scatter(self, seed: int, blocked: dict[int, None], join: Callable[[int], bool]) -> None:
        """Variables from all over the model."""
        order = list(self.movable)
        for k in range(len(order), 1, -1):
            other = hashed(seed, k) % k
            order[k - 1], order[other] = order[other], order[k - 1]
        for v in order:
            if v not in blocked:
                join(v)

    def _grow(self, seed: int, forced: dict[int, None], blocked: dict[int, None], join: Callable[[int], bool]) -> None:
        """From the forced variables, or around them: some more for each of them, neighbours of those taken."""
        order: list[int] = []

        def reach(candidates: list[int]) -> None:
            order.extend(u for u in dict.fromkeys(candidates) if self._may_move(u, blocked) and u not in order)

        for v in forced:
            reach([v, *(self._neighbours(v) if v in blocked else [])])
        kicks = 1 + len(self.movable) // VARIABLES_PER_KICK
        most = kicks * (LEAST_MEMBERS << hashed(seed, SIZE_PLACE) % DOUBLINGS)
        k = count = 0
        while k < len(order) and count < most:
            other = k + hashed(seed, k) % (len(order) - k)
            order[k], order[other] = order[other], order[k]
            if join(order[k]):
                count += 1
                reach(self._neighbours(order[k]))
            k += 1

    def _may_move(self, v: int, blocked: dict[int, None]) -> bool:
        return v in self.movable and v not in blocked

    def _best(self, v: int, parent: int | None, tree: set[int]) -> list[tuple[Rank, dict[int, int]]]:
        """The best labels of v and all below it, for every label of its parent (for the root: once)."""
        children = [u for u in dict.fromkeys(self._neighbours(v)) if u in tree and u != parent]
        below = [self._best(u, v, tree) for u in children]
        own = [r for r in self.regions_of[v] if not any(u in children for u in self.regions[r])]
        found = []
        for above in range(1 if parent is None else self.cardinalities[parent]):
            candidates = []
            for label in range(self.cardinalities[v]):
                given = {v: label} if parent is None else {v: label, parent: above}
                terms = [self._rank(r, given) for r in own] + [answer[label][0] for answer in below]
                labels = {v: label}
                for answer in below:
                    labels |= answer[label][1]
                candidates.append((_add(terms), labels))
            found.append(max(candidates, key=lambda candidate: candidate[0]))  # the first of the best
        return found

    def _keep_what_is_no_worse(self, before: LabelArray) -> None:
        """Variables with new labels hang together where a region has two; each such part is judged by itself."""
        changed = {int(v) for v in (self.labels != before).nonzero()[0]}
        while changed:
            part = {min(changed)}
            while grown := {u for v in part for u in self._neighbours(v) if u in changed} - part:
                part |= grown
            changed -= part
            touched = sorted({r for v in part for r in self.regions_of[v]})
            old = {v: int(before[v]) for v in part}
            if _add([self._rank(r, old) for r in touched]) > _add([self._rank(r, {}) for r in touched]):
                for v in part:
                    self.labels[v] = before[v]

    def _rank(self, region: int, given: dict[int, int]) -> Rank:
        """Of the entry at the present labels, where `given` says no others."""
        entry = float(self.tables[region][tuple(given.get(u, int(self.labels[u])) for u in self.regions[region])])
        return (-1, 0.0) if entry == float("-inf") else (0, entry)


def _add(ranks: list[Rank]) -> Rank:
    return sum(rank[0] for rank in ranks), sum(rank[1] for rank in ranks)
