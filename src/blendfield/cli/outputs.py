"""What `blendfield infer` prints and writes."""

from __future__ import annotations

import json
import math
import os
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from blendfield.errors import OptionError
from blendfield.files import written_atomically
from blendfield.formats import write_mar, write_mpe, write_pr
from blendfield.formats.models import suffix
from blendfield.inference import Result

SUFFIXES = ("PR", "MAR", "MPE", "json", "npz")
SHOWN_LABELS = 20


def check(path: str, epsilon: float) -> None:
    """OptionError or OSError when this output could not be written in the end."""
    kind = suffix(path)
    if kind not in SUFFIXES or (path.endswith((".gz", ".xz")) and kind == "npz"):
        raise OptionError(f"--output {path}: expected a name that ends in .{', .'.join(SUFFIXES)}")
    if kind == "PR" and epsilon != 1:
        raise OptionError(f"--output {path}: the partition function needs --epsilon 1, got {epsilon:g}")
    check_folder(path)


def check_folder(path: str) -> None:
    """OSError when no file could be written there."""
    folder = os.path.dirname(os.path.abspath(path))
    if not os.path.isdir(folder):
        raise FileNotFoundError(2, "no such folder", folder)
    if os.path.isdir(path):
        raise IsADirectoryError(21, "is a folder", path)
    if not os.access(folder, os.W_OK):
        raise PermissionError(13, "may not be written to", folder)


@dataclass
class Answer:
    file: str
    method: str
    counting_numbers: str
    result: Result

    @cached_property
    def marginals(self) -> list[Any]:
        """float [labels] of every variable: the beliefs of the single-variable regions."""
        beliefs = self.result.beliefs
        return [np.asarray(beliefs[region], np.float64) for region in self.result.graph.single_regions.tolist()]

    @property
    def log10_value(self) -> float:
        """The value in place of log10 Z: `upper`, or `lower` where there is no upper value."""
        result = self.result
        return (result.upper if math.isfinite(result.upper) else result.lower) / math.log(10)

    def facts(self) -> dict[str, Any]:
        result = self.result
        bounds = ("upper", "lower", "gap", "score", "certified", "converged")
        names = (*bounds, "stop_reason", "iterations", "epsilon", "integrality")
        seconds = float(result.history["seconds"][-1]) if len(result.history["seconds"]) else 0.0
        return {
            "file": self.file,
            "method": self.method,
            "counting_numbers": self.counting_numbers,
            **{name: plain(getattr(result, name)) for name in names},
            "seconds": seconds,
        }

    def json(self) -> str:
        """One line; numbers that are infinite or unknown are null."""
        lists = {
            "labels": self.result.labels.tolist(),
            "certain": self.result.certain.tolist(),
            "marginals": [[plain(p) for p in marginal.tolist()] for marginal in self.marginals],
        }
        return json.dumps({**self.facts(), **lists}, allow_nan=False)

    def text(self) -> str:
        result, facts = self.result, self.facts()
        labels = result.labels[:SHOWN_LABELS].tolist()
        more = f" ... ({len(result.labels)} in all)" if len(result.labels) > SHOWN_LABELS else ""
        upper, lower = f"{result.upper:.9g}", f"{result.lower:.9g}"
        if result.epsilon == 1:
            upper += f"  (log10 {result.upper / math.log(10):.6g})"
            lower += f"  (log10 {result.lower / math.log(10):.6g})"
        certified = "certified" if result.certified else "not certified"
        proved = []
        if result.epsilon == 0:
            share = f"{100 * result.integrality:.3g} % of the beliefs are integral"
            proved = [f"certain  {int(result.certain.sum())} of {len(result.labels)} labels are proved; {share}"]
        sweeps = "sweep" if result.iterations == 1 else "sweeps"
        return "\n".join(
            [
                f"{self.file}: {self.method}, epsilon {result.epsilon:g}, counting numbers {self.counting_numbers}",
                f"upper    {upper}",
                f"lower    {lower}",
                f"gap      {result.gap:.3g}  ({certified})",
                f"score    {result.score:.9g}",
                f"labels   {' '.join(map(str, labels))}{more}",
                *proved,
                f"stopped  {result.stop_reason} after {result.iterations} {sweeps}, {facts['seconds']:.3g} s",
            ]
        )


def write(path: str, answer: Answer) -> None:
    """Writes one answer, in the format that the suffix says."""
    kind, result = suffix(path), answer.result
    if kind == "PR":
        write_pr(path, answer.log10_value)
    elif kind == "MAR":
        write_mar(path, answer.marginals)
    elif kind == "MPE":
        write_mpe(path, result.labels)
    elif kind == "json":
        with written_atomically(path) as file:
            file.write(answer.json().encode() + b"\n")
    else:
        _write_npz(path, answer)


def _write_npz(path: str, answer: Answer) -> None:
    """The numbers of the summary, labels, all beliefs in the flat layout, and the history."""
    result = answer.result
    arrays: dict[str, Any] = {name: np.array(value) for name, value in answer.facts().items() if value is not None}
    arrays["source"] = arrays.pop("file")  # the name of an argument of savez
    arrays |= {
        "labels": result.labels,
        "beliefs": result.beliefs.flat,
        "table_offsets": result.graph.table_offsets,
        "region_offsets": result.graph.region_offsets,
        "region_variables": result.graph.region_variables,
        **{f"history_{name}": values for name, values in result.history.items()},
    }
    with written_atomically(path) as file:
        np.savez(file, **arrays)


def plain(value: Any) -> Any:
    """For JSON: numbers that are infinite or unknown are null."""
    return None if isinstance(value, float) and not math.isfinite(value) else value
