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
SETTINGS_OF_RAY = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_core_worker_internal_heartbeat_ms": "100",
    "RAY_timeout_ms_task_wait_for_death_info": "100",
}
"""nobody is told that it runs; and who waits for a worker that has died is told after a tenth of a second: after one or
two, by default. They hold for this process and for the clusters that it starts, unless they are set already.
"""
SETTINGS = b"\x04"
GREETING = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0" + SETTINGS + bytes(5)
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
    spare: bool = False
    """keep a process ready on every machine, which takes the place of a worker that dies (see `engines.spares`)"""


def connect(cluster: Cluster) -> Any:
    """The module `ray`, connected; EngineError in one line."""
    for name, value in SETTINGS_OF_RAY.items():
        os.environ.setdefault(name, value)
    ray = needed("ray", "ray", "engine 'ray'")
    if ray.is_initialized():
        return ray
    quiet = {"log_to_driver": False, "logging_level": "ERROR"}
    address = _found() if cluster.address == "auto" else cluster.address
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


def _found() -> str:
    """Where the cluster is that Ray means by "auto"; "auto" where Ray does not tell."""
    try:
        from ray._private.services import get_ray_address_from_environment
    except ImportError:  # not a public name
        return "auto"
    try:
        return str(get_ray_address_from_environment("auto", None))
    except ConnectionError as fault:
        raise EngineError(f"engine 'ray': {_reason('auto', fault)}") from fault


def _require_answer(address: str) -> None:
    """EngineError unless a server of Ray's kind answers soon: Ray itself would wait for minutes.

    It is greeted as HTTP/2 is, on which gRPC stands: whoever speaks it sends its settings at once (frames of type 4).
    """
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not host or not port.isdigit():
        known = "'auto', 'local', 'host:port' or 'ray://host:port'"
        raise EngineError(f"engine_address must be {known}; got {address!r:.80}")
    try:
        with socket.create_connection((host.strip("[]"), int(port)), PATIENCE) as server:
            if os.environ.get("RAY_USE_TLS", "0").lower() in ("1", "true"):
                return
            server.sendall(GREETING)
            answer = server.recv(9)
    except TimeoutError:
        raise EngineError(f"engine 'ray': {address} does not answer within {PATIENCE:g} s") from None
    except (OSError, OverflowError) as fault:
        raise EngineError(f"engine 'ray': nothing answers at {address} ({fault})") from fault
    if answer[3:4] != SETTINGS:
        raise EngineError(f"engine 'ray': what answers at {address} is no Ray cluster")


def _reason(address: str, fault: Exception) -> str:
    if address == "auto" and isinstance(fault, ConnectionError):
        return (
            "no cluster is running here: start one with `ray start --head`, name one (engine_address='host:port'), or "
            "use this machine alone (engine_address='local')"
        )
    text = " ".join(str(fault).split())
    if "AuthToken" in f"{fault} {fault.__cause__}":
        return f"the cluster at {address} asks for a token of Ray's (RAY_AUTH_MODE), which is not there or another one"
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
