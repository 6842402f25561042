"""Cost function networks, `.cfn`: JSON in spirit, with names for variables and labels, and decimal costs."""

from __future__ import annotations

import math
import re
from typing import Any, NoReturn

import numpy as np

from blendfield.formats.brackets import Group, Source, as_number
from blendfield.formats.compressed import Path, read_text
from blendfield.formats.costs import NUM_PARAMETERS, CostModel, arithmetic, sparse_table
from blendfield.formats.factors import Model
from blendfield.formats.numbers import FloatArray
from blendfield.graph.parsing import MAX_ORDER

_COMMENT = re.compile(rb"^#[^\n]*", re.MULTILINE)
_STARTS_NUMBER = b"0123456789+-."


def read_cfn(path: Path, edges: Any = "hasse") -> Model:
    """(graph, potentials) of a `.cfn` file: scores are minus the costs, plus where the file maximises.

    Costs that reach the bound of `mustbe` are -inf. Costs count as written: `mustbe` may state fewer digits. Regions,
    axes and constants as in `read_uai`. Tables, dense or with `defaultcost`, tables by another function's name and the
    arithmetic functions of two variables are read; any other `type` is a FileFormatError.
    """
    text = _COMMENT.sub(lambda comment: b" " * len(comment.group()), read_text(path))
    return _Reader(path, text).read(edges)


class _Reader:
    def __init__(self, path: Path, text: bytes) -> None:
        self.path = path
        self.source = Source(path, text)
        self.top = math.inf
        self.sign = 1.0
        self.names: dict[bytes, int] = {}
        self.labels: list[dict[bytes, int]] = []
        """By variable: its labels that have names"""
        self.tables: dict[bytes, tuple[tuple[int, ...], FloatArray]] = {}
        self.waiting: list[tuple[Group, bytes, list[int]]] = []
        """Functions that use the table of another, found later: (where, its name, scope)"""

    def read(self, edges: Any) -> Model:
        everything = self.source.parse()
        parts = []
        for tag in ("problem", "variables", "functions"):
            everything.skip(tag.encode())
            parts.append(everything.group(f"{tag} and a bracket"))
        everything.end()
        self.problem(parts[0])
        self.model = CostModel(self.path, np.array(self.variables(parts[1]), np.int64), self.top)
        self.functions(parts[2])
        for where, name, scope in self.waiting:
            if name not in self.tables:
                where.fail("the costs of a function that has its own")
            shape, table = self.tables[name]
            if shape != self.shape(scope, where):
                where.fail(f"a function with costs of shape {self.shape(scope, where)}, not {shape}")
            self.model.add(scope, table)
        return self.model.finish(edges)

    def problem(self, group: Group) -> None:
        """name: ..., mustbe: <bound or >bound. The bound is the last word."""
        bound = b""
        while group.left:
            bound = group.word("a name and a bound such as <10.0")
        if bound[:1] in (b"<", b">"):
            self.sign = 1.0 if bound[:1] == b"<" else -1.0
            self.top = self.sign * as_number(bound[1:])
            if not math.isfinite(self.top):
                group.fail("a bound such as <10.0", -1)

    def variables(self, group: Group) -> list[int]:
        """The number of labels of each."""
        sizes: list[int] = []
        while group.left:
            item = group.peek()
            if isinstance(item, bytes) and item[:1] not in _STARTS_NUMBER:
                if item in self.names:
                    group.fail("a new name for every variable")
                self.names[item] = len(sizes)
                group.word("a name")
            sizes.append(self.domain(group))
        return sizes

    def domain(self, group: Group) -> int:
        """A list of labels, or their number; a negative number is an interval."""
        if isinstance(group.peek(), bytes):
            size = abs(group.number("a number of labels or a bracket"))
            if not 1 <= size < 2**31 or size != int(size):
                group.fail("a number of labels", -1)
            self.labels.append({})
            return int(size)
        inner = group.group("a number of labels or a bracket")
        labels: dict[bytes, int] = {}
        while inner.left:
            label = inner.word("a label")
            if label in labels:
                inner.fail("different labels", -1)
            labels[label] = len(labels)
        if not labels:
            inner.fail("a label")
        self.labels.append(labels)
        return len(labels)

    def functions(self, group: Group) -> None:
        while group.left:
            name = group.word("a name") if isinstance(group.peek(), bytes) else b""
            if name in self.tables:
                group.fail("a new name for every function", -1)
            self.function(name, group.group("a function in brackets"))

    def function(self, name: bytes, group: Group) -> None:
        group.skip(b"scope")
        scope = self.scope(group.group("the scope in brackets"))
        if group.skip(b"type"):
            self.model.add(scope, self.in_words(group, scope))
            return
        default = None
        if group.skip(b"defaultcost") or (isinstance(item := group.peek(), bytes) and item[:1] in _STARTS_NUMBER):
            default = self.sign * group.number("a default cost")
        group.skip(b"costs")
        if isinstance(group.peek(), bytes):
            self.waiting.append((group, group.word("costs"), scope))
        else:
            table = self.table(group.group("costs in brackets"), scope, default)
            self.tables[name] = (table.shape, table)
            self.model.add(scope, table)
        group.end()

    def scope(self, group: Group) -> list[int]:
        scope: list[int] = []
        while group.left:
            word = group.word("a variable")
            place = self.names.get(word, as_number(word) if word[:1] in _STARTS_NUMBER else math.nan)
            if not 0 <= place < len(self.labels) or place != int(place):
                group.fail("a variable", -1)
            if int(place) in scope:
                group.fail("different variables in a scope", -1)
            scope.append(int(place))
            if len(scope) > MAX_ORDER:
                group.fail(f"at most {MAX_ORDER} variables in a scope", -1)
        return scope

    def shape(self, scope: list[int], where: Group) -> tuple[int, ...]:
        return self.model.shape(scope, lambda: self.source.line(where.start))

    def table(self, group: Group, scope: list[int], default: float | None) -> FloatArray:
        """Dense, the last variable fastest; with a default cost, rows of labels and a cost."""

        def fail(field: int, expected: str) -> NoReturn:
            group.fail(expected, field)

        values = group.numbers("a cost")
        if default is None:
            size = math.prod(self.model.cardinalities[scope].tolist())
            if len(values) != size:
                fail(min(size, len(values)), f"{size} costs")
            if not np.isfinite(values).all():
                fail(int(np.isfinite(values).argmin()), "a cost")
            return self.sign * values.reshape(self.shape(scope, group))
        shape = self.shape(scope, group)
        width = len(scope) + 1
        if len(values) % width:
            fail(len(values), f"rows of {len(scope)} labels and a cost")
        rows = values.reshape(-1, width)
        for axis, variable in enumerate(scope):
            for row in np.flatnonzero(np.isnan(rows[:, axis])).tolist():
                word = group.items[row * width + axis]
                assert isinstance(word, bytes)
                label = self.labels[variable].get(word)
                if label is None:
                    fail(row * width + axis, "a label of the variable")
                rows[row, axis] = label
        rows[:, -1] *= self.sign
        return sparse_table(rows, shape, default, fail)

    def in_words(self, group: Group, scope: list[int]) -> FloatArray:
        name = group.word("the type of a function").decode("ascii", "replace")
        wanted = NUM_PARAMETERS.get(name)
        if wanted is None or len(scope) != 2 or self.sign < 0:
            group.fail(f"a table, or one of {', '.join(NUM_PARAMETERS)} over two variables (no other function)", -1)
        group.skip(b"params")
        inner = group.group("parameters in brackets")
        parameters = inner.numbers("a parameter")
        if len(parameters) != wanted or not np.isfinite(parameters).all():
            inner.fail(f"{wanted} parameters of {name}")
        group.end()
        return arithmetic(name, parameters.tolist(), self.shape(scope, group), self.top)
