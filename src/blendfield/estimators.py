"""Classifiers of structured outputs with the manners of scikit-learn, which is not needed: fit, predict, predict_proba,
score, get_params, set_params; they work in its `clone`, `GridSearchCV` and pipelines.

Every X is a sequence of structures, every y the labels of their nodes:

    ChainClassifier   X[i] [T_i, F]             y[i] [T_i]          words of a sentence, letters of a word
    GridClassifier    X[i] [H_i, W_i, F]        y[i] [H_i, W_i]     pixels
    GraphClassifier   X[i] (nodes [n_i, F], edges [m_i, 2]) or (nodes, edges, edge features [m_i, G]);   y[i] [n_i]

Sizes may differ. Features are dense, or for chains and graphs scipy.sparse rows. Padded arrays [n, T, F] and
[n, H, W, F] are taken too: rows that are all NaN, at the end, are padding; predictions are then padded as well.
"""

from __future__ import annotations

import inspect
import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from blendfield.errors import (
    BlendfieldError,
    FeatureError,
    FileFormatError,
    LabelError,
    NotFittedError,
    OptionError,
    nearest,
)
from blendfield.formats.shards import Shards
from blendfield.graph import RegionGraph, chain_graph, components, grid_graph
from blendfield.inference import Result
from blendfield.inference.options import check_choice
from blendfield.learning import BlendedLearner
from blendfield.learning.storage import UNSAVED, option_names
from blendfield.model import Sample, TiedLinear

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Structure:
    """One X[i] as read: n nodes."""

    nodes: Any
    """float [n, F], dense or CSR"""
    shape: tuple[int, ...]
    """of its labels: (T,), (H, W) or (n,)"""
    edges: Any = None
    """int [m, 2], graphs only"""
    edge_features: Any = None
    """float [m, G]"""


@dataclass(frozen=True)
class Inferred:
    """What is found for one structure."""

    labels: Array
    """in its shape, of `classes_`: the most probable label of every node; at epsilon = 0 those of the best score"""
    marginals: Array
    """float [..., L]"""
    result: Result


class StructuredClassifier:
    """Base of the three classifiers.

    Parameters
    ----------
    epsilon
        Temperature: 1 a conditional random field, 0 a structured support vector machine (no predict_proba).
    C
        Strength of the regulariser C/2 |w|^2 against the SUM of the losses: larger is smoother, the other way round
        than in scikit-learn.
    counting_numbers
        "auto": "bethe" where all structures are forests, which is exact, else "cover".
    loss
        "hamming", None (likelihood), or "auto": "hamming" below epsilon = 1, None from there on.
    intercept
        A constant feature more on every node.
    tolerance, max_iterations, time_limit, threads, random_state
        As for `BlendedLearner`.
    options
        {name: value}: whatever else `BlendedLearner` takes.

    After `fit`: classes_ [L], n_features_in_, learner_ (the `BlendedLearner`), gap_, n_iter_, and the weights by block:
    node_weights_ [L, F (+ 1)] and what the classifier says. feature_names_in_, a list of names [F] or None, is for the
    caller to set; it is kept in files.
    """

    epsilon: float
    counting_numbers: Any
    loss: str | None
    intercept: bool
    options: Mapping[str, Any] | None
    learner_: BlendedLearner
    classes_: Array
    n_features_in_: int
    feature_names_in_: list[str] | None = None

    # Parameters.

    @classmethod
    def _names(cls) -> list[str]:
        return [name for name in inspect.signature(cls.__init__).parameters if name != "self"]

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The parameters of the constructor by name."""
        return {name: getattr(self, name) for name in self._names()}

    def set_params(self, **params: Any) -> Self:
        """Change parameters."""
        names = self._names()
        for name, value in params.items():
            if name not in names:
                raise OptionError(f"{type(self).__name__} has no parameter {name!r:.60}{nearest(name, names)}")
            setattr(self, name, value)
        return self

    def __repr__(self) -> str:
        defaults = {name: p.default for name, p in inspect.signature(type(self).__init__).parameters.items()}
        changed = [f"{name}={v!r}" for name, v in self.get_params().items() if repr(v) != repr(defaults[name])]
        return f"{type(self).__name__}({', '.join(changed)})"

    def __sklearn_tags__(self) -> Any:
        """Asked by scikit-learn only."""
        from sklearn.utils import InputTags, Tags, TargetTags

        # Not tagged a classifier: its folds are stratified by class, which structures have not.
        inputs = InputTags(two_d_array=False, sparse=True, allow_nan=True)
        return Tags(estimator_type=None, target_tags=TargetTags(required=True), input_tags=inputs)

    def check(self) -> None:
        """OptionError for the first parameter that makes no sense."""
        check_choice("loss", "none" if self.loss is None else self.loss, ("auto", "hamming", "none"))
        if not isinstance(self.intercept, bool):
            raise OptionError(f"intercept must be True or False; got {self.intercept!r:.60}")
        self._learner("ones")

    # Learning and prediction.

    def fit(self, X: Any, y: Any, sample_weight: Any = None, *, validation: Any = None, **training: Any) -> Self:
        """Learn from structures and the labels of their nodes.

        sample_weight
            float [number of structures], > 0.
        validation
            (X, y): structures that say when to stop, see `BlendedLearner.fit`; labels that training lacks do not count.
        training
            Whatever else `BlendedLearner.fit` takes: checkpoint, resume, ...; initial may be a fitted classifier.
        """
        samples = self.samples(X, y, sample_weight)
        return self._fit(samples, self._counting_numbers(samples), validation, training)

    def fit_shards(self, shards: Shards, *, validation: Any = None, **training: Any) -> Self:
        """Learn from samples in files that `write_shards` wrote of this kind of classifier, with its `record`: the
        engine reads them, nobody else. Labels, features and names are those of the record; parameters that are in the
        samples have to be the same here. Otherwise as `fit`.
        """
        record, where = shards.about, shards.paths[0]
        if not isinstance(record, dict) or record.get("name") != type(self).__name__:
            found = record.get("name") if isinstance(record, dict) else "no classifier"
            raise OptionError(f"{where}: holds samples of {found!s:.60}; expected {type(self).__name__}")
        self.check()
        try:
            inside = dict(record["samples"])
            resolved = inside.pop("counting_numbers")
            self._take_record(record)
        except (KeyError, TypeError, ValueError, AttributeError) as fault:
            raise FileFormatError(f"{where}: the classifier is incomplete or damaged ({fault})") from fault
        for name, theirs in inside.items():
            ours = self._loss() if name == "loss" else getattr(self, name, None)
            if ours != theirs:
                raise OptionError(f"{where}: the samples were written with {name} = {theirs!r}; here it is {ours!r}")
        numbers = self.counting_numbers
        if isinstance(numbers, str) and numbers == "auto":
            numbers = resolved
        return self._fit(shards, numbers, validation, training)

    def _fit(self, samples: Sequence[Sample], counting_numbers: Any, validation: Any, training: dict[str, Any]) -> Self:
        if validation is not None:
            training["validation"] = self._validation(validation)
        if isinstance(start := training.get("initial"), StructuredClassifier):
            start._require_fit()
            if not np.array_equal(start.classes_, self.classes_):
                raise OptionError("initial: that classifier has other labels, so its weights mean something else")
            training["initial"] = start.learner_
        self.learner_ = self._learner(counting_numbers).fit(samples, **training)
        self._name_weights()
        return self

    def _counting_numbers(self, samples: Sequence[Sample]) -> Any:
        if not isinstance(self.counting_numbers, str) or self.counting_numbers != "auto":
            return self.counting_numbers
        return "bethe" if all(_is_forest(sample.graph) for sample in samples) else "cover"

    def samples(self, X: Any, y: Any, sample_weight: Any = None) -> list[Sample]:
        """What `fit` trains its learner on; sets classes_ and n_features_in_."""
        self.check()
        structures = self._read_all(X)
        if not structures:
            raise LabelError("no samples: fit needs at least one")
        labels = _labels(structures, y)
        weights = [1.0] * len(structures) if sample_weight is None else _sample_weights(sample_weight, len(structures))
        self.n_features_in_ = int(structures[0].nodes.shape[1])
        self._check_width(structures, "in sample 0")
        try:
            self.classes_ = np.unique(np.concatenate(labels))
        except TypeError:
            raise LabelError("labels must be of one kind, numbers or strings") from None
        return self._labelled(structures, labels, weights)

    def _validation(self, validation: Any) -> list[Sample]:
        if not isinstance(validation, (tuple, list)) or len(validation) != 2:
            raise OptionError("validation must be None or (X, y)")
        structures = self._read_all(validation[0])
        self._check_width(structures, "in training", "validation ")
        labels = _labels(structures, validation[1])
        return self._labelled(structures, labels, [1.0] * len(structures))

    def _labelled(self, structures: list[Structure], labels: list[Array], weights: list[float]) -> list[Sample]:
        """Samples with their loss; labels that are no class are unobserved."""
        loss = self._loss()
        samples = []
        for number, (structure, own, weight) in enumerate(zip(structures, labels, weights, strict=True)):
            place = np.searchsorted(self.classes_, own).clip(max=len(self.classes_) - 1)
            truth = np.where(self.classes_[place] == own, place, -1)
            samples.append(self._sample(number, structure, truth, loss, weight))
        return samples

    def _loss(self) -> str | None:
        if self.loss == "auto":
            return "hamming" if self.epsilon < 1 else None
        return None if self.loss == "none" else self.loss

    def infer(self, X: Any, **options: Any) -> list[Inferred]:
        """Labels, marginals and bounds of every structure. Options as for `blendfield.infer`, by default those of
        training.
        """
        samples, structures = self._unlabelled(X)
        found = []
        for result, sample, structure in zip(self.learner_.infer(samples, **options), samples, structures, strict=True):
            graph = sample.graph
            first = int(graph.table_offsets[graph.num_given])  # of the single variables, which come last
            marginals = np.asarray(result.beliefs.flat[first:]).reshape(*structure.shape, len(self.classes_))
            labels = marginals.argmax(axis=-1) if result.epsilon > 0 else result.labels.reshape(structure.shape)
            found.append(Inferred(self.classes_[labels], marginals, result))
        return found

    def predict(self, X: Any) -> Any:
        """The labels of every structure, a list of arrays; one padded array (-1, or "" for strings) for padded X.

        The most probable label of every node; at epsilon = 0 the labels of the best score.
        """
        labels = [inferred.labels for inferred in self.infer(X)]
        return _padded(labels, X, "" if self.classes_.dtype.kind in "US" else -1)

    def predict_proba(self, X: Any) -> Any:
        """The marginals of every node, a list of arrays [..., L] in the order of classes_; for padded X one array,
        padded by NaN.
        """
        self._require_fit()
        if not self.learner_.epsilon > 0:
            raise OptionError("predict_proba needs epsilon > 0: at 0 there are best labels and no probabilities")
        return _padded([inferred.marginals for inferred in self.infer(X)], X, np.nan)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """The share of nodes with the right label."""
        structures = self._read_all(X)
        labels = _labels(structures, y)
        found = self.predict(X)
        weights = np.ones(len(labels)) if sample_weight is None else _sample_weights(sample_weight, len(labels))
        right = total = 0.0
        for own, guess, structure, weight in zip(labels, found, structures, weights, strict=True):
            part = guess[tuple(slice(size) for size in structure.shape)]
            right += float(weight) * float((part.ravel() == own).sum())
            total += float(weight) * len(own)
        return right / total if total else float("nan")

    # Files.

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write weights, parameters and classes to one safetensors file."""
        self._require_fit()
        self.learner_.estimator_ = self._record()  # type: ignore[attr-defined]
        self.learner_.save(path)

    def record(self, samples: Sequence[Sample]) -> dict[str, Any]:
        """What `fit_shards` has to know of `samples`, as plain data for `write_shards`."""
        of_learner = option_names(BlendedLearner)
        own = {name: value for name, value in self.get_params().items() if name not in (*of_learner, "options")}
        inside = {**own, "loss": self._loss(), "counting_numbers": self._counting_numbers(samples)}
        return {**self._record(), "samples": inside}

    def _record(self) -> dict[str, Any]:
        parameters = self.get_params()
        if self.options is not None:
            kept = {name: value for name, value in self.options.items() if name not in UNSAVED}
            parameters["options"] = kept or None
        names = self.feature_names_in_
        return {
            "name": type(self).__name__,
            "parameters": parameters,
            "classes": self.classes_.tolist() if self.classes_.dtype.kind in "US" else self.classes_,
            "features": self.n_features_in_,
            # There may be millions: as bytes they are no burden to those who read the heading only.
            "names": None if names is None else np.frombuffer(json.dumps(list(names)).encode(), np.uint8),
        }

    def _take_record(self, record: dict[str, Any]) -> None:
        self.classes_ = np.asarray(record["classes"])
        self.n_features_in_ = int(record["features"])
        if (names := record.get("names")) is not None:
            self.feature_names_in_ = json.loads(names.tobytes())

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """The classifier that `save` wrote, of this class or one derived from it."""
        learner = BlendedLearner.load(path)
        loaded = cls.of_record(getattr(learner, "estimator_", None), os.fspath(path))
        loaded.learner_ = learner
        loaded._name_weights()
        return loaded

    @classmethod
    def of_record(cls, record: Any, where: str) -> Self:
        """The classifier, of this class or one derived from it, that `record` describes; it has no weights yet."""
        kinds = {kind.__name__: kind for kind in (cls, *cls.__subclasses__())}
        if not isinstance(record, dict) or record.get("name") not in kinds:
            found = record.get("name") if isinstance(record, dict) else "learner without classifier"
            raise FileFormatError(f"{where}: holds a {found!r:.60}; expected {', '.join(sorted(kinds))}")
        try:
            made: Self = kinds[record["name"]](**record["parameters"])
            made._take_record(record)
        except (KeyError, TypeError, ValueError, AttributeError) as fault:
            raise FileFormatError(f"{where}: the classifier is incomplete or damaged ({fault})") from fault
        return made

    # What the classifiers differ in.

    def _read(self, item: Any, where: str) -> Structure:
        """One X[i]."""
        raise NotImplementedError

    def _graph(self, structure: Structure) -> tuple[RegionGraph, list[TiedLinear]]:
        """(the graph with L labels, the features of its pairs)."""
        raise NotImplementedError

    # Shared.

    def _learner(self, counting_numbers: Any) -> BlendedLearner:
        known = option_names(BlendedLearner)
        own = {name: getattr(self, name) for name in self._names() if name in known and name != "counting_numbers"}
        if self.options is not None and not isinstance(self.options, Mapping):
            raise OptionError(f"options must be None or a mapping {{name: value}}; got {self.options!r:.60}")
        more = dict(self.options or {})
        for name in more:
            if name not in known:
                raise OptionError(f"options: BlendedLearner has no option {name!r:.60}{nearest(name, known)}")
            if name in self._names():
                raise OptionError(f"options: {name} is a parameter of {type(self).__name__} itself")
        return BlendedLearner(counting_numbers=counting_numbers, **own, **more)

    def _read_all(self, X: Any) -> list[Structure]:
        try:
            items = list(X)
        except TypeError:
            raise FeatureError(f"X must be a sequence of structures; got {type(X).__name__}") from None
        return [self._read(item, f"sample {number}") for number, item in enumerate(items)]

    def _sample(self, number: int, structure: Structure, labels: Any, loss: Any, weight: float) -> Sample:
        graph, pairs = self._graph(structure)
        nodes = structure.nodes
        if self.intercept:
            nodes = _with_constant(nodes)
        try:
            return Sample(graph, [TiedLinear("nodes", graph.single_regions, nodes), *pairs], labels, loss, weight)
        except BlendfieldError as fault:
            raise type(fault)(f"sample {number}: {fault}") from None

    def _unlabelled(self, X: Any) -> tuple[list[Sample], list[Structure]]:
        self._require_fit()
        structures = self._read_all(X)
        self._check_width(structures, "in training")
        return [self._sample(number, own, None, None, 1.0) for number, own in enumerate(structures)], structures

    def _check_width(self, structures: list[Structure], where: str, kind: str = "") -> None:
        for number, structure in enumerate(structures):
            if structure.nodes.shape[1] != self.n_features_in_:
                raise FeatureError(
                    f"{kind}sample {number}: expected {self.n_features_in_} features as {where}; "
                    f"got {structure.nodes.shape[1]}"
                )

    def _name_weights(self) -> None:
        self.node_weights_ = self.learner_.blocks_["nodes"]
        self.gap_ = self.learner_.gap_
        self.n_iter_ = self.learner_.n_iter_

    def _require_fit(self) -> None:
        if not hasattr(self, "learner_"):
            raise NotFittedError(f"this {type(self).__name__} has no weights yet: call fit first")

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "learner_")


class ChainClassifier(StructuredClassifier):
    """Sequences: a label per position, a weight per label and feature, and one table of weights for all transitions.

    A linear-chain conditional random field at epsilon = 1, exactly. transitions_: [L, L], from the first to the second.
    """

    def __init__(
        self,
        epsilon: float = 1.0,
        C: Any = 1.0,
        counting_numbers: Any = "auto",
        loss: str | None = "auto",
        intercept: bool = True,
        tolerance: float = 1e-4,
        max_iterations: int = 1000,
        time_limit: float | None = None,
        threads: int | None = None,
        random_state: int | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.C = C
        self.counting_numbers = counting_numbers
        self.loss = loss
        self.intercept = intercept
        self.tolerance = tolerance
        self.max_iterations = max_iterations
        self.time_limit = time_limit
        self.threads = threads
        self.random_state = random_state
        self.options = options

    def _read(self, item: Any, where: str) -> Structure:
        nodes = _without_padding(item, 2, where, "[T, F]")
        return Structure(nodes, (int(nodes.shape[0]),))

    def _graph(self, structure: Structure) -> tuple[RegionGraph, list[TiedLinear]]:
        length = structure.shape[0]
        graph = _cached(self, ("chain", length, len(self.classes_)), lambda: chain_graph(length, len(self.classes_)))
        count = max(length - 1, 0)
        return graph, [TiedLinear("transitions", np.arange(count), np.ones((count, 1)))] if count else []

    def _name_weights(self) -> None:
        super()._name_weights()
        count = len(self.classes_)
        table = self.learner_.blocks_.get("transitions", np.zeros((count * count, 1)))
        self.transitions_ = table.reshape(count, count)


class GridClassifier(StructuredClassifier):
    """Pictures: a label per pixel, a weight per label and feature, and a table of weights for each direction.

    neighbours
        4 or 8.
    directional
        A table for each of right, down, down-right, down-left; else one for all.

    pair_weights_: {direction: [L, L]}, from the left or upper pixel to the other.
    """

    def __init__(
        self,
        epsilon: float = 1.0,
        C: Any = 1.0,
        counting_numbers: Any = "auto",
        loss: str | None = "auto",
        intercept: bool = True,
        neighbours: int = 4,
        directional: bool = True,
        tolerance: float = 1e-4,
        max_iterations: int = 1000,
        time_limit: float | None = None,
        threads: int | None = None,
        random_state: int | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.C = C
        self.counting_numbers = counting_numbers
        self.loss = loss
        self.intercept = intercept
        self.neighbours = neighbours
        self.directional = directional
        self.tolerance = tolerance
        self.max_iterations = max_iterations
        self.time_limit = time_limit
        self.threads = threads
        self.random_state = random_state
        self.options = options

    def _read(self, item: Any, where: str) -> Structure:
        pixels = _without_padding(item, 3, where, "[H, W, F]")
        height, width = (int(size) for size in pixels.shape[:2])
        return Structure(pixels.reshape(height * width, pixels.shape[2]), (height, width))

    def _graph(self, structure: Structure) -> tuple[RegionGraph, list[TiedLinear]]:
        height, width = structure.shape
        count, neighbours = len(self.classes_), self.neighbours
        graph = _cached(
            self, ("grid", height, width, count, neighbours), lambda: grid_graph((height, width), count, neighbours)
        )
        counts = {"right": height * (width - 1), "down": (height - 1) * width}
        if neighbours == 8:
            counts |= {"down-right": (height - 1) * (width - 1), "down-left": (height - 1) * (width - 1)}
        blocks, start = [], 0
        for name, number in counts.items():
            if number > 0 and self.directional:
                blocks.append(TiedLinear(name, start + np.arange(number), np.ones((number, 1))))
            start += max(number, 0)
        if start and not self.directional:
            blocks.append(TiedLinear("pairs", np.arange(start), np.ones((start, 1))))
        return graph, blocks

    def _name_weights(self) -> None:
        super()._name_weights()
        count = len(self.classes_)
        named = self.learner_.blocks_.items()
        self.pair_weights_ = {name: table.reshape(count, count) for name, table in named if name != "nodes"}


class GraphClassifier(StructuredClassifier):
    """Any graphs: a label per node, weights per label and node feature, and per pair of labels and edge feature.

    Edges join node i to node j as written, so that a table of weights tells first from second; without edge features
    one table serves all edges. edge_weights_: [L, L, G].
    """

    def __init__(
        self,
        epsilon: float = 1.0,
        C: Any = 1.0,
        counting_numbers: Any = "auto",
        loss: str | None = "auto",
        intercept: bool = True,
        tolerance: float = 1e-4,
        max_iterations: int = 1000,
        time_limit: float | None = None,
        threads: int | None = None,
        random_state: int | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.C = C
        self.counting_numbers = counting_numbers
        self.loss = loss
        self.intercept = intercept
        self.tolerance = tolerance
        self.max_iterations = max_iterations
        self.time_limit = time_limit
        self.threads = threads
        self.random_state = random_state
        self.options = options

    def _read(self, item: Any, where: str) -> Structure:
        if not isinstance(item, (tuple, list)) or len(item) not in (2, 3):
            raise FeatureError(f"{where}: expected (nodes, edges) or (nodes, edges, edge features)")
        nodes = _matrix(item[0], 2, where, "[n, F]")
        edges = np.asarray(item[1])
        edges = edges.reshape(-1, 2) if edges.size == 0 else edges
        if edges.ndim != 2 or edges.shape[1] != 2 or (edges.dtype.kind not in "iu" and edges.size):
            raise FeatureError(f"{where}: edges must be integers [m, 2]; got {edges.dtype} of shape {edges.shape}")
        outside = (edges < 0) | (edges >= nodes.shape[0])
        if outside.any():
            raise FeatureError(f"{where}: edge {int(outside.any(axis=1).argmax())} names a node that is not there")
        features = np.ones((len(edges), 1)) if len(item) == 2 else _matrix(item[2], 2, f"{where}, edges", "[m, G]")
        if features.shape[0] != len(edges):
            raise FeatureError(f"{where}: {len(edges)} edges, but edge features of shape {features.shape}")
        return Structure(nodes, (int(nodes.shape[0]),), edges.astype(np.int64), features)

    def _graph(self, structure: Structure) -> tuple[RegionGraph, list[TiedLinear]]:
        graph = RegionGraph(np.full(structure.shape[0], len(self.classes_)), structure.edges)
        count = len(structure.edges)
        return graph, [TiedLinear("edges", np.arange(count), structure.edge_features)] if count else []

    def _name_weights(self) -> None:
        super()._name_weights()
        count = len(self.classes_)
        self.edge_weights_ = self.learner_.blocks_.get("edges", np.zeros((count * count, 1))).reshape(count, count, -1)


def _cached(owner: Any, key: tuple[Any, ...], make: Callable[[], RegionGraph]) -> RegionGraph:
    """Graphs of the same shape are made once."""
    graphs: dict[tuple[Any, ...], RegionGraph] = owner.__dict__.setdefault("_graphs", {})
    if key not in graphs:
        graphs[key] = make()
    return graphs[key]


def _matrix(item: Any, axes: int, where: str, shape: str) -> Any:
    """float64, dense or CSR, with so many axes."""
    if hasattr(item, "tocsr") and axes == 2:
        return item.tocsr()
    try:
        array = np.asarray(item, dtype=np.float64)
    except (TypeError, ValueError):
        raise FeatureError(f"{where}: features must be an array of numbers {shape}") from None
    if array.ndim != axes:
        raise FeatureError(f"{where}: features must have shape {shape}; got {array.shape}")
    return array


def _without_padding(item: Any, axes: int, where: str, shape: str) -> Any:
    """As `_matrix`, cut to the part that is not all NaN."""
    array = _matrix(item, axes, where, shape)
    if hasattr(array, "tocsr") or not array.size or not np.isnan(array).any():
        return array
    present = ~np.isnan(array).all(axis=-1)
    sizes = tuple(
        int(present.any(axis=tuple(a for a in range(axes - 1) if a != axis)).sum()) for axis in range(axes - 1)
    )
    part = tuple(slice(size) for size in sizes)
    if not present[part].all() or present.sum() != present[part].sum():
        raise FeatureError(f"{where}: rows that are all NaN are padding and may stand at the end only")
    return array[part]


def _with_constant(nodes: Any) -> Any:
    if hasattr(nodes, "tocsr"):
        from scipy.sparse import csr_array

        count, width = nodes.shape
        steps = np.arange(count + 1)
        nodes = csr_array(nodes)
        return csr_array(
            (
                np.insert(nodes.data.astype(np.float64), nodes.indptr[1:], 1.0),
                np.insert(nodes.indices, nodes.indptr[1:], width),
                nodes.indptr + steps,
            ),
            shape=(count, width + 1),
        )
    return np.concatenate([nodes, np.ones((nodes.shape[0], 1))], axis=1)


def _labels(structures: Sequence[Structure], y: Any) -> list[Array]:
    """The labels of every structure in one row; padded parts are cut."""
    try:
        given = list(y)
    except TypeError:
        raise LabelError(f"y must be a sequence of labels; got {type(y).__name__}") from None
    if len(given) != len(structures):
        raise LabelError(f"X has {len(structures)} samples, but y has {len(given)}")
    labels = []
    padded = isinstance(y, np.ndarray) and y.dtype != object
    for number, (own, structure) in enumerate(zip(given, structures, strict=True)):
        array = np.asarray(own)
        if padded and array.ndim == len(structure.shape):
            array = array[tuple(slice(size) for size in structure.shape)]
        if array.shape != structure.shape:
            raise LabelError(f"sample {number}: labels must have shape {structure.shape}; got {array.shape}")
        if array.dtype.kind not in "iubUS" and array.size:
            raise LabelError(f"sample {number}: labels must be integers or strings; got {array.dtype}")
        labels.append(array.ravel())
    return labels


def _sample_weights(given: Any, count: int) -> list[float]:
    weights = np.asarray(given, dtype=np.float64)
    if weights.shape != (count,):
        raise OptionError(f"sample_weight must have shape ({count},); got {weights.shape}")
    return [float(weight) for weight in weights]


def _padded(parts: list[Array], X: Any, filler: Any) -> Any:
    """A list as it is; for X that is one array, one array too."""
    if not isinstance(X, np.ndarray) or X.dtype == object or X.ndim < 3:
        return parts
    shape = (*X.shape[:-1], *parts[0].shape[X.ndim - 2 :]) if parts else X.shape[:-1]
    out = np.full(shape, filler, dtype=parts[0].dtype if parts else np.int64)
    for row, part in zip(out, parts, strict=True):
        row[tuple(slice(size) for size in part.shape)] = part
    return out


def _is_forest(graph: RegionGraph) -> bool:
    """Pairs without cycles: one edge less than regions, in every component."""
    _, parts = components(graph, graph.edge_parents, graph.edge_children)
    return graph.num_edges == graph.num_regions - parts
