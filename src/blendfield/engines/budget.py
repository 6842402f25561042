"""Which chunks stay in memory, where there is a limit."""

from __future__ import annotations

from typing import Any

from blendfield.engines.protocol import Chunk, Recipe


class Budget:
    """Chunks stay while there is room, besides what the largest of the others needs while it is at work."""

    def __init__(self, limit: int | None) -> None:
        """`limit`: bytes for all chunks of this process; None: no limit."""
        self.limit = limit
        self.used = 0
        self._largest = 0

    def build(self, recipe: Recipe, threads: int | None, common: dict[str, Any] | None = None) -> Chunk:
        """The chunk, or one that lives on disk and answers the same. `common`: see `Recipe.build`."""
        if self.limit is None:
            return recipe.build(threads, common)
        needed = recipe.needed_bytes()
        self._largest = max(self._largest, needed)
        if self.used + needed + self._largest > self.limit:
            return recipe.streamed(recipe.build(threads), threads)
        self.used += needed
        return recipe.build(threads, common)
