"""Evidence: a variable is clamped by forbidding its other labels on its single-variable region."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from blendfield.backends.protocol import RealArray
from blendfield.errors import PotentialError
from blendfield.graph import RegionGraph


def check_evidence(graph: RegionGraph, evidence: Any) -> dict[int, int]:
    """`evidence` as {variable: label} with plain integers; None is no evidence."""
    if evidence is None:
        return {}
    if not isinstance(evidence, Mapping):
        raise PotentialError(f"evidence must be a mapping {{variable: label}}; got {type(evidence).__name__}")
    checked = {}
    for variable, label in evidence.items():
        if not _is_integer(variable):
            raise PotentialError(f"evidence: a variable must be an integer; got {variable!r}")
        if not 0 <= variable < graph.num_variables:
            raise PotentialError(
                f"evidence: variable {variable} is unknown; variables go from 0 to {graph.num_variables - 1}"
            )
        labels = int(graph.cardinalities[variable])
        if not _is_integer(label) or not 0 <= label < labels:
            raise PotentialError(
                f"evidence: the label of variable {variable} must be an integer from 0 to {labels - 1}; got {label!r}"
            )
        checked[int(variable)] = int(label)
    return checked


def clamp(graph: RegionGraph, flat: RealArray, evidence: dict[int, int]) -> None:
    """Forbid, in place in `flat` [table layout], all labels but the observed ones, which keep their potential."""
    for variable, label in evidence.items():
        region = graph.single_regions[variable]
        table = flat[graph.table_offsets[region] : graph.table_offsets[region + 1]]
        observed = table[label]
        table[:] = -np.inf
        table[label] = observed


def _is_integer(value: Any) -> bool:
    return isinstance(value, (int, np.integer)) and not isinstance(value, (bool, np.bool_))
