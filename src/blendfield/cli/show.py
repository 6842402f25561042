"""Show what is in a model.

Of a graph with its tables: variables, regions, shapes, treewidth, the memory each method needs, and which to use. Of
learned weights: their blocks, the strongest of them, and how they were learned.
"""

from __future__ import annotations

import argparse
import json
import warnings
from typing import Any

import numpy as np

from blendfield.backends import get
from blendfield.cli import models, weights
from blendfield.cli.arguments import add_file
from blendfield.cli.treewidth import Elimination, eliminate
from blendfield.errors import BlendfieldError
from blendfield.graph import RegionGraph, components
from blendfield.inference import memory
from blendfield.inference.program import build_models

HELP = "show what is in a model"

ROWS = 8
"""Lines of a histogram; the rest is added up."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_file(parser)
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(arguments: argparse.Namespace) -> int:
    if weights.is_model(arguments.file):
        facts = weights.summary(arguments.file)
        text = json.dumps({"file": arguments.file, **facts}) if arguments.json else "\n".join(weights.lines(facts))
        print(text if arguments.json else f"{arguments.file}\n{text}")
        return 0
    graph, potentials = models.read(arguments.file, arguments.format, arguments.edges)
    facts = summary(graph, potentials)
    if arguments.json:
        print(json.dumps({"file": arguments.file, **facts}))
    else:
        print("\n".join([arguments.file, *_lines(facts)]))
    return 0


def summary(graph: RegionGraph, potentials: Any) -> dict[str, Any]:
    """Numbers and names, ready for JSON."""
    # Not flattened: single variables that are in no table of the file may have labels without end.
    flat = np.concatenate([np.zeros(0), *[table.ravel() for table in potentials if table is not None]])
    forbidden = int(np.isneginf(flat).sum())
    elimination = eliminate(graph)
    sizes = graph.table_sizes
    _, num_parts = components(graph, graph.edge_parents, graph.edge_children)
    bytes_needed = _memory(graph, elimination)
    facts: dict[str, Any] = {
        "variables": graph.num_variables,
        "labels": _histogram(graph.cardinalities),
        "regions": graph.num_regions,
        "regions_given": graph.num_given,
        "shapes": _shapes(graph),
        "edges": graph.num_edges,
        "levels": _levels(graph),
        "components": int(num_parts),
        "table_entries": int(sizes.sum()),
        "largest_table": int(sizes.max(initial=0)),
        "forbidden_entries": forbidden,
        "treewidth_at_most": elimination.treewidth if elimination else None,
        "log2_largest_clique": round(elimination.log2_largest, 2) if elimination else None,
        "bytes": bytes_needed,
        "bytes_available": memory.available_bytes(),
    }
    facts["method"], facts["reason"] = suggest(facts)
    return facts


def suggest(facts: dict[str, Any]) -> tuple[str, str]:
    """(method, why)."""
    needed, available = facts["bytes"]["exact"], facts["bytes_available"]
    if needed is not None and needed <= min(2**31, (available or 2**40) // 4):
        return "exact", "its tables are small"
    return "norm-product", "bounds that are certain; exact inference needs too much memory"


def _memory(graph: RegionGraph, elimination: Elimination | None) -> dict[str, int | None]:
    """Bytes by method, beyond the model itself; None: unknown or beyond counting."""
    backend = get("auto")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            program = build_models([graph], ["cover"], 1.0, True).program
        passing = int(backend.estimate_bytes(program, "float64"))
    except BlendfieldError:
        return {"norm-product": None, "belief-propagation": None, "mean-field": None, "exact": None}
    messages = int(graph.table_sizes[graph.edge_children].sum())
    tables = int(graph.table_sizes.sum())
    exact = int(8 * 2**elimination.log2_total) if elimination and elimination.log2_total < 60 else None
    return {
        "norm-product": passing + 10 * 8 * messages,  # with the history of the mixing
        "belief-propagation": passing,
        "mean-field": 8 * (tables + 2 * int(graph.cardinalities.sum())),
        "exact": exact,
    }


def _levels(graph: RegionGraph) -> int:
    """Regions on the longest way from a region down to one inside it."""
    if graph.num_regions == 0:
        return 0
    depth = np.ones(graph.num_regions, np.int64)
    while graph.num_edges:
        deeper = depth.copy()
        np.maximum.at(deeper, graph.edge_children, depth[graph.edge_parents] + 1)
        if np.array_equal(deeper, depth):
            break
        depth = deeper
    return int(depth.max())


def _histogram(values: Any) -> dict[str, int]:
    found, counts = np.unique(values, return_counts=True)
    return {str(value): int(count) for value, count in zip(found, counts, strict=True)}


def _shapes(graph: RegionGraph) -> dict[str, int]:
    """How many regions have each shape, axes sorted by size: {"2x2x7": 12}, the smallest orders first."""
    shapes = {}
    for order in np.unique(graph.region_orders).tolist():
        rows = np.flatnonzero(graph.region_orders == order)
        entries = graph.region_offsets[rows][:, None] + np.arange(order)
        labels = np.sort(graph.cardinalities[graph.region_variables[entries]], axis=1)
        found, counts = np.unique(labels, axis=0, return_counts=True)
        for shape, count in zip(found.tolist(), counts.tolist(), strict=True):
            shapes["x".join(map(str, shape))] = count
    return shapes


def _lines(facts: dict[str, Any]) -> list[str]:
    entries, available = facts["table_entries"], facts["bytes_available"]
    lines = [
        f"variables   {facts['variables']:,}",
        *_counted("labels", facts["labels"], "variables"),
        f"regions     {facts['regions']:,}, {facts['regions_given']:,} of them in the file",
        *_counted("shapes", facts["shapes"], "regions"),
        f"edges       {facts['edges']:,}, {facts['levels']} levels, {facts['components']:,} components",
        f"entries     {entries:,} ({memory.in_words(8 * entries)}), the largest table {facts['largest_table']:,}",
        f"forbidden   {facts['forbidden_entries']:,} entries"
        + (f" ({100 * facts['forbidden_entries'] / entries:.3g} %)" if entries else ""),
    ]
    if facts["treewidth_at_most"] is None:
        lines.append("treewidth   large (not estimated within 3 s)")
    else:
        largest = facts["log2_largest_clique"]
        lines.append(f"treewidth   at most {facts['treewidth_at_most']}, then tables of up to 2^{largest:g} entries")
    for k, (method, size) in enumerate(facts["bytes"].items()):
        needed = "more than can be counted" if size is None else memory.in_words(size)
        lines.append(f"{'memory' if k == 0 else '':12}{method:20}{needed}")
    if available is not None:
        lines.append(f"{'':12}{'available':20}{memory.in_words(available)}")
    return [*lines, f"suggested   {facts['method']} ({facts['reason']})"]


def _counted(title: str, counts: dict[str, int], of: str) -> list[str]:
    """The most frequent rows of a histogram."""
    rows = sorted(counts.items(), key=lambda row: -row[1])
    shown = rows if len(rows) <= ROWS else rows[: ROWS - 1]
    lines = [f"{title if k == 0 else '':12}{key}: {count:,} {of}" for k, (key, count) in enumerate(shown)]
    if len(shown) < len(rows):
        rest = sum(count for _, count in rows[len(shown) :])
        lines.append(f"{'':12}{len(rows) - len(shown)} others: {rest:,} {of}")
    return lines
