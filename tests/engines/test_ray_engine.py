"""The Ray engine against the local one, and what it does when workers die. One small cluster for all of it."""

import logging
import os
import signal
import socket
import threading
import time
from dataclasses import replace

import numpy as np
import pytest
from learning_models import random_problem

import blendfield as bf
from blendfield.cli import main
from blendfield.engines import cluster as clusters
from blendfield.engines import ray_engine
from blendfield.engines.cluster import Cluster
from blendfield.engines.local import LocalEngine
from blendfield.engines.protocol import MessagesLost, Request
from blendfield.engines.ray_engine import RayEngine
from blendfield.formats import shards
from blendfield.learning.compile import recipes_of
from blendfield.learning.learner import BlendedLearner
from blendfield.learning.parts_inference import infer_in_parts
from blendfield.model.weights import WeightLayout

ray = pytest.importorskip("ray")
pytestmark = pytest.mark.filterwarnings(
    "ignore::ResourceWarning", "ignore::DeprecationWarning", "ignore::FutureWarning"
)

STEPS = np.array([1.0, 0.5, 0.0])
REMOTE = {"engine": "ray", "engine_address": "local", "engine_workers": 2, "threads": 1, "engine_spare": False}


@pytest.fixture(scope="module", autouse=True)
def small_cluster():
    clusters.connect(Cluster("local", 2, threads=1))
    yield
    ray.shutdown()


@pytest.fixture
def engines(monkeypatch):
    """Every Ray engine that is made."""
    made = []
    place = RayEngine.place

    def noted(self, recipes):
        place(self, recipes)
        made.append(self)

    monkeypatch.setattr(RayEngine, "place", noted)
    return made


def processes(engine):
    return [ray.get(worker.actor.hello.remote())["process"] for worker in engine.workers if worker.chunks]


def local_and_remote(samples, workers, **options):
    """The same chunks in both."""
    learner = BlendedLearner(**options)
    layout = WeightLayout.of_samples(samples)
    recipes = recipes_of(samples, layout, learner.counting_numbers, learner._options(), 16)
    remote = RayEngine(Cluster("local", workers, threads=1))
    remote.place(recipes)
    return LocalEngine([recipe.build(1) for recipe in recipes]), remote


def answers(engine):
    """One of each question, on the way."""
    found = []
    weights = np.linspace(-1.0, 1.0, engine.num_weights)
    engine.allocate(3)
    if engine.hidden:
        found.append(engine.complete(weights, 1.0, 1.0))
    for slot in range(3):
        evaluation = engine.iterate(Request(weights * slot, slot=slot, curvature=True, forget=slot == 0))
        found += [evaluation.value, evaluation.gradient, evaluation.curvature, evaluation.products]
    engine.iterate(Request(weights, mixing=np.array([-0.2, 0.3, 0.9])))
    trial = engine.trial(weights, -weights, STEPS, 1)
    found += [trial.value, trial.slope, trial.curvature]
    certificate = engine.certificate(weights, 1.0, 1.0)
    found += [certificate.value, certificate.divergence, certificate.moments, certificate.spread]
    messages = engine.messages()
    engine.set_messages([0.5 * part for part in messages])
    engine.set_epsilon(0.1)
    found += [*messages, engine.iterate(Request(weights, sweeps=0)).value]
    return found


@pytest.mark.parametrize("workers", [1, 2])
def test_every_answer_has_the_bits_of_the_local_engine(workers):
    samples = random_problem(0, count=20)[0]
    local, remote = local_and_remote(samples, workers)
    for one, other in zip(answers(local), answers(remote), strict=True):
        assert np.asarray(one).tobytes() == np.asarray(other).tobytes()
    assert (local.scale, local.exact, local.hidden) == (remote.scale, remote.exact, remote.hidden)
    remote.close()


def free_samples(count, hidden=False):
    """Each sample has many weights of its own, so that little of them travels."""
    rng = np.random.default_rng(1)
    graph = bf.grid_graph((3, 3), 2)
    singles = graph.single_regions
    labels = rng.integers(0, 2, (count, 9))
    if hidden:
        labels[:, 4] = -1
    return [
        bf.Sample(
            graph,
            [
                bf.FreeWeights(f"own {k}", singles, coefficients=rng.standard_normal(9)),
                bf.TableFeatures("pair", np.arange(12), [[[1.0, -1.0], [-1.0, 1.0]]]),
                (0, 700, 1.0 + k),  # all weights before it are there, and unused
            ],
            labels[k],
        )
        for k in range(count)
    ]


@pytest.mark.parametrize("hidden", [False, True])
def test_few_weights_travel(hidden):
    samples = free_samples(12, hidden)
    local, remote = local_and_remote(samples, 2)
    assert all(0 < len(worker.support.places) < 300 < remote.num_weights for worker in remote.workers)
    for one, other in zip(answers(local), answers(remote), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-13)
    remote.close()


def test_soft_marginalisation_and_chains():
    samples = random_problem(2, count=4)[0]
    options = {"soft_marginalisation": 0.5, "tolerance": 1e-7}
    local = bf.BlendedLearner(**options).fit(samples)
    remote = bf.BlendedLearner(**options, **REMOTE).fit(samples)
    assert abs(local.primal_ - remote.primal_) <= 1e-9 * local.primal_
    chains = random_problem(2, count=6, chains=True)[0]
    local = bf.BlendedLearner(counting_numbers="bethe").fit(chains)
    remote = bf.BlendedLearner(counting_numbers="bethe", **REMOTE).fit(chains)
    assert abs(local.primal_ - remote.primal_) <= 1e-9 * local.primal_


def test_killed_workers_cost_nothing_but_time(engines, caplog):
    samples = random_problem(3, count=30)[0]
    options = {"epsilon": 0.3, "tolerance": 1e-9}
    unharmed = bf.BlendedLearner(**options).fit(samples)
    killed = []

    def kill(progress):
        if progress.iteration in (1, 4) and len(killed) < 2:
            killed.append(processes(engines[0])[len(killed)])
            os.kill(killed[-1], signal.SIGKILL)

    caplog.set_level(logging.WARNING, logger="blendfield")
    learner = bf.BlendedLearner(**options, **REMOTE, callback=kill).fit(samples)
    assert len(killed) == 2
    assert learner.converged_
    assert abs(learner.primal_ - unharmed.primal_) <= 1e-9 * unharmed.primal_
    assert learner.dual_ <= unharmed.primal_ * (1 + 1e-12)
    assert caplog.text.count("training goes on") == 2


def test_a_spare_process_takes_the_place_of_a_worker():
    """Twice, the second time the worker that was lost first; with messages of a moment before."""
    samples = random_problem(3, count=30)[0]
    learner = BlendedLearner(epsilon=0.3)
    recipes = recipes_of(samples, WeightLayout.of_samples(samples), "ones", learner._options(), 16)
    local = LocalEngine([recipe.build(1) for recipe in recipes])
    remote = RayEngine(Cluster("local", 2, threads=1, spare=True))
    remote.place(recipes)
    request = Request(np.linspace(-1.0, 1.0, remote.num_weights))
    settled = [local.iterate(request) for _ in range(300)][-1].value
    first = local.chunks[0].messages()
    for number in (0, 1):
        until = time.monotonic() + 60
        spare = remote._spares.on(remote.workers[0].machine)
        while time.monotonic() < until:  # messages are close to settled, and copies of them are with the spare one
            assert remote.iterate(request).value >= settled - 1e-9
            try:
                kept = ray.get(spare.__ray_call__.remote(lambda shard: dict(shard._kept)))
            except ray.exceptions.RayError:
                continue  # it is being started
            if len(kept) == 16 and np.allclose(kept[0], first, atol=1e-6):
                break
        else:
            pytest.fail("no copies were left")
        lost = processes(remote)[number]
        os.kill(lost, signal.SIGKILL)
        with pytest.raises(MessagesLost):
            for _ in range(1000):
                remote.iterate(request)
        assert remote.workers[number].actor is spare
        assert lost not in processes(remote)
        assert remote.iterate(replace(request, sweeps=0)).value == pytest.approx(settled, rel=1e-9)
    remote.close()


def test_a_hung_worker_is_replaced():
    local, remote = local_and_remote(random_problem(4, count=10)[0], 2)
    weights = np.ones(remote.num_weights)
    remote.iterate(Request(weights))
    remote.cluster = replace(remote.cluster, timeout=1.0)
    remote.workers[0].actor.__ray_call__.remote(lambda shard: time.sleep(600))
    with pytest.raises(MessagesLost, match=r"worker 0 on .*: silent for 1 s; \d+ of \d+ chunks were made again"):
        remote.iterate(Request(weights))
    remote.cluster = replace(remote.cluster, timeout=60.0)
    request = Request(weights, sweeps=200)
    assert remote.iterate(request).value == pytest.approx(local.iterate(request).value, rel=1e-10)
    remote.close()


def test_a_worker_that_stays_away_leaves_its_chunks_to_the_others(monkeypatch, caplog):
    local, remote = local_and_remote(random_problem(5, count=20)[0], 2)
    weights = np.ones(remote.num_weights)
    remote.iterate(Request(weights))
    monkeypatch.setattr(ray_engine, "STARTING", 5.0)
    ray.kill(remote.workers[0].actor)  # for good
    with pytest.raises(MessagesLost, match="worker 0"):
        for _ in range(1000):  # it may still answer some
            remote.iterate(Request(weights))
    assert remote.workers[0].chunks == []
    assert len(remote.workers[1].chunks) == len(local.chunks)
    for _ in range(60):
        one, other = local.iterate(Request(weights)), remote.iterate(Request(weights))
    assert other.value == pytest.approx(one.value, rel=1e-10)
    remote.close()


def test_a_slow_worker_is_relieved(monkeypatch):
    local, remote = local_and_remote(random_problem(6, count=20)[0], 2)
    monkeypatch.setattr(ray_engine, "SLOW_SECONDS", 0.0)
    monkeypatch.setattr(ray_engine, "SLOW", 0.0)  # whoever is slower
    weights = np.ones(remote.num_weights)
    ask = RayEngine._ask

    def slowed(self, method, *arguments, **options):
        found = ask(self, method, *arguments, **options)
        self.workers[0].seconds *= 1000.0
        return found

    monkeypatch.setattr(RayEngine, "_ask", slowed)
    with pytest.raises(MessagesLost, match="with their messages"):
        for _ in range(20):
            other = remote.iterate(Request(weights))
            assert other.value == local.iterate(Request(weights)).value
    assert len(remote.workers[0].chunks) < len(remote.workers[1].chunks)
    monkeypatch.setattr(ray_engine, "SLOW", 1e9)
    for part, own in zip(local.messages(), remote.messages(), strict=True):
        np.testing.assert_array_equal(part, own)  # nothing was swept in between: they went along
    remote.close()


def test_another_cluster_goes_on_from_a_checkpoint(tmp_path):
    samples = random_problem(7, count=20)[0]
    keep = {"checkpoint": tmp_path / "run", "checkpoint_every": 5}
    unbroken = bf.BlendedLearner(tolerance=1e-9, **REMOTE).fit(
        samples, checkpoint=tmp_path / "other", checkpoint_every=5
    )
    bf.BlendedLearner(tolerance=1e-9, max_iterations=7, **REMOTE).fit(samples, **keep)
    resumed = bf.BlendedLearner(tolerance=1e-9, **{**REMOTE, "engine_workers": 1}).fit(samples, **keep, resume=True)
    assert resumed.weights_.tobytes() == unbroken.weights_.tobytes()
    here = bf.BlendedLearner(tolerance=1e-9).fit(samples, **keep, resume=True)
    assert abs(here.primal_ - unbroken.primal_) <= 1e-9 * unbroken.primal_


def test_workers_of_another_version_are_refused(monkeypatch):
    monkeypatch.setattr(clusters.metadata, "version", lambda name: "9.9.9")
    with pytest.raises(bf.EngineError, match=r"has blendfield 0.* here is 9\.9\.9; install the same version$"):
        bf.BlendedLearner(**REMOTE).fit(random_problem(0)[0])


def test_more_workers_than_processors_are_refused(monkeypatch):
    monkeypatch.setattr(ray_engine, "STARTING", 1.0)
    with pytest.raises(bf.EngineError, match=r"worker \d of 3 did not start within 1 s"):
        bf.BlendedLearner(**{**REMOTE, "engine_workers": 3}).fit(random_problem(0)[0])


def test_a_fault_of_the_data_is_told_as_it_is():
    samples = random_problem(0, count=3)[0]
    samples[2] = bf.Sample(samples[2].graph, samples[2].features)
    with pytest.raises(bf.LabelError, match="sample 2 has no labels"):
        bf.BlendedLearner(**REMOTE).fit(samples)


@pytest.mark.parametrize("address", ["127.0.0.1:1", "ray://127.0.0.1:1"])
def test_unreachable_addresses(address, monkeypatch):
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    with pytest.raises(bf.EngineError, match="nothing answers at") as fault:
        bf.BlendedLearner(engine="ray", engine_address=address).fit(random_problem(0)[0])
    assert "\n" not in str(fault.value)


def one_line(message, address):
    with pytest.raises(bf.EngineError, match=message) as fault:
        bf.BlendedLearner(engine="ray", engine_address=address).fit(random_problem(0)[0])
    assert "\n" not in str(fault.value)
    assert str(fault.value).count("engine 'ray'") <= 1


def test_what_is_no_cluster_or_a_silent_one(monkeypatch):
    """Ray itself would wait for minutes."""
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setattr(clusters, "PATIENCE", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as server:  # it never answers
        address = f"127.0.0.1:{server.getsockname()[1]}"
        one_line(f"{address} does not answer within 0.2 s", address)
        monkeypatch.setenv("RAY_ADDRESS", address)
        one_line(f"{address} does not answer within 0.2 s", "auto")
        for _ in range(2):  # those that gave up are still in the queue
            server.accept()[0].close()
        thread = threading.Thread(target=lambda: server.accept()[0].sendall(b"SSH-2.0-or-so"))
        thread.start()
        one_line(f"what answers at {address} is no Ray cluster", address)
        thread.join()
    one_line("engine_address must be 'auto'", "nonsense")
    monkeypatch.setattr("ray._private.services.get_ray_address_from_environment", raise_connection_error)
    one_line("no cluster is running here: start one with", "auto")
    assert "\n" not in clusters._reason("a:1", RuntimeError("Version mismatch:\n Ray 1\n Ray 2"))


def raise_connection_error(*_):
    raise ConnectionError("Could not find any\nrunning Ray instance.")


def test_the_cluster_that_runs_answers():
    clusters._require_answer(ray.get_runtime_context().gcs_address)


def test_no_ray_installed(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "ray", None)
    with pytest.raises(bf.MissingExtraError, match=r"engine 'ray' needs ray: pip install 'blendfield\[ray\]'"):
        bf.BlendedLearner(engine="ray").fit(random_problem(0)[0])


def test_parts_of_one_graph_on_many_workers():
    graph = bf.grid_graph((8, 8), 2)
    theta = np.random.default_rng(0).standard_normal(int(graph.table_offsets[-1]))
    options = {"exchange_every": 3, "tolerance": 1e-8}
    here = infer_in_parts(graph, theta, 4, **options)
    there = infer_in_parts(graph, theta, 4, **options, **REMOTE)
    assert here.converged
    assert there.converged
    assert here.upper == there.upper
    assert here.beliefs.flat.tobytes() == there.beliefs.flat.tobytes()


def test_command_line(tmp_path, monkeypatch, capsys):
    rng = np.random.default_rng(0)
    np.savez(tmp_path / "train.npz", lengths=[4, 5, 6], features=rng.standard_normal((15, 3)), labels=np.arange(15) % 3)
    (tmp_path / "config.toml").write_text('[data]\ntrain = "train.npz"\n[model]\nkind = "chain"\n')
    monkeypatch.chdir(tmp_path)
    assert main(["train", "config.toml", "-q", "-o", "here.safetensors"]) == 0
    remote = ["--engine", "ray", "--address", "local", "--workers", "2", "--threads", "1", "--no-spare"]
    assert main(["train", "config.toml", "-q", "-o", "there.safetensors", *remote]) == 0
    here, there = capsys.readouterr().out.splitlines()[1::5]
    assert here.startswith("primal")
    assert here == there
    # Shards are read by the workers: the driver must not open one for more than its heading.
    assert main(["shard", "config.toml", "shards", "--entries", "20"]) == 0
    capsys.readouterr()
    monkeypatch.setattr(shards, "_samples", None)
    assert main(["train", "shards", "-q", "-o", "sharded.safetensors", *remote]) == 0
    assert capsys.readouterr().out.splitlines()[1] == there
