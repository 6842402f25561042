"""The classifiers by themselves and in scikit-learn's hands."""

import numpy as np
import pytest
from scipy.sparse import csr_array

import blendfield as bf
from blendfield.estimators import ChainClassifier, GraphClassifier, GridClassifier

sklearn = pytest.importorskip("sklearn")


def sequences(count=30, seed=0, names=("a", "b", "c")):
    """Labels that follow each other in order; their features are noisy."""
    rng = np.random.default_rng(seed)
    X, y = [], []
    for _ in range(count):
        length = int(rng.integers(1, 9))
        labels = (int(rng.integers(3)) + np.arange(length)) % 3
        X.append(np.eye(3)[labels] + rng.standard_normal((length, 3)))
        y.append(np.array(names)[labels])
    return X, y


def pictures(count=12, seed=0):
    rng = np.random.default_rng(seed)
    X, y = [], []
    for _ in range(count):
        height, width = rng.integers(3, 7, 2)
        labels = np.repeat(rng.integers(0, 2, height)[:, None], width, axis=1)
        X.append(labels[..., None] + 0.8 * rng.standard_normal((height, width, 1)))
        y.append(labels)
    return X, y


def graphs(count=15, seed=0):
    """Edges say whether their ends have the same label."""
    rng = np.random.default_rng(seed)
    X, y = [], []
    for _ in range(count):
        n = int(rng.integers(3, 7))
        labels = rng.integers(0, 2, n)
        edges = np.array([(i, j) for i in range(n) for j in range(i + 1, n) if rng.random() < 0.6], dtype=int)
        edges = edges.reshape(-1, 2)
        same = (labels[edges[:, 0]] == labels[edges[:, 1]]).astype(float)
        X.append((labels[:, None] + 1.5 * rng.standard_normal((n, 1)), edges, np.stack([same, 1 - same], axis=1)))
        y.append(labels)
    return X, y


def test_chains():
    X, y = sequences()
    model = ChainClassifier(C=1.0).fit(X, y)
    assert model.classes_.tolist() == ["a", "b", "c"]
    assert model.learner_.counting_numbers == "bethe"
    assert model.gap_ <= 1e-4 * model.learner_.primal_
    assert model.node_weights_.shape == (3, 4)
    assert model.transitions_.shape == (3, 3)
    np.testing.assert_array_equal(model.transitions_.argmax(axis=1), [1, 2, 0])
    new, truth = sequences(seed=1)
    alone = ChainClassifier(C=1.0).fit([row[None] for x in X for row in x], [[label] for own in y for label in own])
    assert (
        model.score(new, truth) > alone.score([r[None] for x in new for r in x], [[v] for t in truth for v in t]) + 0.05
    )
    proba = model.predict_proba(new)
    for labels, marginals in zip(model.predict(new), proba, strict=True):
        np.testing.assert_allclose(marginals.sum(axis=1), 1.0)
        np.testing.assert_array_equal(model.classes_[marginals.argmax(axis=1)], labels)
    sparse = ChainClassifier(C=1.0).fit([csr_array(x) for x in X], y)
    np.testing.assert_allclose(sparse.node_weights_, model.node_weights_, atol=1e-6)


def test_padded_arrays_mean_the_same():
    X, y = sequences(names=(3, 5, 9))
    T = max(map(len, X))
    padded_X, padded_y = np.full((len(X), T, 3), np.nan), np.full((len(X), T), -1)
    for row_x, row_y, x, labels in zip(padded_X, padded_y, X, y, strict=True):
        row_x[: len(x)] = x
        row_y[: len(x)] = labels
    ragged, padded = ChainClassifier().fit(X, y), ChainClassifier().fit(padded_X, padded_y)
    np.testing.assert_array_equal(ragged.node_weights_, padded.node_weights_)
    found, proba = padded.predict(padded_X), padded.predict_proba(padded_X)
    assert found.shape == padded_y.shape
    assert proba.shape == (*padded_y.shape, 3)
    np.testing.assert_array_equal(found == -1, padded_y == -1)
    np.testing.assert_array_equal(np.isnan(proba).all(axis=2), padded_y == -1)
    for row, labels in zip(found, ragged.predict(X), strict=True):
        np.testing.assert_array_equal(row[: len(labels)], labels)
    assert padded.score(padded_X, padded_y) == ragged.score(X, y)
    padded_X[0, 0] = np.nan
    with pytest.raises(bf.FeatureError, match="padding"):
        padded.predict(padded_X)


@pytest.mark.parametrize("neighbours", [4, 8])
def test_grids(neighbours):
    X, y = pictures()
    model = GridClassifier(neighbours=neighbours).fit(X, y)
    assert set(model.pair_weights_) == {"right", "down"} | ({"down-right", "down-left"} if neighbours == 8 else set())
    right = model.pair_weights_["right"]
    assert right[0, 0] + right[1, 1] > right[0, 1] + right[1, 0] + 0.1
    new, truth = pictures(seed=1)
    threshold = np.mean([((x[..., 0] > 0.5) == t).mean() for x, t in zip(new, truth, strict=True)])
    assert model.score(new, truth) > threshold + 0.1
    assert model.predict(new)[0].shape == truth[0].shape
    assert model.predict_proba(new)[0].shape == (*truth[0].shape, 2)
    one = GridClassifier(neighbours=neighbours, directional=False).fit(X, y)
    assert set(one.pair_weights_) == {"pairs"}
    square = np.stack(
        [np.pad(x, [(0, 6 - x.shape[0]), (0, 6 - x.shape[1]), (0, 0)], constant_values=np.nan) for x in X]
    )
    labels = np.stack([np.pad(t, [(0, 6 - t.shape[0]), (0, 6 - t.shape[1])]) for t in y])
    padded = GridClassifier(neighbours=neighbours).fit(square, labels)
    np.testing.assert_allclose(padded.node_weights_, model.node_weights_)
    assert padded.predict(square).shape == labels.shape
    assert padded.score(square, labels) == model.score(X, y)


def test_graphs():
    X, y = graphs(60)
    model = GraphClassifier().fit(X, y)
    assert model.learner_.counting_numbers == "cover"
    assert model.edge_weights_.shape == (2, 2, 2)
    new, truth = graphs(40, seed=1)
    threshold = np.mean(np.concatenate([(x[0][:, 0] > 0.5) == t for x, t in zip(new, truth, strict=True)]))
    assert model.score(new, truth) > threshold
    bare = GraphClassifier(epsilon=0.0, tolerance=1e-2).fit([x[:2] for x in X], y)
    assert bare.edge_weights_.shape == (2, 2, 1)
    assert len(bare.predict([x[:2] for x in new])) == len(new)
    with pytest.raises(bf.OptionError, match="predict_proba"):
        bare.predict_proba([x[:2] for x in new])


def test_files(tmp_path):
    X, y = sequences()
    model = ChainClassifier(C=0.5).fit(X, y)
    model.save(tmp_path / "chain.safetensors")
    again = ChainClassifier.load(tmp_path / "chain.safetensors")
    assert again.get_params() == model.get_params()
    np.testing.assert_array_equal(again.classes_, model.classes_)
    for one, two in zip(again.predict(X), model.predict(X), strict=True):
        np.testing.assert_array_equal(one, two)
    from blendfield.estimators import StructuredClassifier

    assert isinstance(StructuredClassifier.load(tmp_path / "chain.safetensors"), ChainClassifier)
    with pytest.raises(bf.FileFormatError, match=r"ChainClassifier.*expected GridClassifier"):
        GridClassifier.load(tmp_path / "chain.safetensors")


def test_parameters():
    model = ChainClassifier(C=3.0, threads=1)
    assert repr(model) == "ChainClassifier(C=3.0, threads=1)"
    assert repr(GridClassifier()) == "GridClassifier()"
    assert model.get_params()["C"] == 3.0
    assert model.set_params(C=2.0, loss=None) is model
    assert model.C == 2.0
    with pytest.raises(ValueError, match="no parameter 'gamma'"):
        model.set_params(gamma=1)


def test_in_the_hands_of_scikit_learn():
    import pickle

    from sklearn.base import clone
    from sklearn.exceptions import NotFittedError
    from sklearn.model_selection import GridSearchCV, cross_val_score
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import FunctionTransformer
    from sklearn.utils.validation import check_is_fitted

    X, y = sequences()
    model = ChainClassifier(C=0.7)
    copy = clone(model)
    assert copy is not model
    assert copy.get_params() == model.get_params()
    search = GridSearchCV(model, {"C": [0.1, 1.0, 1000.0]}, cv=3).fit(X, y)
    assert search.best_params_["C"] != 1000.0
    assert search.best_estimator_.score(X, y) > 0.6
    doubled = make_pipeline(FunctionTransformer(lambda items: [2 * item for item in items]), ChainClassifier())
    assert doubled.fit(X, y).score(X, y) > 0.6
    assert len(doubled.predict(X)) == len(X)
    assert cross_val_score(model, X, y, cv=3).mean() > 0.5
    again = pickle.loads(pickle.dumps(search.best_estimator_))  # what n_jobs does
    assert again.score(X, y) == search.best_estimator_.score(X, y)
    with pytest.raises(NotFittedError):
        check_is_fitted(model)
    check_is_fitted(again)
    assert "ChainClassifier(C=0.7)" in make_pipeline(FunctionTransformer(), model)._repr_html_()
    weighted = ChainClassifier(tolerance=1e-8).fit(X, y, sample_weight=2 * np.ones(len(X)))
    smooth = ChainClassifier(C=0.5, tolerance=1e-8).fit(X, y)
    np.testing.assert_allclose(weighted.node_weights_, smooth.node_weights_, atol=1e-3)


def test_errors_name_the_sample():
    X, y = sequences(5)
    with pytest.raises(bf.NotFittedError, match="call fit"):
        ChainClassifier().predict(X)
    for wrong_X, wrong_y, message in (
        ([], [], "no samples"),
        (X, y[:-1], "X has 5 samples, but y has 4"),
        (X, [*y[:2], y[2][:-1], *y[3:]], "sample 2: labels must have shape"),
        ([*X[:3], X[3][:, :2], X[4]], y, "sample 3: expected 3 features"),
        ([*X[:3], X[3][0], X[4]], y, "sample 3: features must have shape"),
        ([*X[:3], [["u"]], X[4]], y, "sample 3: features must be an array of numbers"),
        (X, [*y[:2], y[2].astype("U1").astype(object), *y[3:]], "sample 2: labels must be integers or strings"),
        (3, y, "X must be a sequence"),
        (X, 3, "y must be a sequence"),
    ):
        with pytest.raises(bf.BlendfieldError, match=message):
            ChainClassifier().fit(wrong_X, wrong_y)
    X[1] = X[1].copy()
    X[1][0, 0] = np.inf
    with pytest.raises(bf.FeatureError, match="NaN or infinity"):
        ChainClassifier().fit(X, y)
    for options in ({"epsilon": -1.0}, {"C": "x"}, {"loss": "hinge"}, {"tolerance": None}):
        with pytest.raises(bf.BlendfieldError, match=next(iter(options))):
            ChainClassifier(**options).fit(*sequences(3))
    nodes = np.zeros((2, 1))
    for edges in ([[0, 2]], [[0.5, 1.0]], [0, 1, 1]):
        with pytest.raises(bf.FeatureError, match="sample 0"):
            GraphClassifier().fit([(nodes, edges)], [[0, 1]])
    with pytest.raises(bf.FeatureError, match="edge features"):
        GraphClassifier().fit([(nodes, [[0, 1]], np.ones((2, 1)))], [[0, 1]])
    with pytest.raises(bf.FeatureError, match=r"expected \(nodes, edges\)"):
        GraphClassifier().fit([nodes], [[0, 1]])
    fitted = ChainClassifier().fit(*sequences(3))
    with pytest.raises(bf.FeatureError, match="sample 0: expected 3 features as in training"):
        fitted.predict([np.zeros((2, 4))])


def test_scikit_learn_is_not_imported_by_the_package():
    import subprocess
    import sys

    code = "import sys, blendfield.estimators; sys.exit('sklearn' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_what_the_learner_can_do(tmp_path):
    X, y = sequences()
    new, truth = sequences(seed=1)
    model = ChainClassifier(options={"l1": 2.0, "validation_every": 1}).fit(X, y)
    assert (model.node_weights_ == 0).any()
    truth[0] = np.array(["never seen"] * len(truth[0]))
    watched = ChainClassifier(options={"validation_every": 1, "patience": 1}).fit(X, y, validation=(new, truth))
    assert len(watched.learner_.validation_["error"]) > 0
    plain = ChainClassifier(tolerance=1e-8).fit(X, y)
    warm = ChainClassifier(tolerance=1e-8).fit(X, y, initial=plain)
    assert warm.n_iter_ <= 3 < plain.n_iter_
    path = tmp_path / "run.checkpoint"
    ChainClassifier(max_iterations=3).fit(X, y, checkpoint=path, checkpoint_every=2)
    again = ChainClassifier(tolerance=1e-8).fit(X, y, checkpoint=path, checkpoint_every=2, resume=True)
    np.testing.assert_allclose(again.node_weights_, plain.node_weights_, atol=1e-3)
    with pytest.raises(bf.OptionError, match="did you mean 'patience'"):
        ChainClassifier(options={"patiense": 1}).fit(X, y)
    with pytest.raises(bf.OptionError, match="C is a parameter of ChainClassifier itself"):
        ChainClassifier(options={"C": 1}).fit(X, y)
    with pytest.raises(bf.OptionError, match="other labels"):
        ChainClassifier().fit(X, [np.char.add(own, "x") for own in y], initial=plain)
    with pytest.raises(bf.OptionError, match=r"validation must be None or \(X, y\)"):
        ChainClassifier().fit(X, y, validation=new)
    with pytest.raises(bf.FeatureError, match="validation sample 0: expected 3 features"):
        ChainClassifier().fit(X, y, validation=([np.zeros((1, 2))], [["a"]]))


def test_inference_at_another_temperature():
    X, y = sequences()
    model = ChainClassifier().fit(X, y)
    cold = model.infer(X, epsilon=0)
    scores = [np.array([inferred.result.score for inferred in found]) for found in (cold, model.infer(X))]
    assert (scores[0] >= scores[1] - 1e-9).all()
    assert cold[0].labels.dtype == model.classes_.dtype
    assert cold[0].marginals.shape == (len(X[0]), 3)


def test_names_and_options_in_files(tmp_path):
    X, y = sequences()
    model = ChainClassifier(options={"l1": 0.1, "verbose": False, "callback": print}, max_iterations=2).fit(X, y)
    model.feature_names_in_ = ["one", "zwei", "trois\n"]
    model.save(tmp_path / "model")
    again = ChainClassifier.load(tmp_path / "model")
    assert again.feature_names_in_ == model.feature_names_in_
    assert again.options == {"l1": 0.1}
