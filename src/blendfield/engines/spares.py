"""A process per machine that is ready to take the place of a worker there: what it needs is imported, and it has the
messages that the workers left with it a moment ago. The worker that was lost is started again and is the next one.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from blendfield.backends.protocol import RealArray

SHARE = 0.03
"""of a worker's time that may go into leaving copies of its messages"""
MOST_BYTES = 1 << 28
"""of messages that one worker leaves; more are not kept"""


class Copies:
    """What one worker leaves with the spare process of its machine."""

    def __init__(self, spare: Any) -> None:
        """`spare`: a handle of Ray's to a `Shard`."""
        self._spare = spare
        self._worked = 0.0  # seconds since the last copy
        self._cost = float("inf")
        self._sent: Any = None

    def leave(self, chunks: Mapping[int, Any], seconds: float) -> None:
        """Messages of chunks by number, where it is time again after so many seconds more of work. They are sent
        without waiting.
        """
        import ray

        self._worked += seconds
        known = self._cost < float("inf")
        if known and self._worked < self._cost / SHARE:
            return
        if self._sent is not None and not ray.wait([self._sent], timeout=0)[0]:
            return
        started = time.thread_time()  # what it costs, whatever else the machine does
        messages: dict[int, RealArray] = {number: chunk.messages() for number, chunk in chunks.items()}
        if sum(flat.nbytes for flat in messages.values()) > MOST_BYTES:
            self._cost = 0.0
            self._worked = -float("inf")  # never again
            return
        first, self._sent = self._sent is None, self._spare.keep.remote(messages)
        self._worked = 0.0
        if not first:  # which has connections to make
            self._cost = min(self._cost, time.thread_time() - started)


class Spares:
    """The spare processes as the driver sees them, by machine."""

    def __init__(self) -> None:
        self._actors: dict[str, Any] = {}

    def start(self, kind: Any, node: str, *arguments: Any) -> None:
        """One on this machine, by the id of Ray's; it takes no processor of its own. `kind`: the remote class."""
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        here = NodeAffinitySchedulingStrategy(node_id=node, soft=False)
        options = {"num_cpus": 0, "max_restarts": -1, "max_task_retries": 0, "scheduling_strategy": here}
        self._actors[node] = kind.options(**options).remote(*arguments)

    def on(self, node: str) -> Any:
        """The handle, or None."""
        return self._actors.get(node)

    def exchange(self, node: str, lost: Any) -> Any:
        """The spare process of this machine, for the worker `lost`, which becomes the spare one."""
        spare, self._actors[node] = self._actors[node], lost
        lost.forget.remote()  # if it is still alive
        return spare

    def drop(self, node: str) -> None:
        """It does not come back."""
        self._actors.pop(node, None)

    def close(self) -> list[Any]:
        """All handles, which are forgotten."""
        actors, self._actors = list(self._actors.values()), {}
        return actors
