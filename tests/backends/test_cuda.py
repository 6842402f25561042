"""The CUDA backend: its host side and its kernels on a stand-in for a card, and on a card where there is one."""

import secrets
import shutil

import numpy as np
import pytest
from host_device import HostDevice

from blendfield.backends.cuda import CudaBackend, layout, linear, missing, problem, sources
from blendfield.backends.cuda.device import CudaDevice
from blendfield.backends.reference import ReferenceBackend
from blendfield.graph import RegionGraph, chain_graph, grid_graph
from blendfield.testing import assert_close, build_program
from blendfield.testing.conformance import CHECKS, DTYPES, Case, Check, Tolerance, check_certificate, check_sweeps
from blendfield.testing.linear_conformance import LINEAR_CHECKS, check_evaluation, check_linear

TOLERANCE = Tolerance(float64=1e-10, float32=2e-5)
pytestmark = pytest.mark.skipif(shutil.which("g++") is None, reason="g++ is not installed")
on_a_card = pytest.mark.skipif(missing() is not None, reason=str(missing()))


@pytest.fixture(scope="module")
def alone() -> CudaBackend:
    """On the host, one thread in a block."""
    return CudaBackend(HostDevice())


@pytest.fixture(scope="module")
def teams() -> CudaBackend:
    """On the host, with the blocks and teams of a card."""
    return CudaBackend(HostDevice(block=CudaDevice.block, team=CudaDevice.team))


@pytest.fixture(scope="module")
def card() -> CudaBackend:
    return CudaBackend()


@pytest.mark.parametrize("host", ["alone", "teams"])
@pytest.mark.parametrize("check", [*CHECKS, *LINEAR_CHECKS])
def test_conforms(check: Check, host: str, request: pytest.FixtureRequest) -> None:
    check(request.getfixturevalue(host), np.random.default_rng(len(host)), TOLERANCE)


@on_a_card
@pytest.mark.parametrize("attempt", range(5))
@pytest.mark.parametrize("check", [*CHECKS, *LINEAR_CHECKS])
def test_conforms_on_a_card(check: Check, card: CudaBackend, attempt: int) -> None:
    """Other random problems in every run."""
    seed = secrets.randbits(32)
    try:
        check(card, np.random.default_rng(seed), TOLERANCE)
    except AssertionError as error:
        raise AssertionError(f"seed {seed}: {error}") from error


@pytest.fixture(params=["alone", "teams", pytest.param("card", marks=on_a_card)])
def backend(request: pytest.FixtureRequest) -> CudaBackend:
    chosen: CudaBackend = request.getfixturevalue(request.param)
    return chosen


@pytest.mark.parametrize("width", [1, 32])
@pytest.mark.parametrize("check", [check_sweeps, check_certificate, check_linear])
def test_lanes_one_by_one_and_in_blocks(
    check: Check, width: int, backend: CudaBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(layout, "choose_width", lambda *_: width)
    check(backend, np.random.default_rng(7), TOLERANCE)


def triples(labels: int) -> RegionGraph:
    return RegionGraph([labels] * 8, [(i, (i + 1) % 8, (i + 3) % 8) for i in range(8)])


@pytest.mark.parametrize("width", [1, 32])
@pytest.mark.parametrize("dtype", DTYPES)
def test_kernels_of_their_own_for_large_groups(
    dtype: str, width: int, backend: CudaBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A kernel compiled for one shape does what the kernel for all shapes does."""
    monkeypatch.setattr(problem, "STATIC_ENTRIES", 0)
    monkeypatch.setattr(layout, "choose_width", lambda *_: width)
    rng = np.random.default_rng(3)
    for graph in (
        grid_graph((3, 4), 2),
        grid_graph((3, 3), np.array([[3, 5, 3], [5, 3, 11], [3, 21, 67]])),
        triples(3),
    ):
        program = build_program(graph, "cover")
        tables = rng.normal(size=int(graph.table_offsets[-1]))
        tables[rng.random(len(tables)) < 0.05] = -np.inf
        for epsilon in (1.0, 0.0):
            case = Case(program, tables, epsilon, dtype)  # type: ignore[arg-type]
            mine, reference = case.compile(backend), case.compile(ReferenceBackend())
            for _ in range(2):
                assert_close(mine.sweep_value(), reference.sweep_value(), TOLERANCE.of(case.dtype))
                assert_close(mine.messages(), reference.messages(), TOLERANCE.of(case.dtype))
                mine.set_messages(reference.messages())


@pytest.mark.parametrize("width", [1, 32])
@pytest.mark.parametrize("dtype", DTYPES)
def test_evaluation_of_large_groups(
    dtype: str, width: int, backend: CudaBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One pass with a kernel compiled for the shape gives what the kernels for any shape give."""
    monkeypatch.setattr(linear, "STATIC_ENTRIES", 0)
    monkeypatch.setattr(linear, "MOST_TERMS", 20)
    monkeypatch.setattr(layout, "choose_width", lambda *_: width)
    rng = np.random.default_rng(5)
    sizes = np.array([[3, 5, 3], [5, 3, 11], [3, 40, 5]])
    for graph in (grid_graph((7, 8), 2), grid_graph((6, 7), 4), grid_graph((3, 3), sizes), triples(3)):
        program = build_program(graph, "cover")
        tables = rng.normal(size=int(graph.table_offsets[-1]))
        tables[rng.random(len(tables)) < 0.05] = -np.inf
        check_evaluation(backend, Case(program, tables, 0.7, dtype), rng, TOLERANCE)  # type: ignore[arg-type]


def test_lone_large_tables(backend: CudaBackend) -> None:
    """A team per lane, with more entries than threads, both ways across the table."""
    rng = np.random.default_rng(4)
    for graph in (chain_graph(3, 70), RegionGraph([150, 90], [(0, 1)]), RegionGraph([5, 40, 33], [(0, 1, 2)])):
        tables = rng.normal(size=int(graph.table_offsets[-1]))
        case = Case(build_program(graph, "ones"), tables, 0.5)
        mine, reference = case.compile(backend), case.compile(ReferenceBackend())
        assert_close(mine.sweep_value(), reference.sweep_value(), 1e-10)
        assert_close(mine.messages(), reference.messages(), 1e-10)
        assert_close(mine.certificate().gap, reference.certificate().gap, 1e-10)


def test_emulated_teams() -> None:
    """Shuffles reach the partner, and a thread that leaves its team alone is noticed."""
    device = HostDevice(block=64, team=32)
    source = """
BF_ENTRY(sums) {
    const int me = thread_number();
    if (a && me == 40) return;
    double sum = me;
    for (int distance = team_size / 2; distance > 0; distance /= 2) sum += from_thread(sum, distance);
    pointer<double>(b)[block_number() * block_threads() + me] = sum;
}
"""
    kernel = device.kernels(sources.general("float64", "vectors") + source, ["sums"])["sums"]
    out = np.zeros((3, 64))
    arguments = (0, 0, 0, device.address(out), 0, 0, 0.0)
    device.launch(kernel, 3, *arguments)
    np.testing.assert_array_equal(out, np.repeat([[31 * 16.0, 31 * 16.0 + 32 * 32]], 32, axis=1).repeat(3, axis=0))
    with pytest.raises(AssertionError, match="ended while its team waited"):
        device.launch(kernel, 3, 0, 0, 1, *arguments[3:])
