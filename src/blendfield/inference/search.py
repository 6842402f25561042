"""Better labels for models whose bounds do not meet: block moves from the best labels known, and from elsewhere."""

from __future__ import annotations

import numpy as np

from blendfield.backends.protocol import LabelArray, Problem
from blendfield.inference.bounds import SEARCH_PASSES, Bounds
from blendfield.inference.norm_product import Monitor

ROUNDS_PER_CERTIFICATE = 2
MOST_ROUNDS = 50
"""between two certificates"""
RESTART_ROUNDS = 100
LEAST_SHARE, MOST_SHARE = 0.05, 0.5
"""of the variables that get random labels at a restart"""
MOST_VARIABLES = 50_000
"""rounds times variables, between two certificates and between two looks at the clock: in larger models block moves
cost more than all the rest, and only restarts make them
"""


class LabelSearch:
    """Block moves, each with random numbers of its own: labels depend on how many there were, and on nothing else."""

    def __init__(self, problem: Problem, bounds: Bounds, monitor: Monitor) -> None:
        self.problem = problem
        self.bounds = bounds
        self.monitor = monitor
        self.random = np.random.default_rng(0)
        self.cardinalities = bounds.models.program.graph.cardinalities
        self.most_rounds = MOST_VARIABLES // max(1, len(self.cardinalities))
        self._rounds = 0

    def improve(self) -> None:
        """Some rounds at the certificates number 1, 2, 4, 8, ..., about two for every certificate so far."""
        if self.bounds.labels_are_best() or not self.monitor.labels_due():
            return
        rounds = min(ROUNDS_PER_CERTIFICATE * (self.monitor.certificates + 1), MOST_ROUNDS, self.most_rounds)
        if rounds:
            self._offer(self._search(self.bounds.labels, rounds))

    def restart(self, times: int, reason: str) -> str:
        """Random labels for some variables of the best labelling and a search from there, while there is time.

        Returns the reason to stop: `reason`, unless the search found another.
        """
        for _ in range(times):
            labels = self.bounds.labels.copy()
            chosen = self.random.random(len(labels)) < self.random.uniform(LEAST_SHARE, MOST_SHARE)
            labels[chosen] = self.random.integers(0, self.cardinalities[chosen])
            left = RESTART_ROUNDS
            while left:
                if self.bounds.labels_are_best():
                    return reason
                if self.monitor.late():
                    return "time_limit"
                rounds = min(left, max(1, self.most_rounds))
                labels = self._search(labels, rounds)
                left -= rounds
                self._offer(labels)
                if self.monitor.report() == "callback":
                    return "callback"
        return reason

    def _search(self, labels: LabelArray, rounds: int) -> LabelArray:
        self._rounds += rounds
        return self.problem.block_search(labels, rounds, self._rounds - rounds)

    def _offer(self, labels: LabelArray) -> None:
        self.bounds.offer(self.problem.local_search(labels, SEARCH_PASSES))
