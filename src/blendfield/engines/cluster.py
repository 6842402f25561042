"""Finding a Ray cluster: everything that can be wrong with it becomes one line."""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass
from importlib import metadata
from typing import Any

from blendfield.errors import EngineError
from blendfield.extras import needed

PATIENCE = 5.0
"""seconds to wait for an answer from an address"""
STORE_BYTES = 256 << 20
"""of the object store of a cluster that is started here; larger things are written to disk by Ray"""


@dataclass(frozen=True)
class Cluster:
    """Where workers are wanted."""

    address: str = "auto"
    """"auto": the cluster of this machine, as `ray start` or RAY_ADDRESS set it up; "local": one that is started on
    this machine and ends with the process; "host:port" or "ray://host:port": that one
    """
    workers: int | None = None
    """None: one per machine"""
    timeout: float = 600.0
    """seconds after which a silent worker is taken for hung"""
    threads: int | None = None
    """of each worker; None: all of its machine, shared by the workers there"""
    memory_limit: int | None = None
    """bytes that the chunks of each worker may take; the rest is read again and again; None: all are kept"""


def connect(cluster: Cluster) -> Any:
    """The module `ray`, connected; EngineError in one line."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nobody is told that it runs
    ray = needed("ray", "ray", "engine 'ray'")
    if ray.is_initialized():
        return ray
    quiet = {"log_to_driver": False, "logging_level": "ERROR"}
    address = cluster.address
    if address not in ("auto", "local"):
        _require_answer(address)
    try:
        if address == "local":
            cpus = max(os.cpu_count() or 1, (cluster.workers or 1) * (cluster.threads or 1))
            ray.init(
                address="local",
                num_cpus=cpus,
                include_dashboard=False,
                object_store_memory=STORE_BYTES,
                **quiet,
            )
        else:
            ray.init(address=address, **quiet)
    except (ConnectionError, RuntimeError, ValueError, OSError) as fault:
        raise EngineError(f"engine 'ray': {_reason(address, fault)}") from fault
    return ray


def _require_answer(address: str) -> None:
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not host or not port.isdigit():
        known = "'auto', 'local', 'host:port' or 'ray://host:port'"
        raise EngineError(f"engine_address must be {known}; got {address!r:.80}")
    try:
        socket.create_connection((host, int(port)), PATIENCE).close()
    except (OSError, OverflowError) as fault:
        raise EngineError(f"engine 'ray': nothing answers at {address} ({fault})") from fault


def _reason(address: str, fault: Exception) -> str:
    if address == "auto" and isinstance(fault, ConnectionError):
        return (
            "no cluster is running here: start one with `ray start --head`, name one (engine_address='host:port'), or "
            "use this machine alone (engine_address='local')"
        )
    text = " ".join(str(fault).split())
    if "ersion mismatch" in text:
        return f"the cluster at {address} runs other versions of Ray or Python: {text:.200}"
    return f"cannot use the cluster at {address}: {text:.200}"


def check_version(hello: dict[str, Any], node: str) -> None:
    """EngineError where a worker's blendfield is another one."""
    own = metadata.version("blendfield")
    if hello["version"] != own:
        raise EngineError(
            f"engine 'ray': the worker on {node} has blendfield {hello['version']}, here is {own}; install the same "
            "version"
        )


def reason_of_failure(fault: BaseException) -> str:
    """Ray's message, which fills a page, as one line."""
    if isinstance(fault, ImportError) or "ModuleNotFoundError" in str(fault) or "No module named" in str(fault):
        return "blendfield is not installed there, or another version of it"
    text = " ".join(str(fault).split())
    return f"{type(fault).__name__}: {text:.160}"
