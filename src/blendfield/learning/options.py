"""The options of `BlendedLearner`, checked before any work."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from blendfield.backends.protocol import DataType
from blendfield.engines.cluster import Cluster
from blendfield.errors import OptionError
from blendfield.inference.options import check_choice, check_data_type, check_integer, check_number


@dataclass(frozen=True)
class LearnerOptions:
    """All valid."""

    epsilon: float
    tolerance: float
    max_iterations: int
    time_limit: float | None
    threads: int | None
    dtype: DataType
    backend: str
    sweeps: int
    soft_marginalisation: float
    restart_messages: bool
    memory: int
    certificate_every: int | None
    validation_every: int
    patience: int
    verbose: bool
    parts: int | None
    memory_limit: int | None
    engine: str
    cluster: Cluster


@dataclass(frozen=True)
class CheckpointOptions:
    """Where and how often."""

    path: str | os.PathLike[str]
    every: int
    seconds: float


def check_checkpoint_options(path: Any, every: Any, seconds: Any, resume: Any) -> CheckpointOptions | None:
    """Of `fit`; None without a checkpoint."""
    if not isinstance(resume, bool):
        raise OptionError(f"resume must be True or False; got {resume!r:.60}")
    every = check_integer("checkpoint_every", every, 1)
    seconds = check_number("checkpoint_seconds", seconds, "seconds >= 0")
    if path is None:
        if resume:
            raise OptionError("resume needs the path of a checkpoint: fit(..., checkpoint=path, resume=True)")
        return None
    if not isinstance(path, (str, os.PathLike)):
        raise OptionError(f"checkpoint must be None or a path; got {path!r:.60}")
    folder = os.path.dirname(os.path.abspath(os.fspath(path)))
    if not os.path.isdir(folder):
        raise OptionError(f"checkpoint: the folder {folder} does not exist")
    return CheckpointOptions(path, every, seconds)


def check_learner_options(learner: Any) -> LearnerOptions:
    """Raise OptionError for the first option that makes no sense."""
    epsilon = check_number("epsilon", learner.epsilon, "a temperature >= 0")
    if epsilon != 0 and not 1e-100 <= epsilon <= 1e100:
        raise OptionError(f"epsilon must be 0 or between 1e-100 and 1e100; got {epsilon}")
    for name in ("C", "l1"):
        value = getattr(learner, name)
        for key, number in value.items() if isinstance(value, Mapping) else [(None, value)]:
            check_number(name if key is None else f"{name}[{key!r}]", number, "a number >= 0")
    soft = check_number("soft_marginalisation", learner.soft_marginalisation, "a number >= 0")
    if soft > 0 and epsilon == 0:
        raise OptionError("soft_marginalisation needs epsilon > 0: at 0 the objective has kinks in the messages")
    signs = learner.sign.values() if isinstance(learner.sign, Mapping) else [learner.sign]
    for sign in signs:
        if sign not in (None, ">=0", "<=0"):
            raise OptionError(f"sign must be None, '>=0' or '<=0', or a mapping {{block: sign}}; got {sign!r:.60}")
    if learner.callback is not None and not callable(learner.callback):
        raise OptionError(f"callback must be None or a function of one argument; got {learner.callback!r:.60}")
    for name in ("restart_messages", "verbose", "engine_spare"):
        if not isinstance(getattr(learner, name), bool):
            raise OptionError(f"{name} must be True or False; got {getattr(learner, name)!r:.60}")
    if learner.acceleration not in (None, "anderson"):
        raise OptionError(f"acceleration must be None or 'anderson'; got {learner.acceleration!r:.60}")
    if not isinstance(learner.backend, str):
        raise OptionError(f"backend must be a name such as 'auto', 'reference' or 'cpu'; got {learner.backend!r:.60}")
    if learner.random_state is not None:
        check_integer("random_state", learner.random_state, 0, "None or ")
    time_limit, every = learner.time_limit, learner.certificate_every
    memory = check_integer("memory", learner.memory, 2)
    return LearnerOptions(
        epsilon=epsilon,
        tolerance=check_number("tolerance", learner.tolerance, "a number >= 0"),
        max_iterations=check_integer("max_iterations", learner.max_iterations, 0),
        time_limit=None if time_limit is None else check_number("time_limit", time_limit, "None or seconds >= 0", True),
        threads=None if learner.threads is None else check_integer("threads", learner.threads, 1),
        dtype=check_data_type(learner.dtype),
        backend=learner.backend,
        sweeps=check_integer("sweeps", learner.sweeps, 1),
        soft_marginalisation=soft,
        restart_messages=learner.restart_messages,
        memory=0 if learner.acceleration is None or learner.restart_messages else memory,
        certificate_every=None
        if isinstance(every, str) and check_choice("certificate_every", every, ("auto",))
        else check_integer("certificate_every", every, 1, "'auto' or "),
        validation_every=check_integer("validation_every", learner.validation_every, 1),
        patience=check_integer("patience", learner.patience, 1),
        verbose=learner.verbose,
        parts=_check_parts(learner, soft),
        memory_limit=_memory_limit(learner),
        engine=check_choice("engine", learner.engine, ("local", "ray")),
        cluster=_check_cluster(learner),
    )


def _check_parts(learner: Any, soft: float) -> int | None:
    if learner.parts is None:
        return None
    if soft > 0:
        raise OptionError("soft_marginalisation and parts cannot be had together")
    return check_integer("parts", learner.parts, 1, "None or ")


def _check_cluster(learner: Any) -> Cluster:
    address, workers, threads = learner.engine_address, learner.engine_workers, learner.threads
    if not isinstance(address, str) or not address:
        raise OptionError(f"engine_address must be 'auto', 'local' or 'host:port'; got {address!r:.60}")
    return Cluster(
        address=address,
        workers=None if workers is None else check_integer("engine_workers", workers, 1, "None or "),
        timeout=check_number("engine_timeout", learner.engine_timeout, "seconds > 0") or 600.0,
        threads=None if threads is None else check_integer("threads", threads, 1),
        memory_limit=_memory_limit(learner),
        spare=learner.engine_spare,
    )


def _memory_limit(learner: Any) -> int | None:
    return None if learner.memory_limit is None else check_integer("memory_limit", learner.memory_limit, 1, "None or ")
