"""Structures with features and labels in files: CRFsuite's text for sequences, and `.npz` for chains, grids and graphs.

What is read fits the classifiers of `blendfield.estimators`.
"""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from blendfield.errors import FileFormatError, nearest
from blendfield.formats.compressed import Path
from blendfield.formats.crfsuite import parse_crfsuite
from blendfield.formats.models import suffix

Array = npt.NDArray[Any]

SIZES = {"lengths": "chain", "shapes": "grid", "nodes": "graph"}
"""the key that says how many nodes each structure has, and what it makes of them"""
SPARSE = ("features_data", "features_indices", "features_indptr", "features_shape")
OTHERS = ("features", *SPARSE, "labels", "weights", "edges", "edge_counts", "edge_features")


@dataclass(frozen=True)
class Structures:
    """n structures with N nodes in all."""

    kind: str
    """chain, grid or graph"""
    X: list[Any]
    """as the classifier of that kind takes them"""
    y: list[Array] | None
    """labels of every node, in the shape of the structure"""
    weights: Array | None = None
    """float [n]: how much each structure counts"""
    names: list[str] | None = None
    """of the features, where the file has names"""


def read_structures(
    path: Path, format: str | None = None, names: Sequence[str] | None = None, min_frequency: int = 1
) -> Structures:
    """A `.npz` file, or CRFsuite's text (any other name; .gz and .xz are unpacked).

    format: "npz" or "crfsuite", where the name does not say it. names, min_frequency: of CRFsuite's attributes, see
    `crfsuite.parse_crfsuite`.
    """
    if (format or ("npz" if suffix(path) == "npz" else "crfsuite")) == "npz":
        return read_npz(path)
    sequences = parse_crfsuite(path, names, min_frequency)
    return Structures("chain", list(sequences.features), [np.array(y) for y in sequences.labels], names=sequences.names)


def read_npz(path: Path) -> Structures:
    """Arrays without pickles; which, is said in docs/command-line.md. FileFormatError names the key."""
    arrays = _arrays(path)

    def fail(key: str, expected: str) -> FileFormatError:
        found = f"{arrays[key].dtype} {arrays[key].shape}" if key in arrays else "no such key"
        return FileFormatError(f"{path}: key {key!r}: expected {expected}, got {found}")

    kinds = [key for key in SIZES if key in arrays]
    if len(kinds) != 1:
        raise FileFormatError(f"{path}: expected one of the keys {', '.join(SIZES)}; the keys are {', '.join(arrays)}")
    key = kinds[0]
    sizes = arrays[key]
    axes = 2 if key == "shapes" else 1
    if sizes.ndim != axes or sizes.dtype.kind not in "iu" or (axes == 2 and sizes.shape[1] != 2) or (sizes < 1).any():
        raise fail(key, f"integers [n{', 2' if axes == 2 else ''}] of at least 1")
    counts = sizes.astype(np.int64).reshape(len(sizes), -1).prod(axis=1)
    starts = np.concatenate([[0], np.cumsum(counts)])
    features = _features(path, arrays, fail)
    if features.shape[0] != starts[-1]:
        raise FileFormatError(f"{path}: {key} add up to {starts[-1]} nodes, but features have {features.shape[0]} rows")
    shapes = [tuple(np.atleast_1d(size).tolist()) for size in sizes]
    parts = [features[first:last] for first, last in zip(starts[:-1].tolist(), starts[1:].tolist(), strict=True)]
    X: list[Any] = parts
    if key == "shapes":
        X = [part.reshape(*shape, -1) for part, shape in zip(parts, shapes, strict=True)]
    elif key == "nodes":
        X = _with_edges(arrays, parts, fail)
    labels = weights = None
    if "labels" in arrays:
        if arrays["labels"].shape != (starts[-1],) or arrays["labels"].dtype.kind not in "iubUS":
            raise fail("labels", f"integers or strings [{starts[-1]}], one per node")
        labels = [
            part.reshape(shape) for part, shape in zip(np.split(arrays["labels"], starts[1:-1]), shapes, strict=True)
        ]
    if "weights" in arrays:
        weights = arrays["weights"]
        if weights.shape != (len(sizes),) or weights.dtype.kind not in "iuf" or not (weights > 0).all():
            raise fail("weights", f"numbers > 0 [{len(sizes)}], one per structure")
    return Structures(SIZES[key], X, labels, weights)


def _arrays(path: Path) -> dict[str, Array]:
    known = (*SIZES, *OTHERS)
    arrays: dict[str, Array] = {}
    key = ""
    try:
        archive = np.load(path, allow_pickle=False)
        if not isinstance(archive, np.lib.npyio.NpzFile):
            raise FileFormatError(f"{path}: expected an .npz file of several arrays, got a single array")
        with archive:
            for key in archive.files:
                if key not in known:
                    raise FileFormatError(f"{path}: key {key!r:.60} is unknown{nearest(key, known)}")
                arrays[key] = archive[key]
    except FileFormatError:
        raise
    except (ValueError, EOFError, zlib.error, zipfile.BadZipFile) as fault:
        what = f"key {key!r}: damaged, or no plain array" if key else "expected an .npz file"
        raise FileFormatError(f"{path}: {what} ({fault})") from fault
    return arrays


def _features(path: Path, arrays: dict[str, Array], fail: Any) -> Any:
    """float [N, F], dense or CSR."""
    if "features" in arrays:
        if arrays["features"].ndim != 2 or arrays["features"].dtype.kind not in "iufb":
            raise fail("features", "numbers [N, F]")
        return arrays["features"]
    for key in SPARSE:
        if key not in arrays:
            raise fail("features" if SPARSE[0] not in arrays else key, f"numbers [N, F], or {', '.join(SPARSE)}")
    from scipy.sparse import csr_array

    data, indices, indptr, shape = (arrays[key] for key in SPARSE)
    try:
        matrix = csr_array((data, indices, indptr), shape=tuple(shape.tolist()))
        matrix.check_format(full_check=True)
    except (ValueError, TypeError) as fault:
        raise FileFormatError(f"{path}: {', '.join(SPARSE)} are no matrix in rows ({fault})") from fault
    return matrix


def _with_edges(arrays: dict[str, Array], parts: list[Any], fail: Any) -> list[Any]:
    """(nodes, edges) or (nodes, edges, edge features) of every graph."""
    for key, what in (("edges", "integers [M, 2]"), ("edge_counts", f"integers [{len(parts)}], edges of every graph")):
        if key not in arrays or arrays[key].dtype.kind not in "iu":
            raise fail(key, what)
    edges, counts = arrays["edges"].astype(np.int64), arrays["edge_counts"].astype(np.int64)
    if counts.shape != (len(parts),) or (counts < 0).any():
        raise fail("edge_counts", f"integers [{len(parts)}], edges of every graph")
    if edges.ndim != 2 or edges.shape[1] != 2 or len(edges) != counts.sum():
        raise fail("edges", f"integers [{counts.sum()}, 2], as edge_counts say")
    columns: list[Any] = [parts, np.split(edges, np.cumsum(counts)[:-1])]
    if "edge_features" in arrays:
        features = arrays["edge_features"]
        if features.ndim != 2 or features.dtype.kind not in "iufb" or len(features) != len(edges):
            raise fail("edge_features", f"numbers [{len(edges)}, G]")
        columns.append(np.split(features, np.cumsum(counts)[:-1]))
    return list(zip(*columns, strict=True))
