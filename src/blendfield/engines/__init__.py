"""Engines hold the training set and evaluate it: one protocol, `local` here (one process, threads)."""

from blendfield.engines.protocol import Certificate, Chunk, Engine, Evaluation, Request, Trial

__all__ = ["Certificate", "Chunk", "Engine", "Evaluation", "Request", "Trial"]
