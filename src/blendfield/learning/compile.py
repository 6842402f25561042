"""From samples to an engine that holds them, and from options by block to a regulariser."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from blendfield import backends
from blendfield.backends.protocol import FloatArray
from blendfield.engines.budget import Budget
from blendfield.engines.exchange import Exchange
from blendfield.engines.local import LocalEngine
from blendfield.engines.protocol import Chunk, Engine
from blendfield.errors import OptionError
from blendfield.formats.shards import Shards
from blendfield.graph.partition import Cut
from blendfield.learning.estimate import estimate_memory
from blendfield.learning.options import LearnerOptions
from blendfield.learning.parts import cut_samples
from blendfield.learning.recipe import ChunkRecipe
from blendfield.learning.regularisers import Regulariser
from blendfield.model.feature_map import FeatureMap
from blendfield.model.losses import loss_table
from blendfield.model.sample import Sample
from blendfield.model.weights import WeightLayout

if TYPE_CHECKING:
    from blendfield.engines.ray_engine import RayEngine

LIMIT_CHUNKS = 8
"""chunks that a limit of memory holds, about"""


def compile_training_set(
    samples: Sequence[Sample], layout: WeightLayout, counting_numbers: Any, options: LearnerOptions
) -> Engine:
    """All samples in chunks, in order, where `options.engine` says."""
    if options.parts is not None:
        return cut_training_set(samples, layout, counting_numbers, options)[0]
    if options.engine == "ray":
        engine = _ray_engine(options)
        engine.place(recipes_of(samples, layout, counting_numbers, options, engine.shares()))
        return engine
    whole = ChunkRecipe(samples, 0, layout, counting_numbers, options, 0)
    in_memory = options.memory_limit is None and not isinstance(samples, Shards)
    if in_memory and (chains := whole.build_chains(None)) is not None:  # small, however many there are
        return LocalEngine([chains])
    options = replace(options, backend=backends.choose(options.backend, sum(sizes_of(samples))))
    common: dict[str, Any] = {}
    budget = Budget(options.memory_limit)
    recipes = recipes_of(samples, layout, counting_numbers, options, 1)
    return LocalEngine([budget.build(recipe, None, common) for recipe in recipes])


def compile_batches(
    samples: Sequence[Sample], layout: WeightLayout, counting_numbers: Any, options: LearnerOptions, least: int
) -> list[Chunk]:
    """The samples in chunks, at least so many where there are samples enough, each to be asked by itself."""
    common: dict[str, Any] = {}
    budget = Budget(options.memory_limit)
    recipes = recipes_of(samples, layout, counting_numbers, options, least)
    return [budget.build(recipe, None, common) for recipe in recipes]


def cut_training_set(
    samples: Sequence[Sample],
    layout: WeightLayout,
    counting_numbers: Any,
    options: LearnerOptions,
    labelled: bool = True,
) -> tuple[Engine, list[Cut]]:
    """Every sample in parts, each a chunk of its own; and how each was cut. `labelled`: see `cut_samples`."""
    parts, cuts = cut_samples(samples, layout, counting_numbers, options, labelled)
    if options.engine == "ray":
        engine = _ray_engine(options)
        engine.place(parts)
        return engine, cuts
    return LocalEngine([part.build(None) for part in parts], Exchange([part.places for part in parts])), cuts


def _ray_engine(options: LearnerOptions) -> RayEngine:
    from blendfield.engines.ray_engine import RayEngine

    return RayEngine(options.cluster)


def recipes_of(
    samples: Sequence[Sample], layout: WeightLayout, counting_numbers: Any, options: LearnerOptions, least: int
) -> list[ChunkRecipe]:
    """How to make the chunks, at least so many of them where there are samples enough."""
    sizes = sizes_of(samples)
    limit = math.inf
    if options.memory_limit is not None:
        needed = estimate_memory(samples[:1], [(0, 1)], max(2, options.memory), options.dtype).total
        limit = options.memory_limit / LIMIT_CHUNKS * sizes[0] / max(1, needed)
    if least == 1:
        bounds = chunk_bounds(samples, options.backend, limit)
    else:
        limit = min(limit, backends.get(options.backend).chunk_entries)
        bounds = even_bounds(sizes, max(least, math.ceil(sum(sizes) / limit)))
    return [
        ChunkRecipe(samples[first:last], first, layout, counting_numbers, options, sum(sizes[first:last]))
        for first, last in bounds
    ]


def even_bounds(sizes: Sequence[int], least: int) -> list[tuple[int, int]]:
    """(first, last) of at least so many chunks of about the same size. Their number is a power of two (but for chunks
    that would have no sample), so that 2, 4 or 8 workers each have a whole branch of the tree of sums.
    """
    count = 1 << max(0, math.ceil(least) - 1).bit_length()
    ends = np.cumsum(sizes)
    share = ((ends - np.asarray(sizes) / 2.0) * count / max(1, ends[-1])).astype(np.int64)
    firsts = [0, *(np.flatnonzero(np.diff(share)) + 1).tolist()]
    return list(zip(firsts, [*firsts[1:], len(sizes)], strict=True))


def sizes_of(samples: Sequence[Sample]) -> list[int]:
    """Table entries of every sample."""
    if isinstance(samples, Shards):
        return [int(size) for size in samples.sizes]
    return [int(sample.graph.table_offsets[-1]) for sample in samples]


def chunk_bounds(samples: Sequence[Sample], backend: str, limit: float = math.inf) -> list[tuple[int, int]]:
    """(first, last) of every chunk: consecutive samples of about as many table entries as suit the backend, and at most
    about `limit`.
    """
    limit = min(limit, backends.get(backend).chunk_entries)
    bounds, first, entries = [], 0, 0
    for number, size in enumerate(sizes_of(samples)):
        if number > first and entries + size > limit:
            bounds.append((first, number))
            first, entries = number, 0
        entries += size
    bounds.append((first, len(samples)))
    return bounds


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
