"""What can be done with learned weights: potentials, inference, labels. Shared by the learner and its rivals."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from blendfield.backends.protocol import FloatArray, LabelArray
from blendfield.errors import NotFittedError, OptionError
from blendfield.inference import Result, infer
from blendfield.learning import storage
from blendfield.learning.compile import potentials_of
from blendfield.model.sample import Sample
from blendfield.model.weights import WeightLayout


class Predictor:
    """Weights that have been learned, weights_ float64 [K], and how inference was done with them."""

    epsilon: float
    counting_numbers: Any
    threads: int | None
    dtype: str
    backend: str
    layout_: WeightLayout
    weights_: FloatArray
    """float64 [K]"""
    blocks_: dict[str, FloatArray]
    """views of `weights_`, each in its block's shape"""

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write weights, model description and training record to one safetensors file (docs/learning.md), which is
        either complete or not there. Callbacks are left out.
        """
        self._require_fit()
        storage.save(path, self)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """The learner that `save` wrote, of this class or one derived from it; FileFormatError for any other file."""
        learner: Self = storage.load(path, cls)
        return learner

    def potentials(self, sample: Sample, loss: bool = False) -> FloatArray:
        """float64 [table layout]: theta_r = sum_k w_k phi_{k,r}, plus l_r with `loss`."""
        self._require_fit()
        return potentials_of(sample, self.layout_, self.weights_, loss)

    def infer(self, samples: Sequence[Sample] | Sample, **options: Any) -> Any:
        """`blendfield.infer` on the learned potentials, all samples compiled together: a list of `Result`, or one.

        Options as for `infer`; by default temperature, counting numbers and number type are those of training.
        """
        single = isinstance(samples, Sample)
        listed = [samples] if isinstance(samples, Sample) else check_samples(samples)
        self._require_fit()
        for number, sample in enumerate(listed):
            for block in sample.blocks:
                self.layout_.check(block, f"sample {number}")
        graphs = [sample.graph for sample in listed]
        potentials = [self.potentials(sample) for sample in listed]
        results: list[Result] = infer(graphs, potentials, **{**self._inference(), **options})
        return results[0] if single else results

    def predict(self, samples: Sequence[Sample] | Sample, decode: str = "beliefs", **options: Any) -> Any:
        """Labels int64 [V] of every sample (of the one given): the argmax of single-variable beliefs at the training
        temperature, or with decode="map" those of `infer`.
        """
        if decode not in ("beliefs", "map"):
            raise OptionError(f"decode must be 'beliefs' or 'map'; got {decode!r:.60}")
        results = self.infer(samples, **options)
        if isinstance(results, list):
            return [_labels(result, decode) for result in results]
        return _labels(results, decode)

    def _inference(self) -> dict[str, Any]:
        """Options of `infer` as in training."""
        return {
            "epsilon": self.epsilon,
            "counting_numbers": self.counting_numbers,
            "threads": self.threads,
            "dtype": self.dtype,
            "backend": self.backend,
        }

    def _take_weights(self, weights: FloatArray, layout: WeightLayout) -> None:
        self.layout_ = layout
        self.weights_ = weights
        self.blocks_ = layout.views(weights)

    def _require_fit(self) -> None:
        if not hasattr(self, "weights_"):
            raise NotFittedError("this learner has no weights yet: call fit or load first")


def check_samples(samples: Any) -> list[Sample]:
    """A list of samples; OptionError otherwise."""
    if isinstance(samples, Sample):
        return [samples]
    try:
        listed = list(samples)
    except TypeError:
        raise OptionError(f"expected a list of samples; got {type(samples).__name__}") from None
    for number, sample in enumerate(listed):
        if not isinstance(sample, Sample):
            raise OptionError(f"sample {number}: expected a Sample; got {type(sample).__name__}")
    return listed


def _labels(result: Result, decode: str) -> LabelArray:
    if decode == "map":
        return result.labels
    graph, beliefs = result.graph, result.beliefs.flat
    singles = graph.single_regions
    sizes = graph.table_sizes[singles]
    labels = np.zeros(graph.num_variables, dtype=np.int64)
    for size in np.unique(sizes).tolist():
        some = np.flatnonzero(sizes == size)
        labels[some] = beliefs[graph.table_offsets[singles[some], None] + np.arange(size)].argmax(axis=1)
    return labels


def initial_weights(initial: Any, layout: WeightLayout) -> FloatArray:
    """float64 [K]: zeros, those given, or those that another learner has for the blocks that are here too."""
    if initial is None:
        return np.zeros(layout.size)
    if isinstance(initial, Predictor):
        initial._require_fit()
        return _carried_over(initial.weights_, initial.layout_, layout)
    try:
        weights = np.array(initial, dtype=np.float64)
    except (TypeError, ValueError):
        raise OptionError("initial must be None, weights [K] or a fitted learner") from None
    if weights.shape != (layout.size,) or not np.isfinite(weights).all():
        raise OptionError(f"initial weights must be finite and of shape ({layout.size},); got {weights.shape}")
    return weights


def _carried_over(weights: FloatArray, theirs: WeightLayout, layout: WeightLayout) -> FloatArray:
    """Block by block; what is new starts at zero, as do labels and triples that the other learner has not seen."""
    started = np.zeros(layout.size)
    known, own = theirs.views(weights), layout.views(started)
    for name, block in zip(layout.names, layout.shapes, strict=True):
        if name not in known:
            continue
        before = theirs.shapes[theirs.names.index(name)]
        growing = block.kind in ("linear", "triples") and block.shape[1:] == before.shape[1:]
        if block.kind != before.kind or not (growing or block.shape == before.shape):
            raise OptionError(
                f"initial: that learner has {before.kind} weights {before.shape} for block {name!r:.60}, "
                f"not {block.kind} {block.shape}"
            )
        count = min(block.shape[0], before.shape[0])
        own[name][:count] = known[name][:count]
    return started
