"""From samples to an engine that holds them, and from options by block to a regulariser."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from blendfield.backends.protocol import FloatArray, Program
from blendfield.engines.local import LocalEngine
from blendfield.engines.protocol import Engine
from blendfield.errors import OptionError
from blendfield.learning.chains import chain_chunk
from blendfield.learning.chunk import Chunk
from blendfield.learning.options import LearnerOptions
from blendfield.learning.regularisers import Regulariser
from blendfield.model.feature_map import FeatureMap
from blendfield.model.losses import loss_table
from blendfield.model.sample import Sample
from blendfield.model.weights import WeightLayout

CHUNK_ENTRIES = 1 << 25
"""table entries compiled together, about"""


@dataclass(frozen=True)
class TrainingSet:
    """What the driver needs to know."""

    engine: Engine
    hottest: float
    """a temperature of the size of the first potentials"""
    passes_per_sweep: float
    """table entries read in a sweep, over those of the outer regions"""


def compile_training_set(
    samples: Sequence[Sample], layout: WeightLayout, counting_numbers: Any, options: LearnerOptions
) -> TrainingSet:
    """All samples in chunks, in order."""
    chains = (
        None
        if options.soft_marginalisation > 0
        else chain_chunk(
            samples,
            layout,
            counting_numbers,
            options.epsilon,
            dtype=options.dtype,
            threads=options.threads,
            backend=options.backend,
        )
    )
    if chains is not None:  # small, however long the chains are: pairs are not written out
        return TrainingSet(LocalEngine([chains]), chains.scale, chains.passes_per_sweep)
    chunks = [
        Chunk(
            samples[first:last],
            layout,
            counting_numbers,
            options.epsilon,
            first=first,
            dtype=options.dtype,
            threads=options.threads,
            backend=options.backend,
        )
        for first, last in chunk_bounds(samples)
    ]
    if options.soft_marginalisation > 0:
        for chunk in chunks:
            chunk.require_positive_counting_numbers()
    scale = max(chunk.scale for chunk in chunks)
    return TrainingSet(LocalEngine(chunks), scale, max(passes_per_sweep(chunk.models.program) for chunk in chunks))


def chunk_bounds(samples: Sequence[Sample]) -> list[tuple[int, int]]:
    """(first, last) of every chunk: consecutive samples of about CHUNK_ENTRIES table entries together."""
    bounds, first, entries = [], 0, 0
    for number, sample in enumerate(samples):
        size = int(sample.graph.table_offsets[-1])
        if number > first and entries + size > CHUNK_ENTRIES:
            bounds.append((first, number))
            first, entries = number, 0
        entries += size
    bounds.append((first, len(samples)))
    return bounds


def passes_per_sweep(program: Program) -> float:
    """Evaluations over all tables that a sweep is worth (2 on a grid): entries read over entries of the parents."""
    sizes = program.graph.table_sizes
    if len(program.edge_parents) == 0:
        return 1.0
    runs = np.bincount(program.schedule, minlength=int(program.region_class.max()) + 1)
    read = (runs[program.region_class[program.edge_children]] * sizes[program.edge_parents]).sum()
    return float(read / sizes[np.unique(program.edge_parents)].sum())


def potentials_of(sample: Sample, layout: WeightLayout, weights: FloatArray, loss: bool = False) -> FloatArray:
    """float64 [table layout]: theta_r of one sample."""
    features = FeatureMap(layout, [sample.blocks], [0], sample.graph.table_offsets, [1.0])
    theta = np.zeros(int(sample.graph.table_offsets[-1])) if sample.fixed is None else sample.fixed.copy()
    features.apply(weights, theta)
    if loss and sample.labels is not None:
        table = loss_table(sample.graph, sample.labels, sample.loss)
        if table is not None:
            theta += table
    return theta


def regulariser_of(layout: WeightLayout, C: Any, l1: Any, sign: Any) -> Regulariser:
    """Strengths and signs weight by weight."""
    signs = _by_weight(layout, sign, None, "sign")
    return Regulariser(
        strength=np.array(_by_weight(layout, C, 1.0, "C"), dtype=np.float64),
        sparsity=np.array(_by_weight(layout, l1, 0.0, "l1"), dtype=np.float64),
        lowest=np.array([0.0 if value == ">=0" else -np.inf for value in signs]),
        highest=np.array([0.0 if value == "<=0" else np.inf for value in signs]),
    )


def _by_weight(layout: WeightLayout, option: Any, default: Any, what: str) -> list[Any]:
    """The option of every weight: one for all, or by block (None: all others)."""
    if not isinstance(option, Mapping):
        return [option] * layout.size
    unknown = [name for name in option if name is not None and name not in layout.names]
    if unknown:
        raise OptionError(f"{what}: block {unknown[0]!r:.60} is unknown; the blocks are {layout.names}")
    values: list[Any] = []
    for name in layout.names:
        part = layout.slice(name)
        values += [option.get(name, option.get(None, default))] * (part.stop - part.start)
    return values
