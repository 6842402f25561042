"""Digests of samples: which data a checkpoint belongs to."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields
from hashlib import blake2b
from typing import Any

import numpy as np
import numpy.typing as npt

from blendfield.graph import RegionGraph
from blendfield.model.losses import loss_table
from blendfield.model.sample import Sample

SIZE = 16
"""bytes"""


def digests(samples: Iterable[Sample]) -> npt.NDArray[np.uint8]:
    """uint8 [N, 16]: one digest per sample, of everything that training sees of it."""
    graphs: dict[int, tuple[RegionGraph, bytes]] = {}  # many samples have one graph
    rows = []
    for sample in samples:
        graph = sample.graph
        if id(graph) not in graphs:
            graphs[id(graph)] = graph, _graph_digest(graph)
        rows.append(_sample_digest(sample, graphs[id(graph)][1]))
    return np.frombuffer(b"".join(rows), dtype=np.uint8).reshape(-1, SIZE)


def _graph_digest(graph: RegionGraph) -> bytes:
    digest = blake2b(digest_size=SIZE)
    for array in (
        graph.cardinalities,
        graph.region_offsets,
        graph.region_variables,
        graph.edge_parents,
        graph.edge_children,
    ):
        _add(digest, array)
    return digest.digest()


def _sample_digest(sample: Sample, graph: bytes) -> bytes:
    digest = blake2b(graph, digest_size=SIZE)
    _add(digest, sample.weight)
    _add(digest, sample.labels)
    loss = sample.loss
    if loss is not None and not isinstance(loss, str) and sample.labels is not None:
        loss = loss_table(sample.graph, sample.labels, loss)
    _add(digest, loss)
    _add(digest, sample.fixed)
    for block in sample.blocks:
        _add(digest, f"{block.name} {block.shape}")
        for piece in block.pieces:
            for field in fields(piece):
                _add(digest, getattr(piece, field.name))
    return digest.digest()


def _add(digest: Any, value: Any) -> None:
    if hasattr(value, "tocsr"):
        for part in (value.data, value.indices, value.indptr):
            _add(digest, part)
    elif isinstance(value, np.ndarray):
        digest.update(f"{value.dtype.str} {value.shape} ".encode())
        digest.update(np.ascontiguousarray(value).reshape(-1).view(np.uint8).data)
    else:
        digest.update(f"{value!r} ".encode())
