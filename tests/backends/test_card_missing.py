"""Without a card that can be used: one line that says why, and "auto" goes on without it."""

import logging
import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from host_device import HostDevice

import blendfield as bf
from blendfield import backends
from blendfield.backends import cuda
from blendfield.inference import memory

GIB = 1 << 30


def raising(message: str) -> Any:
    def function(*_: Any) -> Any:
        raise RuntimeError(message)

    return function


def fake_cupy(**changes: Any) -> Any:
    """A CuPy with a card of 80 GiB, half of it free; `changes` by the name of the function."""
    functions = {"getDeviceCount": lambda: 1, "memGetInfo": lambda: (40 * GIB, 80 * GIB), "getVersion": lambda: (13, 0)}
    functions |= changes
    runtime = SimpleNamespace(getDeviceCount=functions["getDeviceCount"], memGetInfo=functions["memGetInfo"])
    nvrtc = SimpleNamespace(getVersion=functions["getVersion"])
    pool = SimpleNamespace(free_bytes=lambda: 0)
    return SimpleNamespace(cuda=SimpleNamespace(runtime=runtime, nvrtc=nvrtc), get_default_memory_pool=lambda: pool)


DRIVER = "cudaErrorInsufficientDriver: CUDA driver version is insufficient for CUDA runtime version"
FAULTS = {
    "no CuPy": (None, "CuPy cannot be imported"),
    "no driver": ({"getDeviceCount": raising(DRIVER)}, "no usable CUDA driver or card: cudaErrorInsufficientDriver"),
    "no card": ({"getDeviceCount": lambda: 0}, "no CUDA card"),
    "no context": ({"memGetInfo": raising("cudaErrorMemoryAllocation: out of memory\nmore")}, "out of memory"),
    "wrong version": ({"getVersion": raising("libnvrtc.so.13: cannot open")}, "another version of CUDA"),
    "full card": ({"memGetInfo": lambda: (10 << 20, 80 * GIB)}, "the card is full: 0.01 GiB of 80.00 GiB free"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_one_line_says_why(fault: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    changes, expected = FAULTS[fault]
    monkeypatch.setitem(sys.modules, "cupy", None if changes is None else fake_cupy(**changes))
    with pytest.raises(bf.BlendfieldError, match="backend 'cuda' is not available") as raised:
        backends.get("cuda")
    assert expected in str(raised.value)
    assert "\n" not in str(raised.value)
    with caplog.at_level(logging.INFO, "blendfield.backends"):
        assert backends.choose("auto", 1 << 30) == "auto"
    assert expected in caplog.text
    assert backends.get("auto").name in ("cpu", "reference")
    graph = bf.grid_graph((2, 2), 2)
    monkeypatch.setattr(backends, "CARD_ENTRIES", 0)
    assert bf.infer(graph, np.zeros(int(graph.table_offsets[-1]))).converged


@pytest.fixture
def card(monkeypatch: pytest.MonkeyPatch) -> HostDevice:
    """A stand-in for a card, for all that asks for one."""
    device = HostDevice()
    monkeypatch.setattr(cuda, "missing", lambda: None)
    monkeypatch.setattr(cuda, "_card", lambda: device)
    return device


def test_auto_takes_the_card_for_large_models(
    card: HostDevice, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "blendfield.backends"):
        assert backends.choose("auto", backends.CARD_ENTRIES) == "cuda"
    assert "cuda" in caplog.text
    assert backends.choose("auto", backends.CARD_ENTRIES - 1) == "auto"
    assert backends.choose("cpu", 1 << 40) == "cpu"
    monkeypatch.setattr(card, "free_bytes", lambda: 1000)
    assert backends.choose("auto", backends.CARD_ENTRIES) == "auto"


def test_too_large_for_the_card(card: HostDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = bf.grid_graph((20, 20), 3)
    monkeypatch.setattr(card, "free_bytes", lambda: 1000)
    with pytest.raises(bf.BlendfieldError, match=r"would need about .* GiB on the card, but only 0.00 GiB is free"):
        bf.infer(graph, np.zeros(int(graph.table_offsets[-1])), backend="cuda")


def noisy_labels(count: int) -> list[bf.Sample]:
    rng = np.random.default_rng(0)
    graph = bf.grid_graph((5, 4), 3)
    pairs, singles = np.arange(graph.num_given), np.arange(graph.num_given, graph.num_regions)
    samples = []
    for _ in range(count):
        labels = rng.integers(3, size=20)
        x = np.stack([labels + 0.5 * rng.standard_normal(20), np.ones(20)], axis=1)
        blocks = [bf.TiedLinear("pixel", singles, x), bf.TableFeatures("pair", pairs, np.eye(3)[None])]
        samples.append(bf.Sample(graph, blocks, labels=labels))
    return samples


def test_learning_on_the_card_gives_the_same_numbers(card: HostDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    """The blend with all it asks of a backend; nothing above the backends knows which it is."""
    monkeypatch.setattr(backends, "CARD_ENTRIES", 0)
    samples = noisy_labels(3)
    for options in ({}, {"epsilon": 0.0}, {"l1": 0.1, "sign": {"pair": ">=0"}}, {"dtype": "float32"}):
        fitted = []
        for backend in ("auto", "cpu"):
            learner = bf.BlendedLearner(backend=backend, tolerance=1e-4, max_iterations=60, **options)
            fitted.append(learner.fit(samples))
        mine, other = fitted
        close = 1e-3 if options else 1e-8
        assert abs(mine.primal_ - other.primal_) <= close * abs(other.primal_)
        np.testing.assert_allclose(mine.weights_, other.weights_, atol=30 * close)
        assert mine.stop_reason_ == other.stop_reason_


def test_what_lies_on_the_card_needs_no_room_beside_it(card: HostDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backends, "CARD_ENTRIES", 0)
    samples = noisy_labels(3)
    for backend in ("auto", "cpu"):
        learner = bf.BlendedLearner(backend=backend, max_iterations=3)
        estimate = learner.memory_estimate(samples)
        monkeypatch.setattr(memory, "available_bytes", lambda estimate=estimate: estimate.total - 1)
        if backend == "auto":
            learner.fit(samples)
        else:
            with pytest.raises(bf.NotEnoughMemoryError):
                learner.fit(samples)


def test_sets_larger_than_the_card(card: HostDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    """Chunks share room for tables, histories stay with the host: the same bits."""
    monkeypatch.setattr(cuda.CudaBackend, "chunk_entries", 1)
    samples = noisy_labels(3)
    fitted = []
    for scarce in (False, True):
        monkeypatch.setattr(card, "scarce", lambda scarce=scarce: scarce)
        monkeypatch.setattr(cuda.problem, "HISTORY_SHARE", 0.0 if scarce else 0.4)
        learner = bf.BlendedLearner(backend="cuda", epsilon=0.0, tolerance=1e-3, max_iterations=40)
        fitted.append(learner.fit(samples))
        assert (card.page_locked_arrays > 0) == scarce
    np.testing.assert_array_equal(fitted[0].weights_, fitted[1].weights_)
    np.testing.assert_array_equal(fitted[0].history_["gap"], fitted[1].history_["gap"])
    np.testing.assert_array_equal(fitted[0].history_["primal"], fitted[1].history_["primal"])
