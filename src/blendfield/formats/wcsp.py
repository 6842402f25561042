"""Weighted constraint networks, `.wcsp`. A table lists the tuples that do not have its default cost."""

from __future__ import annotations

from typing import Any

import numpy as np

from blendfield.formats.compressed import Path
from blendfield.formats.costs import NUM_PARAMETERS, CostModel, arithmetic, sparse_table
from blendfield.formats.factors import Model
from blendfield.formats.numbers import FloatArray, Numbers


def read_wcsp(path: Path, edges: Any = "hasse") -> Model:
    """(graph, potentials) of a `.wcsp` file: scores are minus the costs, and costs from the upper bound on are -inf.

    Regions, axes and constants as in `read_uai`. Tables, shared tables and the arithmetic functions of two variables
    are read; other functions in words are a FileFormatError.
    """
    return _Reader(path).read(edges)


class _Reader:
    def __init__(self, path: Path) -> None:
        self.numbers = Numbers(path, words=True)
        self.numbers.keyword("the name of the problem")
        self.numbers.parse()
        self.shared: list[FloatArray] = []
        """Tables that later functions refer to"""

    def read(self, edges: Any) -> Model:
        numbers = self.numbers
        count = numbers.integer("the number of variables")
        numbers.integer("the largest number of labels", least=-(2**31))
        num_functions = numbers.integer("the number of cost functions")
        top = float(numbers.reals(1, "the upper bound on the cost")[0])
        first = numbers.position
        sizes = numbers.integers(count, "a number of labels", least=-(2**31) + 1)
        numbers.check(sizes.astype(np.float64), sizes != 0, first, "a number of labels")
        numbers.need(num_functions, "the cost functions")
        # A negative number is an interval of so many labels.
        self.model = CostModel(numbers.path, np.abs(sizes), top)
        for _ in range(num_functions):
            self.function()
        numbers.end()
        return self.model.finish(edges)

    def function(self) -> None:
        numbers, first = self.numbers, self.numbers.position
        order = numbers.integer("the number of variables of a cost function", least=-32, most=32)
        start = numbers.position
        variables = numbers.short_row(abs(order), "a variable", most=len(self.model.cardinalities) - 1)
        if len(set(variables)) < len(variables):
            numbers.fail(start, "different variables in a scope")
        word = numbers.words.get(numbers.position + 1)
        shape = self.model.shape(variables, lambda: numbers.line(first))
        if word is not None and numbers.position < len(numbers.values) and numbers.values[numbers.position] == -1:
            self.model.add(variables, self.in_words(word, shape))
            return
        table = self.table(shape)
        if order < 0:
            self.shared.append(table)
        self.model.add(variables, table)

    def table(self, shape: tuple[int, ...]) -> FloatArray:
        numbers = self.numbers
        default = float(numbers.reals(1, "a default cost >= 0", least=0)[0])
        count = numbers.integer("the number of tuples", least=-(2**31))
        if count < 0:
            if -count > len(self.shared):
                numbers.fail(numbers.position - 1, f"one of the {len(self.shared)} shared tables so far")
            table = self.shared[-count - 1]
            if table.shape != shape:
                numbers.fail(numbers.position - 1, f"a shared table of shape {shape}, not {table.shape}")
            return table
        first, width = numbers.position, len(shape) + 1
        tuples = numbers.reals(count * width, f"the labels and the cost of {count} tuples", least=0)
        return sparse_table(tuples.reshape(count, width), shape, default, lambda k, what: numbers.fail(first + k, what))

    def in_words(self, word: bytes, shape: tuple[int, ...]) -> FloatArray:
        numbers, name = self.numbers, word.decode("ascii", "replace")
        wanted = NUM_PARAMETERS.get(name)
        if wanted is None:
            numbers.fail(numbers.position + 1, f"a table or one of {', '.join(NUM_PARAMETERS)} (no other function)")
        if len(shape) != 2:
            numbers.fail(numbers.position + 1, f"two variables for this function, not {len(shape)}")
        numbers.position += 2
        parameters = numbers.reals(wanted, f"{wanted} parameters of {name}")
        return arithmetic(name, parameters.tolist(), shape, self.model.top)
