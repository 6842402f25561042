"""The objective as a function of potentials that come from elsewhere, a neural network for instance.

    F(theta) = sum_r eps c_r logsumexp(hat_r / (eps c_r)) - theta_r(y_r),      dF/dtheta_r = b_r - 1[y_r],

with theta_r + l_r in place of theta_r in hat_r (mathematics §2, §7). The messages are part of the objective and stay
from call to call: with one sweep a call they are blended with the steps of whoever learns theta.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from blendfield import backends
from blendfield.backends.protocol import FloatArray, RealArray
from blendfield.errors import LabelError, OptionError
from blendfield.graph import RegionGraph
from blendfield.inference.options import check_data_type, check_integer, check_number
from blendfield.learning.chunk import loss_and_known_potentials, program_of
from blendfield.model.losses import true_entries
from blendfield.model.potentials import flatten_potentials
from blendfield.model.sample import Sample


class StructuredLoss:
    """F and dF/dtheta for N graphs with their labels.

    Parameters
    ----------
    graphs, labels
        N graphs (or one), and for each the true labels int [V], all observed.
    epsilon
        Temperature: 1 conditional random field, 0 structured support vector machine.
    counting_numbers
        As for `BlendedLearner`.
    loss
        As for `Sample`: the same for all graphs.
    sweeps
        Over all messages in every call, before the value is taken. On forests with "bethe" one is exact.
    threads, dtype, backend
        As for `infer`.
    """

    def __init__(
        self,
        graphs: Sequence[RegionGraph] | RegionGraph,
        labels: Any,
        epsilon: float = 1.0,
        counting_numbers: Any = "cover",
        loss: Any = "hamming",
        *,
        sweeps: int = 1,
        threads: int | None = None,
        dtype: str = "float64",
        backend: str = "auto",
    ) -> None:
        self._single = isinstance(graphs, RegionGraph)
        self.graphs = [graphs] if isinstance(graphs, RegionGraph) else list(graphs)
        labels = [labels] if self._single else list(labels)
        if len(labels) != len(self.graphs) or not self.graphs:
            raise LabelError(f"expected labels for each of {len(self.graphs)} graphs (at least one); got {len(labels)}")
        self.epsilon = check_number("epsilon", epsilon, "a number >= 0")
        self.sweeps = check_integer("sweeps", sweeps, 0)
        self.dtype = check_data_type(dtype)
        self._threads = None if threads is None else check_integer("threads", threads, 1)
        self._backend = backends.get(backend)
        samples = [Sample(graph, [], y, loss) for graph, y in zip(self.graphs, labels, strict=True)]
        self._models = program_of(samples, counting_numbers, self.epsilon)
        graph = self._models.program.graph
        self._starts = graph.table_offsets[self._models.region_starts].tolist()
        truth, self._loss = loss_and_known_potentials(samples, self._starts[-1], self._starts[:-1], self.dtype)
        self._truth, observed = true_entries(graph, truth)
        if not observed.all():
            number = int(np.searchsorted(self._models.region_starts, int((~observed).argmax()), side="right")) - 1
            raise LabelError(f"graph {number}: some labels are unobserved (-1); they have to be known here")
        self._problem: Any = None

    def __call__(self, potentials: Any) -> tuple[FloatArray, Any]:
        """(F of every graph float64 [N], dF/dtheta float [table layout] of every graph), after the sweeps.

        potentials: of each graph, in any form that `infer` takes; best a flat float [table layout]. Where they are -inf
        at the first call the labels are forbidden for good. With a single graph: its potentials, its gradient.
        """
        theta = self._tables(potentials)
        if self._problem is None:
            self._problem = self._backend.compile(
                self._models.program, theta, epsilon=self.epsilon, dtype=self.dtype, threads=self._threads
            )
        else:
            self._problem.set_potentials(theta)
        if not np.isfinite(theta[self._truth]).all():
            region = int((~np.isfinite(theta[self._truth])).argmax())
            number = int(np.searchsorted(self._models.region_starts, region, side="right")) - 1
            region -= int(self._models.region_starts[number])
            raise LabelError(f"graph {number}, region {region}: the true label is forbidden (-inf)")
        self._problem.sweep(self.sweeps)
        value, beliefs = self._problem.value_and_beliefs()
        scores = np.add.reduceat(theta[self._truth].astype(np.float64), self._models.region_starts[:-1])
        beliefs[self._truth] -= 1.0
        gradient = [beliefs[a:b] for a, b in zip(self._starts[:-1], self._starts[1:], strict=True)]
        return self._models.per_model(value) - scores, gradient[0] if self._single else gradient

    def gap(self, smoothing: float | None = None) -> FloatArray:
        """float64 [N]: how far F of the last call is, at most, from its minimum over all messages, graph by graph.

        smoothing: temperature of the beliefs behind the bound, needed at epsilon = 0.
        """
        if self._problem is None:
            raise OptionError("gap: call the loss with potentials first")
        certificate = self._problem.certificate(smoothing or self.epsilon)
        return self._models.per_model(np.abs(certificate.gap))

    def restart(self) -> None:
        """Set all messages to zero."""
        if self._problem is not None:
            self._problem.set_messages(np.zeros(self._models.num_messages, dtype=self.dtype))

    def _tables(self, potentials: Any) -> RealArray:
        """float [tables of all graphs]: theta + l."""
        given = [potentials] if self._single else list(potentials)
        if len(given) != len(self.graphs):
            raise OptionError(f"expected potentials for each of {len(self.graphs)} graphs; got {len(given)}")
        theta: RealArray = np.zeros(self._starts[-1], dtype=self.dtype)
        for graph, own, start, stop in zip(self.graphs, given, self._starts[:-1], self._starts[1:], strict=True):
            theta[start:stop] = flatten_potentials(graph, own, self.dtype)
        if self._loss is not None:
            theta += self._loss
        return theta
