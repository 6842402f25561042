"""The weight vector: which block of features has which weights."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from blendfield.errors import FeatureError
from blendfield.model.blocks import MAX_WEIGHTS, TRIPLES
from blendfield.model.pieces import BlockShape, BoundBlock, FloatArray
from blendfield.model.sample import Sample


class WeightLayout:
    """Blocks one after the other in one vector float64 [K]: the triples first, then by first appearance.

    Attributes: names [B], shapes [B] (`BlockShape`), offsets [B + 1], size K.
    """

    def __init__(self, shapes: dict[str, BlockShape]) -> None:
        self.names = sorted(shapes, key=lambda name: name != TRIPLES)  # stable: the triples first
        self.shapes = [shapes[name] for name in self.names]
        sizes = [int(np.prod(block.shape, dtype=np.int64)) for block in self.shapes]
        self.offsets = [0, *np.cumsum(sizes, dtype=np.int64).tolist()]
        self.size = self.offsets[-1]
        if self.size > MAX_WEIGHTS:
            raise FeatureError(f"the features have {self.size} weights together; expected at most {MAX_WEIGHTS}")
        self._place = {name: k for k, name in enumerate(self.names)}

    @classmethod
    def of_samples(cls, samples: Iterable[Sample]) -> WeightLayout:
        """The layout that all samples share; FeatureError names the sample that disagrees about a block."""
        shapes: dict[str, BlockShape] = {}
        for number, sample in enumerate(samples):
            for block in sample.blocks:
                known = shapes.get(block.name)
                shapes[block.name] = block.shape if known is None else _merged(known, block, f"sample {number}")
        return cls(shapes)

    @classmethod
    def merged(cls, layouts: Iterable[WeightLayout], names: Iterable[str]) -> WeightLayout:
        """The layout that serves all; FeatureError gives the name of the one that disagrees."""
        shapes: dict[str, BlockShape] = {}
        for layout, where in zip(layouts, names, strict=True):
            for name, shape in zip(layout.names, layout.shapes, strict=True):
                known = shapes.get(name)
                shapes[name] = shape if known is None else _merged(known, BoundBlock(name, shape, []), where)
        return cls(shapes)

    def check(self, block: BoundBlock, where: str) -> None:
        """FeatureError unless `block` has weights here."""
        if block.name not in self._place:
            names = ", ".join(repr(name) if name else "triples" for name in self.names) or "none"
            raise FeatureError(f"{where}: block {block.name!r:.60} was not in training; the blocks are: {names}")
        known = self.shapes[self._place[block.name]]
        merged = _merged(known, block, where)
        if merged != known:
            raise FeatureError(
                f"{where}: {_name(block.name)} needs weights of shape {merged.shape}; "
                f"in training they had {known.shape}"
            )

    def offset(self, name: str) -> int:
        """Where the weights of a block begin."""
        return int(self.offsets[self._place[name]])

    def slice(self, name: str) -> slice:
        """Where the weights of a block are."""
        place = self._place[name]
        return slice(self.offsets[place], self.offsets[place + 1])

    def views(self, weights: FloatArray) -> dict[str, FloatArray]:
        """The weights by block, each in its shape (see the blocks); views of `weights`, float64 [K]."""
        return {
            name: weights[self.slice(name)].reshape(block.shape)
            for name, block in zip(self.names, self.shapes, strict=True)
        }

    def to_json(self) -> list[dict[str, Any]]:
        """As plain data, for files."""
        return [
            {"name": name, "kind": block.kind, "shape": list(block.shape)}
            for name, block in zip(self.names, self.shapes, strict=True)
        ]

    @classmethod
    def from_json(cls, blocks: Any) -> WeightLayout:
        """The reverse of `to_json`; FeatureError for anything else."""
        shapes: dict[str, BlockShape] = {}
        for block in blocks if isinstance(blocks, list) else [None]:
            match block:
                case {
                    "name": str(name),
                    "kind": ("triples" | "tables" | "free" | "linear") as kind,
                    "shape": list(shape),
                }:
                    axes = 1 if kind in ("triples", "tables") else 2
                    sizes = all(type(size) is int and 0 <= size <= MAX_WEIGHTS for size in shape)
                    if name not in shapes and len(shape) == axes and sizes and (kind == "triples") == (name == TRIPLES):
                        shapes[name] = BlockShape(kind, tuple(shape))
                        continue
            raise FeatureError(f"expected a list of blocks, each with name, kind and shape; got {block!r:.80}")
        return cls(shapes)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, WeightLayout) and self.to_json() == other.to_json()

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        blocks = ", ".join(
            f"{name or 'triples'} {block.shape}" for name, block in zip(self.names, self.shapes, strict=True)
        )
        return f"WeightLayout({self.size} weights: {blocks})"


def _name(block: str) -> str:
    return f"block {block!r:.60}" if block else "the triples"


def _merged(known: BlockShape, block: BoundBlock, where: str) -> BlockShape:
    """The shape that serves both; FeatureError if there is none."""
    new = block.shape
    if known.region is not None and new.region is not None and known.region != new.region:
        raise FeatureError(
            f"{where}: block {block.name!r:.60} is on regions of shape {new.region}, "
            f"but on regions of shape {known.region} in the samples before"
        )
    if known == new:
        return known
    if known.kind == new.kind == "triples":
        return BlockShape("triples", (max(known.shape[0], new.shape[0]),))
    region = known.region or new.region
    # Single variables may have fewer labels than others, and a sample no such region at all.
    grows = region is None or 0 in (known.shape[0], new.shape[0])
    if known.kind == new.kind == "linear" and known.shape[1] == new.shape[1] and grows:
        return BlockShape("linear", (max(known.shape[0], new.shape[0]), known.shape[1]), region)
    raise FeatureError(
        f"{where}: block {block.name!r:.60} has {new.kind} weights of shape {new.shape}, "
        f"but {known.kind} weights of shape {known.shape} in the samples before"
    )
