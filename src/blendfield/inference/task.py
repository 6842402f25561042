"""What one call of `infer` asks for: its arguments, checked and brought into one form, models side by side."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any, TypeVar, cast

import numpy as np

from blendfield import backends
from blendfield.backends.protocol import Backend, RealArray
from blendfield.errors import BlendfieldError, CountingNumberError, GraphError, NotEnoughMemoryError, PotentialError
from blendfield.graph import RegionGraph
from blendfield.inference import memory
from blendfield.inference.evidence import check_evidence, clamp
from blendfield.inference.messages import Messages
from blendfield.inference.options import Options
from blendfield.inference.result import Result
from blendfield.model.potentials import flatten_potentials

T = TypeVar("T")


class Task:
    """N models and what is to be done with them."""

    def __init__(
        self,
        graph: Any,
        potentials: Any,
        counting_numbers: Any,
        evidence: Any,
        initial: Any,
        options: Options,
        started: float,
    ) -> None:
        """`started`: time.perf_counter() when the call began."""
        self.options = options
        self.started = started
        if options.backend != "auto":
            backends.get(options.backend)  # errors come before any work
        self.single = isinstance(graph, RegionGraph)
        """one model, not a list: errors need not name the model"""
        self.graphs = _graphs(graph)
        count = len(self.graphs)
        self._potentials = [potentials] if self.single else _model_potentials(potentials, count)
        evidences = _spread(evidence, count, self.single, "evidence")
        self.evidence = [self.named(k, check_evidence, self.graphs[k], evidences[k]) for k in range(count)]
        initials = _spread(initial, count, self.single, "initial")
        self.initial = [self.named(k, _check_initial, self.graphs[k], initials[k]) for k in range(count)]
        """None, Messages or a Result for each model"""
        self.counting_numbers = _spread_numbers(counting_numbers, count, self.single)
        """a specification for each model; "auto": the method's own"""

    @cached_property
    def backend(self) -> Backend:
        """What passes messages."""
        entries = sum(int(graph.table_offsets[-1]) for graph in self.graphs)
        return backends.get(backends.choose(self.options.backend, entries))

    def named(self, model: int, check: Callable[..., T], *arguments: Any) -> T:
        """check(*arguments); of many models, an error says which it is about."""
        try:
            return check(*arguments)
        except BlendfieldError as error:
            if self.single:
                raise
            raise type(error)(f"model {model}: {error}") from error

    def require_memory(self, estimate: int, what: str) -> None:
        """NotEnoughMemoryError when `estimate` bytes are more than there are, or than the option allows."""
        try:
            memory.require(estimate, what, self.options.memory_limit)
        except NotEnoughMemoryError as error:
            raise NotEnoughMemoryError(f"{error}; {self._largest_table()}") from None

    def _largest_table(self) -> str:
        graph = max(self.graphs, key=lambda graph: int(graph.table_sizes.max(initial=0)))
        region = int(graph.table_sizes.argmax())
        return f"the largest table, of region {region}, has {graph.table_sizes[region]} entries"

    def flat_bytes(self) -> int:
        """Bytes that `take_tables` will allocate."""
        dtype = np.dtype(self.options.dtype)
        given = self._potentials[0]
        if self.single and isinstance(given, np.ndarray) and given.dtype == dtype and given.ndim == 1:
            return 0
        return sum(int(graph.table_offsets[-1]) for graph in self.graphs) * dtype.itemsize

    def take_tables(self) -> RealArray:
        """float [table layout of the union]: the potentials of all models, evidence clamped. To be called once: what
        the caller gave is let go.
        """
        self.require_memory(self.flat_bytes(), "the potentials")
        parts = []
        for k, (graph, observed) in enumerate(zip(self.graphs, self.evidence, strict=True)):
            given, self._potentials[k] = self._potentials[k], None
            flat = self.named(k, flatten_potentials, graph, given, self.options.dtype)
            if observed:
                if isinstance(given, np.ndarray) and np.shares_memory(flat, given):
                    flat = flat.copy()
                clamp(graph, flat, observed)
            parts.append(flat)
        if self.single:
            return parts[0]
        return cast(RealArray, np.concatenate(parts))


def _graphs(graph: Any) -> list[RegionGraph]:
    if isinstance(graph, RegionGraph):
        return [graph]
    if isinstance(graph, (list, tuple)):
        for k, item in enumerate(graph):
            if not isinstance(item, RegionGraph):
                raise GraphError(f"model {k}: expected a RegionGraph; got {type(item).__name__}")
        return list(graph)
    raise GraphError(f"expected a RegionGraph or a list of them; got {type(graph).__name__}")


def _model_potentials(potentials: Any, count: int) -> list[Any]:
    if not isinstance(potentials, (list, tuple)) or len(potentials) != count:
        got = f"length {len(potentials)}" if isinstance(potentials, (list, tuple)) else type(potentials).__name__
        raise PotentialError(f"with a list of {count} graphs, potentials must be a list of length {count}; got {got}")
    return list(potentials)


def _spread(value: Any, count: int, single: bool, name: str) -> list[Any]:
    """One entry per model: of the list given, or the same for all."""
    if single:
        return [value]
    if not isinstance(value, (list, tuple)):
        return [value] * count
    if len(value) != count:
        raise PotentialError(f"{name}: a list must have one entry for each of the {count} models; got {len(value)}")
    return list(value)


def _spread_numbers(spec: Any, count: int, single: bool) -> list[Any]:
    """Counting numbers per model: a list of names and arrays, or one of either for all."""
    if single:
        return [spec]
    if isinstance(spec, (list, tuple)) and all(isinstance(item, (str, list, tuple, np.ndarray)) for item in spec):
        if len(spec) != count:
            raise CountingNumberError(
                f"a list of counting numbers must have one entry for each of the {count} models; got {len(spec)}"
            )
        return list(spec)
    return [spec] * count


def _check_initial(graph: RegionGraph, initial: Any) -> Messages | Result | None:
    """`initial` of one model: it must belong to a graph with the same variables and regions."""
    if initial is None:
        return None
    if not isinstance(initial, (Messages, Result)):
        raise PotentialError(f"initial must be None, Messages or a Result; got {type(initial).__name__}")
    theirs = initial.graph
    if theirs is not graph and not (
        np.array_equal(theirs.cardinalities, graph.cardinalities)
        and np.array_equal(theirs.region_offsets, graph.region_offsets)
        and np.array_equal(theirs.region_variables, graph.region_variables)
    ):
        raise PotentialError("initial: the messages belong to a graph with other variables or regions")
    if isinstance(initial, Messages) and not np.isfinite(initial.values).all():
        raise PotentialError("initial: messages must be finite")
    return initial
