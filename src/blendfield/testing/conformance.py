"""What every backend must do, checked against the reference on fresh random problems.

Each `check_*(backend, rng, tolerance)` draws one problem or a few and raises AssertionError where the backend
deviates. Both sides are given the same messages before every comparison, so that a check sees the rounding of one
step and not its history. The tolerance belongs to the backend: pass what its arithmetic allows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from blendfield.backends.protocol import Backend, DataType, FloatArray, Problem, Program
from blendfield.backends.reference import ReferenceBackend
from blendfield.backends.reference_tables import Link
from blendfield.errors import OptionError, PotentialError, SupportError
from blendfield.graph import RegionGraph, grid_graph
from blendfield.testing.assertions import assert_close
from blendfield.testing.oracles import enumerate_exact
from blendfield.testing.programs import build_program
from blendfield.testing.random_models import (
    random_forest,
    random_grid,
    random_junction_tree,
    random_labels,
    random_region_graph,
    random_tables,
)

EPSILONS = (1.0, 0.25, 0.05, 0.0)
SMOOTHING = 0.1  # for certificates at eps = 0


@dataclass(frozen=True)
class Tolerance:
    """Largest deviation, relative to the largest entry of an array or 1, in the two data types."""

    float64: float = 1e-10
    float32: float = 2e-5

    def of(self, dtype: DataType) -> float:
        return self.float32 if dtype == "float32" else self.float64


@dataclass(frozen=True)
class Case:
    """A random problem."""

    program: Program
    tables: FloatArray
    epsilon: float
    dtype: DataType = "float64"
    name: str = ""

    def compile(self, backend: Backend, threads: int | None = 1) -> Problem:
        return backend.compile(self.program, self.tables, epsilon=self.epsilon, dtype=self.dtype, threads=threads)

    @property
    def smoothing(self) -> float:
        return self.epsilon if self.epsilon > 0.0 else SMOOTHING


# Random problems.


def positive_numbers(rng: np.random.Generator, graph: RegionGraph) -> FloatArray:
    return rng.uniform(0.2, 1.5, graph.num_regions)


def numbers_with_zeros(rng: np.random.Generator, graph: RegionGraph) -> FloatArray:
    """Zero on some of the regions that have parents: relinked where they have children."""
    numbers = rng.choice([0.0, 0.5, 1.0], graph.num_regions)
    numbers[[not parents for parents in graph.parents]] = 1.0
    return np.asarray(numbers)


def numbers_of_any_sign(rng: np.random.Generator, graph: RegionGraph) -> FloatArray:
    """Negative or zero on some of the regions that have parents; sums around a region are often exactly zero."""
    numbers = rng.choice([-1.0, -0.5, 0.0, 0.5, 1.0], graph.num_regions)
    numbers[[not parents for parents in graph.parents]] = 1.0
    return np.asarray(numbers)


Numbers = str | Callable[[np.random.Generator, RegionGraph], FloatArray]
NON_NEGATIVE: tuple[Numbers, ...] = ("ones", "cover", positive_numbers, numbers_with_zeros)
ALL_NUMBERS: tuple[Numbers, ...] = (*NON_NEGATIVE, "bethe", numbers_of_any_sign)


KINDS = (
    "three levels",
    "two levels",
    "four levels",
    "parts",
    "explicit",
    "forest",
    "junction tree",
    "grid",
    "hub",
    "large tables",
)


def random_program(rng: np.random.Generator, numbers: Numbers) -> tuple[Program, str]:
    """A graph of any kind, in one or several connected parts, with the given counting numbers."""
    kind = str(rng.choice(KINDS))
    if kind == "two levels":
        graph = random_region_graph(rng, 2)
    elif kind == "grid":  # many regions of few shapes
        graph = random_grid(rng, (int(rng.integers(5, 9)), int(rng.integers(5, 9))))
    elif kind == "hub":  # one child with very many parents
        graph = RegionGraph(rng.integers(2, 4, 45).tolist(), [(0, i) if i % 3 else (i, 0) for i in range(1, 45)])
    elif kind == "large tables":
        graph = RegionGraph([31, 40, 7], [(1, 0), (2, 1, 0), (0, 2)])
    elif kind == "four levels":
        graph = random_region_graph(rng, 4, max_labels=3)
    elif kind == "parts":
        graph = random_region_graph(rng, 3, num_variables=4, max_labels=3, parts=int(rng.integers(2, 9)))
    elif kind == "explicit":
        graph = random_region_graph(rng, 3, edges="variables")
        edges = list(zip(graph.edge_parents.tolist(), graph.edge_children.tolist(), strict=True))
        keep = [edge for edge in edges if rng.random() < 0.8]  # some axes of some regions are linked to nothing
        graph = RegionGraph(graph.cardinalities.tolist(), [tuple(region) for region in graph.regions], keep)
    elif kind == "forest":
        graph = random_forest(rng)
    elif kind == "junction tree":
        graph = random_junction_tree(rng)
    else:
        graph = random_region_graph(rng, 3)
    spec = numbers if isinstance(numbers, str) else numbers(rng, graph)
    program = build_program(graph, spec)
    if kind == "forest" and rng.random() < 0.5:
        program = build_program(graph, spec, two_pass=True)
    return program, f"{kind}, {numbers if isinstance(numbers, str) else numbers.__name__}"


def random_cases(
    rng: np.random.Generator,
    count: int = 1,
    numbers: tuple[Numbers, ...] = ALL_NUMBERS,
    epsilons: tuple[float, ...] = EPSILONS,
    forbidden: tuple[float, ...] = (0.0, 0.35),
    dtype: DataType = "float64",
) -> Iterator[Case]:
    """`count` problems for each entry of `numbers`."""
    for choice in numbers * count:
        program, name = random_program(rng, choice)
        epsilon, part = float(rng.choice(epsilons)), float(rng.choice(forbidden))
        tables = random_tables(rng, program.graph, forbidden=part, scale=float(rng.choice([0.5, 2.0])))
        yield Case(program, tables, epsilon, dtype, f"{name}, eps {epsilon}, forbidden {part}, {dtype}")


def pair(case: Case, backend: Backend, sweeps: int = 2) -> tuple[Problem, Problem]:
    """The problem on the backend and on the reference, both at the messages of the reference after `sweeps` sweeps."""
    mine, reference = case.compile(backend), case.compile(ReferenceBackend())
    reference.sweep(sweeps)
    mine.set_messages(reference.messages())
    return mine, reference


# Messages and values.


def check_messages(backend: Backend, rng: np.random.Generator, tolerance: Tolerance) -> None:
    """Messages start at zero, are kept as given, 0 where unsupported, and survive `set_epsilon`."""
    for dtype in DTYPES:
        for case in random_cases(rng, dtype=dtype):
            mine, reference = case.compile(backend), case.compile(ReferenceBackend())
            size = int(case.program.graph.table_sizes[case.program.edge_children].sum())
            _assert_same(mine.messages(), np.zeros(size, dtype), f"{case.name}: messages at the start")
            given = rng.standard_normal(size).astype(dtype)
            mine.set_messages(given)
            reference.set_messages(given)
            _assert_same(mine.messages(), reference.messages(), f"{case.name}: messages as set")
            mine.set_epsilon(0.5)
            if mine.epsilon != 0.5:
                raise AssertionError(f"{case.name}: epsilon is {mine.epsilon} after set_epsilon(0.5)")
            _assert_same(mine.messages(), reference.messages(), f"{case.name}: messages after set_epsilon")
            assert_close(
                mine.value(), reference.value(0.5), tolerance.of(dtype), f"{case.name}: value after set_epsilon"
            )


def check_sweeps(backend: Backend, rng: np.random.Generator, tolerance: Tolerance) -> None:
    """One sweep from the same messages gives the same messages; `sweep_value` and `sweep(2)` are sweeps too."""
    for dtype in DTYPES:
        for case in random_cases(rng, dtype=dtype):
            mine, reference = pair(case, backend, sweeps=0)
            for k in range(3):
                reference.set_messages(mine.messages())
                expected = reference.sweep_value()
                allowed = tolerance.of(dtype)
                assert_close(mine.sweep_value(), expected, allowed, f"{case.name}: value of sweep {k}")
                assert_close(mine.messages(), reference.messages(), allowed, f"{case.name}: messages, sweep {k}")
            again = case.compile(backend)
            again.set_messages(mine.messages())
            again.sweep(2)
            mine.sweep()
            mine.sweep()
            _assert_same(again.messages(), mine.messages(), f"{case.name}: two sweeps at once or one by one")


def check_values(backend: Backend, rng: np.random.Generator, tolerance: Tolerance) -> None:
    """F per segment, at the problem's temperature and at others."""
    for dtype in DTYPES:
        for case in random_cases(rng, dtype=dtype):
            mine, reference = pair(case, backend)
            for epsilon in (None, *EPSILONS):
                expected = reference.value(epsilon)
                assert_close(mine.value(epsilon), expected, tolerance.of(dtype), f"{case.name}: value({epsilon})")


def check_beliefs(backend: Backend, rng: np.random.Generator, tolerance: Tolerance) -> None:
    """Beliefs at the problem's temperature and at others; exactly 0 on labels without support."""
    for dtype in DTYPES:
        for case in random_cases(rng, dtype=dtype):
            mine, reference = pair(case, backend)
            scale = 1.0 / min(e for e in EPSILONS if e > 0.0)  # d log b = d hat / eps
            for epsilon in (None, *EPSILONS):
                temperature = case.epsilon if epsilon is None else epsilon
                maximisers = temperature == 0.0 or not _has_positive_outer(case.program)
                if dtype == "float32" and maximisers:
                    continue  # which entries are tied is a matter of the last bit
                actual, expected = mine.beliefs(epsilon), reference.beliefs(epsilon)
                what = f"{case.name}: beliefs({epsilon})"
                assert_close(actual, expected, scale * tolerance.of(dtype), what)
                _assert_same(actual.dtype, expected.dtype, f"{what}: dtype")
                _assert_same(actual[_unsupported(case)], expected[_unsupported(case)], f"{what}: without support")


def check_float32_close(backend: Backend, rng: np.random.Generator, tolerance: Tolerance) -> None:
    """float32 is the same inference with rounded storage: after a few sweeps F is near that in float64."""
    for case in random_cases(rng, numbers=("ones", "cover"), epsilons=(1.0, 0.25)):
        mine, reference = replace(case, dtype="float32").compile(backend), case.compile(ReferenceBackend())
        mine.sweep(5)
        reference.sweep(5)
        assert_close(mine.value(), reference.value(), 20 * tolerance.float32, f"{case.name}: float32 against float64")


def check_potentials(backend: Backend, rng: np.random.Generator, tolerance: Tolerance) -> None:
    """`set_potentials`: as if compiled with the new ones, messages kept; off the support ignored, else refused."""
    for dtype in DTYPES:
        for case in random_cases(rng, dtype=dtype):
            mine, reference = pair(case, backend)
            messages = mine.messages()
            tables = random_tables(rng, case.program.graph)
            tables[_unsupported(case)] = rng.choice([np.nan, np.inf, -np.inf, 3.0], int(_unsupported(case).sum()))
            given = tables.copy()
            for problem in (mine, reference):
                problem.set_potentials(tables)
            _assert_same(np.nan_to_num(tables), np.nan_to_num(given), f"{case.name}: the caller's tables")
            _assert_same(mine.messages(), messages, f"{case.name}: messages after set_potentials")
            _compare_states(mine, reference, case, tolerance, "after set_potentials")
            usable = np.where(_unsupported(case), -np.inf, tables)
            fresh = replace(case, tables=usable).compile(backend)
            fresh.set_messages(messages)
            for problem in (mine, fresh):
                problem.sweep()
            _assert_same(mine.messages(), fresh.messages(), f"{case.name}: a sweep after set_potentials, and compiled")

            start, stop = _table_of_a_region(rng, case)
            inside = start + np.flatnonzero(~_unsupported(case)[start:stop])
            # Entries pruned through their neighbours are ignored too: take one that has a belief.
            inside = inside[np.asarray(reference.beliefs(1.0), dtype=np.float64)[inside] > 0.0]
            region = int(np.searchsorted(case.program.graph.table_offsets, start, side="right")) - 1
            value = mine.value()
            for bad in (np.nan, np.inf, -np.inf):
                wrong = usable.copy()
                wrong[rng.choice(inside)] = bad
                what = f"{case.name}: {bad} in region {region}"
                try:
                    mine.set_potentials(wrong)
                except PotentialError as error:
                    if f"region {region}:" not in str(error):
                        raise AssertionError(f"{what}: the error does not name it: {error}") from error
                else:
                    raise AssertionError(f"{what} was not refused by set_potentials")
            _assert_same(mine.value(), value, f"{case.name}: value after refused potentials")


def check_value_and_beliefs(backend: Backend, rng: np.random.Generator, tolerance: Tolerance) -> None:
    """Both as they come one by one."""
    del tolerance
    for dtype in DTYPES:
        for case in random_cases(rng, dtype=dtype):
            mine = pair(case, backend)[0]
            value, beliefs = mine.value_and_beliefs()
            assert_close(value, mine.value(), 1e-12, f"{case.name}: the value that comes with the beliefs")
            _assert_same(beliefs, mine.beliefs(), f"{case.name}: the beliefs that come with the value")
            _assert_same(beliefs.dtype, mine.beliefs().dtype, f"{case.name}: dtype of the beliefs")


def check_trial(backend: Backend, rng: np.random.Generator, tolerance: Tolerance) -> None:
    """Value, slope and curvature along a line are the reference's, and those of F with the potentials moved."""
    for dtype in DTYPES:
        for case in random_cases(rng, dtype=dtype):
            mine, reference = pair(case, backend)
            direction = random_tables(rng, case.program.graph) + rng.choice([0.0, 100.0])
            direction[_unsupported(case)] = rng.choice([np.nan, np.inf, -np.inf, 3.0], int(_unsupported(case).sum()))
            before = mine.value()
            steps = np.array([0.0, *rng.normal(size=int(rng.integers(0, 5)))])
            actual, expected = mine.trial(direction, steps), reference.trial(direction, steps)
            _assert_same(mine.value(), before, f"{case.name}: value after a trial")
            smallest = np.abs(case.epsilon * case.program.counting_numbers)
            scale = 1.0 / smallest[smallest > 0.0].min(initial=1.0)  # d log b = d hat / (eps c)
            hundreds = 100.0 if np.nanmax(np.abs(direction[~_unsupported(case)])) > 50.0 else 1.0
            what, allowed = f"{case.name}: trial", hundreds * tolerance.of(dtype)
            assert_close(actual[0], expected[0], allowed, f"{what}, value")
            if dtype == "float32" and not (smallest > 0.0).all():
                continue  # which entries are tied is a matter of the last bit
            assert_close(actual[1], expected[1], scale * allowed, f"{what}, slope")
            assert_close(actual[2], expected[2], scale**2 * allowed, f"{what}, curvature")
            for column in mine.trial(direction, np.zeros(0)):
                _assert_same(column, np.zeros(0), f"{what} without steps")


# The theory.


def check_block_minimum(backend: Backend, rng: np.random.Generator, tolerance: Tolerance) -> None:
    """After a colour class the numerical gradient of F by the messages of that class is zero (mathematics §3)."""
    del tolerance
    step = 1e-5
    for case in random_cases(rng, numbers=("ones", "cover", positive_numbers), epsilons=(1.0, 0.25)):
        for colour, mine in _class_by_class(case, backend):
            messages = np.asarray(mine.messages(), dtype=np.float64)
            sending = case.program.region_class[case.program.edge_children] == colour
            moved = np.flatnonzero(np.repeat(sending, case.program.graph.table_sizes[case.program.edge_children]))
            for entry in rng.choice(moved, min(len(moved), 20), replace=False):
                values = []
                for sign in (1.0, -1.0):
                    shifted = messages.copy()
                    shifted[entry] += sign * step
                    mine.set_messages(shifted)
                    values.append(float(mine.value().sum()))
                gradient = (values[0] - values[1]) / (2 * step)
                assert_close(
                    gradient, 0.0, 1e-6, f"{case.name}: dF/dlambda after class {colour}, message entry {entry}"
                )
            mine.set_messages(messages)


def check_descent(backend: Backend, rng: np.random.Generator, tolerance: Tolerance) -> None:
    """F never rises, class by class, for counting numbers >= 0 at any temperature."""
    for case in random_cases(rng, numbers=NON_NEGATIVE):
        before = case.compile(backend).value()
        for colour, mine in _class_by_class(case, backend, sweeps=3):
            after = mine.value()
            if not np.all(after <= before + tolerance.float64 * np.maximum(1.0, np.abs(before))):
                raise AssertionError(f"{case.name}: F rose in class {colour} from {before} to {after}")
            before = after


def check_derivatives(backend: Backend, rng: np.random.Generator, tolerance: Tolerance) -> None:
    """Slope and curvature of a trial against finite differences of its value, the value against `set_potentials`."""
    step = 1e-4
    for case in random_cases(rng, epsilons=(1.0, 0.25)):
        mine = pair(case, backend)[0]
        direction = random_tables(rng, case.program.graph)
        middle = float(rng.normal())
        value, slope, curvature = mine.trial(direction, middle + step * np.array([-1.0, 0.0, 1.0]))
        if (case.program.counting_numbers != 0.0).all():  # else a maximum, with kinks
            third = 1e3 * step**2 * max(1.0, float(np.abs(curvature).max())) ** 1.5
            assert_close((value[2] - value[0]) / (2 * step), slope[1], third, f"{case.name}: slope of a trial")
            assert_close((slope[2] - slope[0]) / (2 * step), curvature[1], third, f"{case.name}: curvature of a trial")
        mine.set_potentials(np.where(_unsupported(case), 0.0, case.tables + middle * direction))
        assert_close(mine.value().sum(), value[1], tolerance.float64, f"{case.name}: value where the trial was")


def check_forest(backend: Backend, rng: np.random.Generator, tolerance: Tolerance) -> None:
    """One sweep, up and down, with `bethe` is exact on a forest: value and marginals, the best score at eps = 0."""
    for epsilon in EPSILONS:
        graph = random_forest(rng, num_variables=7, max_labels=3)
        tables = random_tables(rng, graph, forbidden=float(rng.choice([0.0, 0.3])))
        exact = enumerate_exact(graph, tables, epsilon)
        case = Case(build_program(graph, "bethe", two_pass=True), tables, epsilon)
        mine = case.compile(backend)
        assert_close(mine.sweep_value(), exact.value, 10 * tolerance.float64, f"forest, eps {epsilon}: value")
        if epsilon > 0.0:
            allowed = 10 * tolerance.float64 / epsilon
            assert_close(mine.beliefs(), exact.marginals, allowed, f"forest, eps {epsilon}: marginals")
        else:
            score = mine.score(mine.decode()).sum()
            assert_close(score, exact.score, 10 * tolerance.float64, "forest, eps 0: score of the decoded labels")


def check_support(backend: Backend, rng: np.random.Generator, tolerance: Tolerance) -> None:
    """Forbidden labels never give NaN; a model without any labelling is refused by name of a region."""
    del tolerance
    for case in random_cases(rng, forbidden=(0.4,)):
        mine = case.compile(backend)
        mine.sweep(5)
        certificate = mine.certificate(case.smoothing, region_gaps=True)
        for values in (mine.messages(), mine.value(), mine.beliefs(), certificate.gap, certificate.region_gaps):
            if values is None or np.isnan(values).any():
                raise AssertionError(f"{case.name}: NaN, or no region gaps, with forbidden labels")
    graph = random_region_graph(rng)
    tables = random_tables(rng, graph)
    start, stop = graph.table_offsets[0], graph.table_offsets[1]
    tables[start:stop] = -np.inf
    try:
        Case(build_program(graph), tables, 1.0).compile(backend)
    except SupportError as error:
        if "region 0" not in str(error):
            raise AssertionError(f"SupportError does not name region 0: {error}") from error
    else:
        raise AssertionError("a region without any allowed label was not refused")


# Certificates.


def check_certificate(backend: Backend, rng: np.random.Generator, tolerance: Tolerance) -> None:
    """Values, gaps, spreads and gaps per region, with the problem's temperature or another for the candidate."""
    for dtype in DTYPES:
        for case in random_cases(rng, dtype=dtype):
            if dtype == "float32" and (case.epsilon == 0.0 or not _has_positive_outer(case.program)):
                continue  # the candidate depends on which entries are tied
            mine, reference = pair(case, backend, sweeps=int(rng.integers(0, 12)))
            for smoothing in (None if case.epsilon else SMOOTHING, 2.0 * case.smoothing):
                _compare_certificates(mine, reference, smoothing, tolerance.of(dtype), case)
            _assert_same(mine.messages(), reference.messages(), f"{case.name}: messages after a certificate")
    at_zero = next(random_cases(rng, epsilons=(0.0,))).compile(backend)
    try:
        at_zero.certificate()
    except OptionError:
        return
    raise AssertionError("a certificate at eps = 0 without smoothing was not refused")


def _compare_certificates(
    mine: Problem, reference: Problem, smoothing: float | None, allowed: float, case: Case
) -> None:
    actual, expected = (problem.certificate(smoothing, True, candidate=True) for problem in (mine, reference))
    scale = allowed * max(1.0, float(np.abs(expected.value).max())) * 10
    what = f"{case.name}: certificate(smoothing={smoothing})"
    assert_close(actual.value, expected.value, allowed, f"{what}.value")
    assert_close(actual.gap, expected.gap, scale, f"{what}.gap")
    assert_close(actual.spread, expected.spread, scale, f"{what}.spread")
    if actual.region_gaps is None or expected.region_gaps is None:
        raise AssertionError(f"{what}: region gaps are missing")
    assert_close(actual.region_gaps, expected.region_gaps, scale, f"{what}.region_gaps")
    plain = mine.certificate(smoothing)
    if plain.region_gaps is not None or plain.candidate is not None:
        raise AssertionError(f"{what}: region gaps or candidate were not asked for")
    assert_close(plain.gap, actual.gap, 1e-12 * max(1.0, scale / allowed), f"{what}.gap with and without the candidate")
    if actual.candidate is None or expected.candidate is None:
        raise AssertionError(f"{what}: the candidate is missing")
    _assert_same(actual.candidate.dtype, np.dtype(np.float64), f"{what}: dtype of the candidate")
    _check_consistent(actual.candidate, actual.gap, case.program, what)


def _check_consistent(candidate: FloatArray, gap: FloatArray, program: Program, what: str) -> None:
    """q >= 0 sums to one in every region, and its marginal on every child is the child's; where the gap is finite."""
    graph = program.graph
    regions = [tuple(int(i) for i in region) for region in graph.regions]
    tables = [
        part.reshape(graph.shape(r)) for r, part in enumerate(np.split(candidate, graph.table_offsets[1:-1].tolist()))
    ]
    known = np.isfinite(gap)[program.segment]
    for r, table in enumerate(tables):
        if known[r]:
            if not (table >= 0.0).all():
                raise AssertionError(f"{what}.candidate: a negative entry in region {r}")
            assert_close(table.sum(), 1.0, 1e-9, f"{what}.candidate: mass of region {r}")
    for parent, child in zip(program.edge_parents.tolist(), program.edge_children.tolist(), strict=True):
        if known[child]:
            marginal = Link(0, parent, child, regions, graph.shape(parent)).down(tables[parent])
            assert_close(marginal, tables[child], 1e-9, f"{what}.candidate: marginal of {parent} on {child}")


# Labels.


def check_score(backend: Backend, rng: np.random.Generator, tolerance: Tolerance) -> None:
    """Scores of random labellings per segment, -inf where forbidden."""
    for dtype in DTYPES:
        for case in random_cases(rng, dtype=dtype):
            mine, reference = pair(case, backend, sweeps=0)
            for _ in range(5):
                labels = random_labels(rng, case.program.graph)
                assert_close(mine.score(labels), reference.score(labels), tolerance.of(dtype), f"{case.name}: score")


def check_decode(backend: Backend, rng: np.random.Generator, tolerance: Tolerance) -> None:
    """Rounded labels. At eps = 0 the maxima are tied up to rounding, so only eps > 0 is compared, by score."""
    for case in random_cases(rng, epsilons=(1.0, 0.25)):
        mine, reference = pair(case, backend)
        labels = _valid(mine.decode(), case)
        expected = reference.score(reference.decode())
        assert_close(reference.score(labels), expected, tolerance.float64, f"{case.name}: score of the decoded labels")
        best = reference.belief_labels()
        _assert_same(_valid(mine.belief_labels(), case), best, f"{case.name}: labels of the beliefs")
    case = next(random_cases(rng, epsilons=(0.0,)))
    _valid(pair(case, backend)[0].decode(), case)
    flat = Case(case.program, np.zeros_like(case.tables), 1.0)
    _assert_same(flat.compile(backend).decode(), np.zeros(case.program.graph.num_variables, np.int64), "ties: decode")


def check_local_search(backend: Backend, rng: np.random.Generator, tolerance: Tolerance) -> None:
    """The same labels as the reference, with ties (integer tables: sums are exact) and without; never worse."""
    del tolerance
    for case in random_cases(rng):
        part = float(rng.choice([0.0, 0.35]))
        for integer in (False, True):
            tables = random_tables(rng, case.program.graph, forbidden=part, integer=integer)
            other = replace(case, tables=tables)
            mine, reference = other.compile(backend), other.compile(ReferenceBackend())
            for passes in (0, 1, 50):
                labels = random_labels(rng, case.program.graph)
                start = labels.copy()
                found = _valid(mine.local_search(labels, passes), case)
                what = f"{case.name}, integer {integer}: local search of {passes} passes"
                _assert_same(labels, start, f"{what}: the caller's labels")
                _assert_same(found, reference.local_search(labels, passes), what)
                if not reference.score(found).sum() >= reference.score(start).sum():
                    raise AssertionError(f"{what}: made the score worse")


def check_block_search(backend: Backend, rng: np.random.Generator, tolerance: Tolerance) -> None:
    """The same labels as the reference, with ties and without; never worse; rounds may be made one by one."""
    del tolerance
    for case in random_cases(rng):
        part = float(rng.choice([0.0, 0.35]))
        for integer in (False, True):
            tables = random_tables(rng, case.program.graph, forbidden=part, integer=integer)
            other = replace(case, tables=tables)
            mine, reference = other.compile(backend), other.compile(ReferenceBackend())
            labels = random_labels(rng, case.program.graph)
            start = labels.copy()
            seed = 32 * int(rng.integers(1, 2**57)) - int(rng.integers(4))  # often with a round over the whole model
            what = f"{case.name}, integer {integer}: block search"
            found = _valid(mine.block_search(labels, 3, seed), case)
            _assert_same(labels, start, f"{what}: the caller's labels")
            _assert_same(found, reference.block_search(labels, 3, seed), what)
            one = mine.block_search(labels, 1, seed)
            _assert_same(found, mine.block_search(one, 2, seed + 1), f"{what}: one round after the other")
            if not reference.score(found).sum() >= reference.score(start).sum() - 1e-9:
                raise AssertionError(f"{what}: made the score worse")


# History, threads, memory.


def check_history(backend: Backend, rng: np.random.Generator, tolerance: Tolerance) -> None:
    """save_point, push, mix, restore, clear_history."""
    for dtype in DTYPES:
        for case in random_cases(rng, epsilons=(1.0, 0.25), numbers=("ones", "cover"), dtype=dtype):
            both = pair(case, backend, sweeps=0)
            allowed = tolerance.of(dtype)
            for problem in both:
                problem.allocate_history(3)
            for slot in (0, 2, 1, 0):
                for problem in both:
                    problem.set_messages(both[1].messages())
                    problem.save_point()
                    problem.sweep()
                both[0].set_messages(both[1].messages())
                products = [problem.push(slot) for problem in both]
                assert_close(products[0], products[1], allowed, f"{case.name}: inner products after push({slot})")
            weights = rng.standard_normal(3)
            weights[2] = 1.0 - weights[:2].sum()
            for problem in both:
                problem.mix(weights)
            assert_close(both[0].messages(), both[1].messages(), allowed, f"{case.name}: mixed messages")
            for problem in both:
                problem.restore(2)
            assert_close(both[0].messages(), both[1].messages(), allowed, f"{case.name}: restored messages")
            for problem in both:
                problem.clear_history()
                problem.save_point()
                problem.sweep()
            both[0].set_messages(both[1].messages())
            products = [problem.push(1) for problem in both]
            assert_close(products[0], products[1], allowed, f"{case.name}: inner products after clear_history")
            _assert_same(products[0] == 0.0, products[1] == 0.0, f"{case.name}: empty slots after clear_history")
            assert_close(both[0].value(), both[1].value(), allowed, f"{case.name}: value after the history")


def check_threads(backend: Backend, rng: np.random.Generator, tolerance: Tolerance) -> None:
    """The same bits on one thread and on two."""
    del tolerance
    for dtype in DTYPES:
        for case in random_cases(rng, dtype=dtype):
            one, two = case.compile(backend, threads=1), case.compile(backend, threads=2)
            one.sweep(3)
            two.sweep(3)
            _assert_same(one.messages(), two.messages(), f"{case.name}: messages on two threads")
            _assert_same(one.value(), two.value(), f"{case.name}: value on two threads")
            _assert_same(one.decode(), two.decode(), f"{case.name}: decoded labels on two threads")
            _compare_bits(one, two, case, rng, "on two threads")
    # Large enough for threads to meet, with blocks whose lanes act in different classes; races show now and then only.
    program = build_program(grid_graph((20, 30), 8), "ones")
    tables = rng.normal(size=int(program.graph.table_offsets[-1]))
    for dtype in DTYPES:
        case = Case(program, tables, 1.0, dtype, f"grid, {dtype}")
        one = case.compile(backend, threads=1)
        one.sweep(2)
        labels = one.decode()
        for attempt in range(10):
            two = case.compile(backend, threads=2)
            two.sweep(2)
            _assert_same(two.decode(), labels, f"{case.name}: decoded labels on two threads, attempt {attempt}")
            _assert_same(one.messages(), two.messages(), f"{case.name}: messages on two threads, attempt {attempt}")
        _compare_bits(one, two, case, rng, "on two threads")


def _compare_bits(one: Problem, two: Problem, case: Case, rng: np.random.Generator, when: str) -> None:
    """Everything learning needs, to the last bit; the potentials change on the way."""
    tables = random_tables(rng, case.program.graph)
    steps = rng.normal(size=3)
    points = [problem.trial(tables, steps) for problem in (one, two)]
    for name, first, second in zip(("value", "slope", "curvature"), *points, strict=True):
        _assert_same(first, second, f"{case.name}: {name} of a trial {when}")
    for problem in (one, two):
        problem.set_potentials(tables)
    states = [problem.value_and_beliefs() for problem in (one, two)]
    for name, first, second in zip(("value", "beliefs"), *states, strict=True):
        _assert_same(first, second, f"{case.name}: {name} {when}")
    certificates = [problem.certificate(case.smoothing, candidate=True) for problem in (one, two)]
    _assert_same(certificates[0].gap, certificates[1].gap, f"{case.name}: gap {when}")
    known = np.repeat(np.isfinite(certificates[0].gap)[case.program.segment], case.program.graph.table_sizes)
    candidates = [np.asarray(certificate.candidate)[known] for certificate in certificates]
    _assert_same(candidates[0], candidates[1], f"{case.name}: candidate {when}")


def check_memory(backend: Backend, rng: np.random.Generator, tolerance: Tolerance) -> None:
    """Memory is stated, grows with the history and is estimated beforehand; the caller's tables are not touched."""
    del tolerance
    for dtype in DTYPES:
        for case in random_cases(rng, numbers=("ones",), dtype=dtype):
            tables = case.tables.copy()
            mine = case.compile(backend)
            mine.sweep(2)
            _assert_same(case.tables, tables, f"{case.name}: the caller's tables")
            before = mine.memory_bytes
            mine.allocate_history(4)
            mine.save_point()
            for slot in range(4):
                mine.push(slot)
            if case.program.edge_children.size and not mine.memory_bytes > before > 0:
                raise AssertionError(f"{case.name}: memory {before} bytes, with history {mine.memory_bytes}")
            if not backend.estimate_bytes(case.program, dtype) > 0:
                raise AssertionError(f"{case.name}: no estimate of memory")


DTYPES: tuple[DataType, ...] = ("float64", "float32")
Check = Callable[[Backend, np.random.Generator, Tolerance], None]
CHECKS: tuple[Check, ...] = (
    check_messages,
    check_sweeps,
    check_values,
    check_beliefs,
    check_potentials,
    check_value_and_beliefs,
    check_trial,
    check_float32_close,
    check_block_minimum,
    check_descent,
    check_derivatives,
    check_forest,
    check_support,
    check_certificate,
    check_score,
    check_decode,
    check_local_search,
    check_block_search,
    check_history,
    check_threads,
    check_memory,
)


def _compare_states(mine: Problem, reference: Problem, case: Case, tolerance: Tolerance, when: str) -> None:
    """Value, beliefs and scores at the same messages."""
    allowed = tolerance.of(case.dtype)
    assert_close(mine.value(), reference.value(), allowed, f"{case.name}: value {when}")
    labels = np.zeros(case.program.graph.num_variables, dtype=np.int64)
    assert_close(mine.score(labels), reference.score(labels), allowed, f"{case.name}: score {when}")
    if case.dtype == "float64" or (case.epsilon > 0.0 and _has_positive_outer(case.program)):
        scale = 1.0 / min(e for e in EPSILONS if e > 0.0)
        assert_close(mine.beliefs(), reference.beliefs(), scale * allowed, f"{case.name}: beliefs {when}")


def _table_of_a_region(rng: np.random.Generator, case: Case) -> tuple[int, int]:
    region = int(rng.integers(case.program.graph.num_regions))
    return int(case.program.graph.table_offsets[region]), int(case.program.graph.table_offsets[region + 1])


def _class_by_class(case: Case, backend: Backend, sweeps: int = 1) -> Iterator[tuple[int, Problem]]:
    """After each class of `sweeps` sweeps: the class and a problem that has just run it."""
    messages = case.compile(backend).messages()
    for colour in np.tile(case.program.schedule, sweeps):
        mine = replace(case, program=replace(case.program, schedule=np.array([colour], dtype=np.int32))).compile(
            backend
        )
        mine.set_messages(messages)
        mine.sweep()
        messages = mine.messages()
        yield int(colour), mine


def _has_positive_outer(program: Program) -> bool:
    """Whether every region without parents has a positive counting number (else its belief is a matter of ties)."""
    inner = np.zeros(program.graph.num_regions, dtype=bool)
    inner[program.edge_children] = True
    return bool((program.counting_numbers[~inner] > 0.0).all())


def _unsupported(case: Case) -> npt.NDArray[np.bool_]:
    """bool [tables layout]: entries that are forbidden directly."""
    return np.isneginf(case.tables)


def _valid(labels: npt.NDArray[np.int64], case: Case) -> npt.NDArray[np.int64]:
    cardinalities = case.program.graph.cardinalities
    if (
        labels.shape != cardinalities.shape
        or labels.dtype != np.int64
        or not ((labels >= 0) & (labels < cardinalities)).all()
    ):
        raise AssertionError(f"{case.name}: labels {labels} ({labels.dtype}), expected int64 below {cardinalities}")
    return labels


def _assert_same(actual: object, expected: object, what: str) -> None:
    """Equal to the last bit (and never NaN)."""
    if not np.array_equal(np.asarray(actual), np.asarray(expected)):
        raise AssertionError(f"{what}: {actual}, expected exactly {expected}")
