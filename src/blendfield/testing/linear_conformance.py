"""What every backend must do with potentials that are linear in weights, checked against the reference.

As `conformance`: each check draws fresh random problems and raises AssertionError where the backend deviates.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from blendfield.backends.protocol import Backend, FloatArray, LinearPotentials, Problem, Workspace
from blendfield.backends.reference import ReferenceBackend
from blendfield.graph import RegionGraph
from blendfield.model.blocks import FreeWeights, TableFeatures, TiedLinear, bind_triples
from blendfield.model.feature_map import FeatureMap
from blendfield.model.weights import WeightLayout
from blendfield.testing.assertions import assert_close
from blendfield.testing.conformance import DTYPES, EPSILONS, Case, Check, Tolerance, random_cases


def random_features(rng: np.random.Generator, graph: RegionGraph) -> FeatureMap:
    """Features of every form on regions of every size; some regions have many, some none."""
    count = graph.num_regions
    shapes = [graph.shape(r) for r in range(count)]
    shared = {shape: rng.standard_normal(shape) for shape in set(shapes)}
    triples = []
    for r in range(count):
        for _ in range(int(rng.choice([0, 1, 2, 6]))):
            table = shared[shapes[r]] if rng.random() < 0.5 else rng.standard_normal(shapes[r])
            triples.append((r, int(rng.integers(4)), table))
    blocks: list[Any] = []
    for number, shape in enumerate(sorted(set(shapes))):
        regions = np.array([r for r in range(count) if shapes[r] == shape])
        n = len(regions)
        kind = rng.integers(4)
        if kind == 0:
            coefficients = rng.standard_normal((n, 2)) if rng.random() < 0.5 else None
            blocks.append(TableFeatures(f"tables{number}", regions, rng.standard_normal((2, *shape)), coefficients))
        elif kind == 1:
            own = rng.standard_normal((n, 1, *shape))
            blocks.append(TableFeatures(f"own{number}", regions, own))
        elif kind == 2:
            chosen = rng.permutation(regions)[: max(1, n // 2)]
            blocks.append(FreeWeights(f"free{number}", chosen, coefficients=rng.standard_normal(len(chosen))))
        else:
            matrix: Any = rng.standard_normal((n, 3)) * (rng.random((n, 3)) < 0.6)
            if rng.random() < 0.5:
                from scipy.sparse import csr_array

                matrix = csr_array(matrix)
            blocks.append(TiedLinear(f"linear{number}", rng.permutation(regions), matrix))
    bound = [block.bind(graph) for block in blocks]
    if triples:
        bound.append(bind_triples(graph, triples))
    layout = WeightLayout({block.name: block.shape for block in bound})
    # The same features once more, as of a second sample on the same tables: parts name regions twice.
    sets = [bound, bound] if rng.random() < 0.3 else [bound]
    scales = [1.0, 0.5][: len(sets)]
    return FeatureMap(layout, sets, [0] * len(sets), graph.table_offsets, scales)


def _linear(case: Case, backend: Backend, features: FeatureMap) -> tuple[Problem, LinearPotentials]:
    problem = case.compile(backend)
    return problem, backend.linear(problem, features, case.tables.astype(case.dtype), Workspace())


def _clear(case: Case) -> bool:
    """No beliefs are a matter of ties and of the last bit."""
    smallest = np.abs(case.epsilon * case.program.counting_numbers).min(initial=1.0)
    return case.dtype == "float64" or smallest > 0.0


def check_linear(backend: Backend, rng: np.random.Generator, tolerance: Tolerance) -> None:
    """Potentials, F with its derivatives, inner products, values along a direction and moments of candidates."""
    for dtype in DTYPES:
        for case in random_cases(rng, dtype=dtype):
            check_evaluation(backend, case, rng, tolerance)


def check_evaluation(backend: Backend, case: Case, rng: np.random.Generator, tolerance: Tolerance) -> None:
    """`check_linear` for one case."""
    features = random_features(rng, case.program.graph)
    mine, own = _linear(case, backend, features)
    reference, expected = _linear(case, ReferenceBackend(), features)
    for problem in (mine, reference):
        problem.allocate_history(2)
    allowed, clear = tolerance.of(case.dtype), _clear(case)
    positive = np.abs(case.epsilon * case.program.counting_numbers)
    scale = 1.0 / positive[positive > 0.0].min(initial=1.0)
    for slot in range(2):
        weights, direction = rng.standard_normal(features.size), rng.standard_normal(features.size)
        for potentials in (own, expected):
            potentials.set_weights(weights)
        what = f"{case.name}: weights {slot}"
        tables = own.tables(), expected.tables()
        supported = np.isfinite(tables[0]) & np.isfinite(tables[1])
        if not (supported.all() or np.isneginf(case.tables).any()):
            raise AssertionError(f"{what}: potentials that are not finite")
        assert_close(tables[0][supported], tables[1][supported], allowed, f"{what}, potentials")
        for problem in (mine, reference):
            problem.save_point()
        reference.sweep()
        mine.set_messages(reference.messages())
        _compare_evaluations(own, expected, slot, allowed, scale, clear, what)
        steps = np.array([0.0, 0.5])
        lines = own.trial(direction, steps), expected.trial(direction, steps)
        growth = 1.0 + float(np.abs(direction).sum())
        assert_close(lines[0][0], lines[1][0], growth * allowed, f"{what}, values along a line")
        if clear:
            assert_close(lines[0][1], lines[1][1], scale * growth * allowed, f"{what}, slopes")
    certificates = own.certificate(case.smoothing), expected.certificate(case.smoothing)
    if np.isfinite(certificates[1][0].gap).all():
        near = max(scale, 1.0 / case.smoothing) * allowed
        assert_close(certificates[0][0].gap, certificates[1][0].gap, near, f"{case.name}: gap")
        if clear:
            assert_close(certificates[0][1], certificates[1][1], near, f"{case.name}: moments of the candidate")


def _compare_evaluations(
    own: LinearPotentials,
    expected: LinearPotentials,
    slot: int,
    allowed: float,
    scale: float,
    clear: bool,
    what: str,
) -> None:
    for _ in range(3):  # the second may be recorded, the third played
        mine = own.evaluate(True, slot)
    reference = expected.evaluate(True, slot)
    assert_close(np.array(mine.value), np.array(reference.value), allowed, f"{what}, value")
    assert_close(mine.products, reference.products, 10 * allowed, f"{what}, products")
    if not clear:
        return
    assert mine.curvature is not None
    assert reference.curvature is not None
    assert_close(mine.moments, reference.moments, scale * allowed, f"{what}, moments")
    assert_close(mine.curvature, reference.curvature, scale**2 * allowed, f"{what}, curvature")
    again = own.evaluate(False)
    if again.curvature is not None or len(again.products):
        raise AssertionError(f"{what}: curvature or products that were not asked for")


def check_weights_alone(backend: Backend, rng: np.random.Generator, tolerance: Tolerance) -> None:
    """What is set depends on the last weights only, and moments of any tables are Phi^T d."""
    case = next(random_cases(rng, numbers=("ones",), epsilons=EPSILONS[:2]))
    features = random_features(rng, case.program.graph)
    problem, own = _linear(case, backend, features)
    weights = rng.standard_normal(features.size)
    tables: list[FloatArray] = []
    for _ in range(4):
        own.set_weights(rng.standard_normal(features.size))
        own.set_weights(weights)
        tables.append(np.array(own.tables()))
        problem.sweep()
    for again in tables[1:]:
        np.testing.assert_array_equal(again, tables[0])
    d = rng.standard_normal(int(case.program.graph.table_offsets[-1]))
    assert_close(own.moments(d), features.moments(d), tolerance.float64, f"{case.name}: moments of any tables")


LINEAR_CHECKS: list[Check] = [check_linear, check_weights_alone]
