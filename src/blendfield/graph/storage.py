"""Region graphs in .npz files."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import numpy as np

from blendfield.errors import BlendfieldError, FileFormatError
from blendfield.files import written_atomically

if TYPE_CHECKING:
    from blendfield.graph.region_graph import RegionGraph

_KIND = "blendfield.RegionGraph"
_VERSION = 1


def save(path: str | os.PathLike[str], graph: RegionGraph) -> None:
    """Writes the graph; readers never see half a file."""
    with written_atomically(path) as file:
        np.savez(
            file,
            kind=np.array(_KIND),
            version=np.array(_VERSION),
            cardinalities=graph.cardinalities,
            region_offsets=graph.region_offsets,
            region_variables=graph.region_variables,
            edges=np.stack([graph.edge_parents, graph.edge_children], axis=1),
            num_given=np.array(graph.num_given),
        )


def load(path: str | os.PathLike[str]) -> RegionGraph:
    """Reads a graph and checks it like any other input: a damaged file must not become a damaged graph."""
    from blendfield.graph.ragged import Ragged
    from blendfield.graph.region_graph import RegionGraph

    arrays = _read(path)
    offsets, num_given = arrays["region_offsets"], arrays["num_given"]
    variables = arrays["region_variables"]
    rises = offsets.ndim == 1 and len(offsets) and offsets[0] == 0 and bool((np.diff(offsets) > 0).all())
    if not rises or variables.ndim != 1 or offsets[-1] != len(variables):
        raise FileFormatError(f"{path}: region_offsets do not fit region_variables")
    if num_given.ndim or not 0 <= num_given < len(offsets):
        raise FileFormatError(f"{path}: expected num_given between 0 and {len(offsets) - 1}, got {num_given}")
    try:
        graph = RegionGraph(
            arrays["cardinalities"],
            Ragged(offsets.astype(np.int64), variables.astype(np.int32)),
            arrays["edges"],
        )
    except BlendfieldError as fault:
        raise FileFormatError(f"{path}: not a valid region graph: {fault}") from fault
    if graph.num_regions != len(offsets) - 1:
        raise FileFormatError(f"{path}: single-variable regions are missing")
    graph.num_given = int(num_given)
    return graph


def _read(path: str | os.PathLike[str]) -> dict[str, Any]:
    expected = ("kind", "version", "cardinalities", "region_offsets", "region_variables", "edges", "num_given")
    with open(path, "rb") as file:  # a missing or unreadable file stays an OSError
        try:
            with np.load(file, allow_pickle=False) as archive:
                arrays = {name: archive[name] for name in expected}
        except Exception as fault:
            raise FileFormatError(f"{path}: not a region graph written by RegionGraph.save, or damaged") from fault
    if str(arrays["kind"]) != _KIND:
        raise FileFormatError(f"{path}: expected a {_KIND}, got {str(arrays['kind'])!r:.60}")
    if arrays["version"].ndim or arrays["version"].dtype.kind not in "iu" or arrays["version"] != _VERSION:
        raise FileFormatError(f"{path}: expected version {_VERSION}, got {str(arrays['version'])!r:.60}")
    for name in expected[2:]:
        if arrays[name].dtype.kind not in "iu":
            raise FileFormatError(f"{path}: expected integers in {name}, got {arrays[name].dtype}")
    return arrays
