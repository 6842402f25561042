"""The engine on a Ray cluster: each worker is an actor that holds a shard of the chunks and answers for it.

Ray places the workers, carries what they are asked, notices when one dies and starts it again. What is left to do here
is to build the lost chunks again, to give those of a worker that stays away (or is much slower than the rest) to the
others, and to say so by `MessagesLost`.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import median
from typing import Any

from blendfield.backends.protocol import FloatArray, RealArray
from blendfield.engines.cluster import Cluster, check_version, connect, reason_of_failure
from blendfield.engines.exchange import Exchange
from blendfield.engines.placement import contiguous, spread
from blendfield.engines.protocol import (
    Certificate,
    Evaluation,
    MessagesLost,
    Recipe,
    Request,
    SoftEvaluation,
    Trial,
)
from blendfield.engines.shard import SUMS, WEIGHT_VECTORS, ChunkFacts, NotHere, Present, Shard
from blendfield.engines.spares import Spares
from blendfield.engines.sums import whole
from blendfield.engines.support import Support
from blendfield.errors import BlendfieldError, EngineError

logger = logging.getLogger("blendfield.engines")

SHARES = 16
"""chunks at least: up to half as many workers get about the same each, and any number of them the same sums"""
STARTING = 60.0
"""seconds that a worker has to start, or to be started again; then its chunks go to the others"""
SPARE_PATIENCE = 1.0
"""that the spare process of a machine has when the worker itself is there again"""
LOSSES = 4
"""times in a row that one chunk may be lost before it is blamed itself"""
LARGE = 1 << 16
"""bytes from which on what all workers are asked is stored once instead of sent to each"""
SLOW = 3.0
"""a worker that takes so many times as long as the others' median,"""
SLOW_ROUNDS = 5
"""so often in a row,"""
SLOW_SECONDS = 0.1
"""and at least so long, has some of its chunks taken away"""


@dataclass
class Worker:
    """As the driver sees it."""

    actor: Any
    node: str
    """address of its machine"""
    machine: str
    """id of its machine"""
    threads: int
    chunks: list[int] = field(default_factory=list)
    support: Support = field(default_factory=lambda: Support(0))
    gone: bool = False
    """it did not come back"""
    seconds: float = 0.0
    """of its last iteration"""


class RayEngine:
    """See `engines.protocol.Engine`."""

    def __init__(self, cluster: Cluster) -> None:
        """Workers are started; `place` gives them their chunks."""
        self.cluster = cluster
        self._ray = connect(cluster)
        self._recipes: Sequence[Recipe] = []
        self._losses: dict[int, int] = {}
        self._present = Present()
        self._lost = ""  # what happened, where nobody could be told yet
        self._slow = 0
        self.bytes_asked = self.bytes_answered = 0
        """sent to and received from workers in rounds, without what Ray adds"""
        self.workers: list[Worker] = []
        self._spares = Spares()
        self._exchange = Exchange([])

    def shares(self) -> int:
        """Into how many chunks, at least, the set should be cut."""
        wanted = 2 * self._count_workers()
        return max(SHARES, 1 << (wanted - 1).bit_length())

    def place(self, recipes: Sequence[Recipe]) -> None:
        """Start the workers and let them make the chunks."""
        self._recipes = recipes
        self._exchange = Exchange([recipe.places for recipe in recipes])
        try:
            self._start()
            facts = self._place_all()
            if self.cluster.spare:
                self._start_spares()
        except BaseException:
            self.close()
            raise
        self.num_weights = facts[0].num_weights
        self.exact = all(own.all_exact for own in facts.values())
        self.hidden = any(own.hidden for own in facts.values())
        self.scale = max(own.scale for own in facts.values())
        self.passes_per_sweep = max(own.passes_per_sweep for own in facts.values())

    def _place_all(self) -> dict[int, ChunkFacts]:
        runs = contiguous([recipe.size for recipe in self._recipes], len(self.workers))
        for worker, run in zip(self.workers, runs, strict=True):
            worker.chunks = run
        facts = self._build({worker: run for worker, run in enumerate(runs) if run})
        return facts | self._recover([k for k in range(len(self._recipes)) if k not in facts])

    # What engines are asked.

    def allocate(self, slots: int) -> None:
        self._present = replace(self._present, slots=slots)
        self._tell("allocate", slots)

    def set_epsilon(self, epsilon: float) -> None:
        self._present = replace(self._present, epsilon=epsilon)
        self._tell("set_epsilon", epsilon)

    def iterate(self, request: Request) -> Evaluation:
        self._present = replace(self._present, weights=request.weights)
        if self._exchange.needed:
            told = self._ask("advance", request)
            means = self._exchange.means([told[0, number] for number in range(len(self._recipes))])
            answer: Evaluation = self._sum("finish", request, private=dict(enumerate(means)))
        else:
            answer = self._sum("iterate", request)
        self._relieve_the_slow()
        return answer

    def trial(self, weights: FloatArray, direction: FloatArray, steps: FloatArray, restore: int | None) -> Trial:
        answer: Trial = self._sum("trial", weights, direction, steps, restore)
        return answer

    def certificate(self, weights: FloatArray, epsilon: float, smoothing: float) -> Certificate:
        answer: Certificate = self._sum("certificate", weights, epsilon, smoothing)
        return answer

    def complete(self, weights: FloatArray, epsilon: float, smoothing: float) -> float:
        self._present = replace(self._present, weights=weights, completion=(epsilon, smoothing))
        return float(self._sum("complete", weights, epsilon, smoothing))

    def soft(self, weights: FloatArray, messages: list[FloatArray], gamma: float, curvature: bool) -> SoftEvaluation:
        while True:  # the messages come with the question: nothing that was lost matters
            try:
                answer: SoftEvaluation = self._sum("soft", weights, gamma, curvature, private=dict(enumerate(messages)))
                return answer
            except MessagesLost as lost:
                logger.warning("%s", lost)

    def messages(self) -> list[RealArray]:
        answers = self._ask("messages")
        return [answers[0, number] for number in range(len(self._recipes))]

    def set_messages(self, messages: list[RealArray]) -> None:
        while True:
            try:
                self._ask("set_messages", private=dict(enumerate(messages)))
                return
            except MessagesLost as lost:
                logger.warning("%s", lost)

    def beliefs(self) -> list[RealArray]:
        answers = self._ask("beliefs")
        return [answers[0, number] for number in range(len(self._recipes))]

    def close(self) -> None:
        for actor in [*self._spares.close(), *(worker.actor for worker in self.workers)]:
            self._ray.kill(actor)
        self.workers = []

    # Questions and answers.

    def _sum(self, method: str, *arguments: Any, private: Mapping[int, Any] | None = None) -> Any:
        return whole(self._ask(method, *arguments, private=private), len(self._recipes))

    def _tell(self, method: str, *arguments: Any) -> None:
        """What every chunk has to know; new chunks learn it from `_present`, so nothing has to be said again."""
        try:
            self._ask(method, *arguments)
        except MessagesLost as lost:
            self._lost = str(lost)

    def _ask(self, method: str, *arguments: Any, private: Mapping[int, Any] | None = None) -> dict[Any, Any]:
        """Every worker, at once; answers by node. Whoever does not answer is replaced, and MessagesLost raised."""
        if self._lost:
            lost, self._lost = self._lost, ""
            raise MessagesLost(lost)
        private = private or {}
        packed = self._packed(arguments, WEIGHT_VECTORS.get(method, 0))
        asked = {}
        for number, worker in enumerate(self.workers):
            if worker.chunks:
                own = {chunk: private[chunk] for chunk in worker.chunks if chunk in private}
                asked[number] = worker.actor.ask.remote(worker.chunks, method, packed[number], own)
                self.bytes_asked += _size(own)
        nodes: dict[Any, Any] = {}
        replies, failures = self._gather(asked)
        for number, (answers, seconds) in replies.items():
            self.bytes_answered += _size(answers)
            if method in SUMS:
                answers = {node: self.workers[number].support.widen(answer) for node, answer in answers.items()}
            nodes.update(answers)
            if method in ("iterate", "advance"):
                self.workers[number].seconds = seconds
        if failures:
            raise MessagesLost(self._replace(failures))
        self._losses.clear()
        return nodes

    def _packed(self, arguments: Sequence[Any], vectors: int) -> list[Any]:
        """What each worker is sent: of weights (the first arguments) only those that it touches, and what is large by
        way of the store.
        """
        packed: list[Any] = []
        shared: Any = None
        for worker in self.workers:
            own = [worker.support.narrow(value) if k < vectors else value for k, value in enumerate(arguments)]
            if worker.support.places is not None or (size := _size(own)) < LARGE:
                self.bytes_asked += _size(own)
                packed.append(own)
                continue
            self.bytes_asked += size
            shared = self._ray.put(own) if shared is None else shared
            packed.append(shared)
        return packed

    def _gather(self, asked: Mapping[int, Any], timeout: float | None = None) -> tuple[dict[int, Any], dict[int, str]]:
        """(replies, what went wrong) by worker."""
        ray, deadline = self._ray, time.monotonic() + (timeout or self.cluster.timeout)
        replies, failures = {}, {}
        for number, reference in asked.items():
            try:
                replies[number] = ray.get(reference, timeout=max(0.0, deadline - time.monotonic()))
            except ray.exceptions.GetTimeoutError:
                failures[number] = f"silent for {timeout or self.cluster.timeout:g} s"
                ray.kill(self.workers[number].actor, no_restart=False)
            except ray.exceptions.RayTaskError as fault:
                cause = getattr(fault, "cause", fault)
                if isinstance(cause, BlendfieldError):
                    raise cause from None
                if not isinstance(cause, NotHere):
                    where = f"worker {number} on {self.workers[number].node}"
                    raise EngineError(f"engine 'ray': {where}: {reason_of_failure(cause)}") from fault
                failures[number] = "started again"
            except ray.exceptions.RayError as fault:
                failures[number] = type(fault).__name__
        return replies, failures

    # Workers.

    def _count_workers(self) -> int:
        return self.cluster.workers or max(1, len(self._nodes()))

    def _nodes(self) -> list[dict[str, Any]]:
        return [node for node in self._ray.nodes() if node["Alive"] and node["Resources"].get("CPU", 0) >= 1]

    def _start(self) -> None:
        """Workers in turn on all machines."""
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        nodes, count = self._nodes(), self._count_workers()
        if not nodes:
            raise EngineError("engine 'ray': the cluster has no machine with a free processor")
        remote = self._ray.remote(Shard)
        for number in range(count):
            node = nodes[number % len(nodes)]
            sharing = len(range(number % len(nodes), count, len(nodes)))
            threads = self.cluster.threads or max(1, int(node["Resources"]["CPU"]) // sharing)
            options = {
                "num_cpus": threads,
                "max_restarts": -1,
                "max_task_retries": 0,
                "scheduling_strategy": NodeAffinitySchedulingStrategy(node_id=node["NodeID"], soft=True),
            }
            actor = remote.options(**options).remote(*self._arguments(threads))
            self.workers.append(Worker(actor, node["NodeManagerAddress"], node["NodeID"], threads))
        for number, worker in enumerate(self.workers):
            try:
                check_version(self._ray.get(worker.actor.hello.remote(), timeout=STARTING), worker.node)
            except self._ray.exceptions.GetTimeoutError:
                free = self._ray.available_resources().get("CPU", 0)
                raise EngineError(
                    f"engine 'ray': worker {number} of {count} did not start within {STARTING:g} s; {free:g} "
                    "processors are free"
                ) from None
            except self._ray.exceptions.RayError as fault:
                cause = getattr(fault, "cause", None) or fault
                raise EngineError(f"engine 'ray': no worker on {worker.node}: {reason_of_failure(cause)}") from fault

    def _arguments(self, threads: int) -> tuple[Any, ...]:
        """Of every `Shard`."""
        return len(self._recipes), threads, self.cluster.memory_limit, type(self._recipes[0])

    def _start_spares(self) -> None:
        kind = self._ray.remote(Shard)
        for worker in self.workers:
            if self._spares.on(worker.machine) is None:
                self._spares.start(kind, worker.machine, *self._arguments(worker.threads))
            worker.actor.leave_copies_with.remote(self._spares.on(worker.machine))

    def _build(
        self, placed: Mapping[int, Sequence[int]], messages: Mapping[int, RealArray] | None = None
    ) -> dict[int, ChunkFacts]:
        """Let workers make chunks: {worker: chunks}; the facts of those that did."""
        messages = messages or {}
        asked = {}
        for number, chunks in placed.items():
            recipes = {chunk: self._recipes[chunk] for chunk in chunks}
            known = {chunk: messages[chunk] for chunk in chunks if chunk in messages}
            asked[number] = self.workers[number].actor.build.remote(recipes, self._present, known)
        replies, _ = self._gather(asked, max(STARTING, self.cluster.timeout))
        facts: dict[int, ChunkFacts] = {}
        for number, (own, support) in replies.items():
            facts.update(own)
            self.workers[number].support = support
        return facts

    # Faults.

    def _replace(self, failures: Mapping[int, str]) -> str:
        """Let the chunks of these workers be made again; what happened, in words."""
        lost = []
        for number in failures:
            lost += self.workers[number].chunks
        said = ", ".join(f"worker {number} on {self.workers[number].node}: {why}" for number, why in failures.items())
        logger.warning("%s; its chunks are made again", said)
        started = time.perf_counter()
        self._recover(lost)
        taken = time.perf_counter() - started
        return f"{said}; {len(lost)} of {len(self._recipes)} chunks were made again in {taken:.1f} s"

    def _recover(self, lost: Sequence[int]) -> dict[int, ChunkFacts]:
        """Make lost chunks where they were, or elsewhere when their worker does not come back."""
        facts: dict[int, ChunkFacts] = {}
        missing = list(lost)
        while missing:
            for chunk in missing:
                self._losses[chunk] = self._losses.get(chunk, 0) + 1
                if self._losses[chunk] > LOSSES:
                    raise EngineError(
                        f"engine 'ray': chunk {chunk} was lost {LOSSES} times in a row; most likely its worker needs "
                        "more memory than there is"
                    )
            holders = [number for number, worker in enumerate(self.workers) if set(worker.chunks) & set(missing)]
            for number in holders:
                if not self._back(number):
                    self._give_away(number)
            placed = {
                number: [chunk for chunk in worker.chunks if chunk in missing]
                for number, worker in enumerate(self.workers)
                if set(worker.chunks) & set(missing)
            }
            made = self._build(placed)
            facts.update(made)
            missing = [chunk for chunk in missing if chunk not in made]
        return facts

    def _back(self, number: int) -> bool:
        """Let the spare process of its machine take the place of a worker, or wait for it to be started again; either
        has forgotten its chunks, but the spare one has copies of their messages.
        """
        worker, deadline = self.workers[number], time.monotonic() + STARTING
        dead: set[Any] = set()
        while not worker.gone and time.monotonic() < deadline:
            spare = self._spares.on(worker.machine)
            asked = {actor.hello.remote(): actor for actor in (worker.actor, spare) if actor not in (None, *dead)}
            waiting, started = list(asked), False
            while waiting:
                patience = SPARE_PATIENCE if started else max(0.0, deadline - time.monotonic())
                ready, waiting = self._ray.wait(waiting, timeout=patience)
                if not ready:
                    break
                actor = asked[ready[0]]
                try:
                    hello = self._ray.get(ready[0])
                except self._ray.exceptions.ActorDiedError:
                    dead.add(actor)
                except self._ray.exceptions.RayError:
                    continue
                else:
                    if actor is not worker.actor:
                        self._take_spare(number, worker.actor in dead)
                        return True
                    started = True
                    if hello["chunks"]:  # it was out of reach, nothing else
                        return True
            if started:
                return True
            if worker.actor in dead and spare in (None, *dead):
                return False
            time.sleep(0.05)
        return False

    def _take_spare(self, number: int, died: bool) -> None:
        """In place of a worker; `died`: which will not be started again."""
        worker = self.workers[number]
        worker.actor = self._spares.exchange(worker.machine, worker.actor)
        if died:
            self._spares.drop(worker.machine)
        for other in self.workers:
            if other.machine == worker.machine and not other.gone:
                other.actor.leave_copies_with.remote(self._spares.on(worker.machine))

    def _give_away(self, number: int) -> None:
        """All chunks of a worker that does not come back go to the others."""
        worker = self.workers[number]
        orphans, worker.chunks, worker.gone = worker.chunks, [], True
        self._ray.kill(worker.actor)
        sizes = [recipe.size for recipe in self._recipes]
        loads = {k: self._load(k) for k, other in enumerate(self.workers) if not other.gone}
        if not loads:
            raise EngineError("engine 'ray': no worker is left")
        for chunk, other in spread(orphans, sizes, loads).items():
            self.workers[other].chunks = sorted([*self.workers[other].chunks, chunk])
        logger.warning("worker %d on %s does not come back; its chunks go to the others", number, worker.node)

    def _load(self, number: int) -> float:
        return float(sum(self._recipes[chunk].size for chunk in self.workers[number].chunks))

    def _relieve_the_slow(self) -> None:
        """A worker that keeps the others waiting gives chunks away, with their messages; then MessagesLost is due."""
        busy = [number for number, worker in enumerate(self.workers) if worker.chunks and not worker.gone]
        if len(busy) < 2:
            return
        slowest = max(busy, key=lambda number: self.workers[number].seconds)
        seconds = self.workers[slowest].seconds
        usual = median(self.workers[number].seconds for number in busy if number != slowest)
        slow = seconds > SLOW_SECONDS and seconds > SLOW * usual
        self._slow = self._slow + 1 if slow else 0
        if self._slow < SLOW_ROUNDS:
            return
        self._slow = 0
        rates = {k: self._load(k) / max(self.workers[k].seconds, 1e-6) for k in busy}
        worker = self.workers[slowest]
        fair = sum(self._load(k) for k in busy) * rates[slowest] / sum(rates.values())
        surplus = list(worker.chunks)
        kept: list[int] = []
        while surplus and sum(self._recipes[k].size for k in [*kept, surplus[0]]) <= fair:
            kept.append(surplus.pop(0))
        if not surplus:
            return
        replies, failures = self._gather({slowest: worker.actor.take.remote(surplus)})
        if failures:
            self._lost = self._replace(failures)
            return
        messages, worker.support = replies[slowest]
        worker.chunks = kept
        loads = {k: self._load(k) / rates[k] * rates[slowest] for k in busy if k != slowest}
        placed: dict[int, list[int]] = {}
        for chunk, other in spread(surplus, [recipe.size for recipe in self._recipes], loads).items():
            placed.setdefault(other, []).append(chunk)
        for other, chunks in placed.items():
            self.workers[other].chunks = sorted([*self.workers[other].chunks, *chunks])
        made = self._build(placed, messages)
        self._recover([chunk for chunk in surplus if chunk not in made])
        self._lost = (
            f"worker {slowest} on {worker.node} takes {seconds:.2g} s where the others take {usual:.2g} s; "
            f"{len(surplus)} of its chunks went to them, with their messages"
        )
        logger.warning("%s", self._lost)


def _size(value: Any) -> int:
    """Bytes of all arrays inside."""
    if hasattr(value, "nbytes"):
        return int(value.nbytes)
    if isinstance(value, Mapping):
        return sum(map(_size, value.values()))
    if isinstance(value, (list, tuple)):
        return sum(map(_size, value))
    return sum(map(_size, vars(value).values())) if hasattr(value, "__dict__") else 8
