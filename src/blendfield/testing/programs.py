"""From a region graph to a `Program`, as directly as possible."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from blendfield.backends.protocol import Program
from blendfield.graph import RegionGraph
from blendfield.graph.counting_numbers import counting_numbers
from blendfield.graph.relinking import relink
from blendfield.graph.schedule import colour_classes, components, forest_classes


def build_program(graph: RegionGraph, spec: str | npt.ArrayLike = "ones", *, two_pass: bool = False) -> Program:
    """The program of `graph` with counting numbers `spec`; `two_pass`: up and down the trees, for forests only."""
    numbers = counting_numbers(graph, spec if isinstance(spec, str) else np.asarray(spec, dtype=np.float64))
    parents, children = relink(graph, numbers)
    if two_pass:
        classes = forest_classes(graph, parents, children)
        if classes is None:
            raise ValueError("two_pass needs a forest; the relinked graph has a cycle")
    else:
        classes = colour_classes(graph, parents, children)
    depth = int(classes.max(initial=-1)) + 1
    schedule = [*range(depth), *range(depth - 2, -1, -1)] if two_pass else [*range(depth)]
    segment, count = components(graph, parents, children)
    return Program(graph, numbers, parents, children, classes, np.array(schedule, dtype=np.int32), segment, int(count))
