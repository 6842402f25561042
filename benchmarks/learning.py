"""How many passes does the blend need? The study of mathematics §8.

    python benchmarks/learning.py table     # passes to a certified relative gap of 1e-4, ours below the published rows
    python benchmarks/learning.py sweeps    # k sweeps per step, messages kept or erased

16x16 binary grid, 10 noisy images, C = 1, c_r = 1, start at zero. One pass is one evaluation over all tables, a sweep
of the grid costs two; evaluations for the certificate do not count.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np

import blendfield as bf

PUBLISHED = {
    "1 sweep + gradient step (Armijo)": (48, None, 255, None, None),
    "5 sweeps + gradient step": (123, None, 216, None, None),
    "1 sweep + L-BFGS direction for w": (37, 410, 240, None, None),
    "L-BFGS on (w, lambda), no sweeps": (26, 1108, 84, None, 602),
    "1 sweep + Newton step, Anderson-mixed": (43, 99, 102, 216, 507),
}
COLUMNS = ((1.0, "free"), (1.0, "shared"), (0.1, "free"), (0.1, "shared"), (0.01, "free"), (0.01, "shared"))
ISING = np.array([[1.0, -1.0], [-1.0, 1.0]])


def samples(weights: str, side: int = 16, count: int = 10) -> list[bf.Sample]:
    """The images of the study, with a weight per position ("free") or one for all ("shared")."""
    base = np.zeros((side, side), dtype=np.int64)
    base[side // 4 : 3 * side // 4, side // 5 : 3 * side // 5] = 1
    base[:, side // 2] = 1
    images = base + 0.3 * np.random.default_rng(0).standard_normal((count, side, side))
    graph = bf.grid_graph((side, side), 2)
    pairs = np.arange(graph.num_given)
    singles = np.arange(graph.num_given, graph.num_regions)
    block = bf.FreeWeights if weights == "free" else bf.TableFeatures
    label_one = [[0.0, 1.0], [0.0, 1.0]]
    return [
        bf.Sample(
            graph,
            [
                block("pixel", singles, label_one, np.stack([x.ravel(), np.ones(x.size)], axis=1)),
                block("pair", pairs, ISING[None]),
            ],
            labels=base.ravel(),
        )
        for x in images
    ]


def passes_to(history: dict[str, Any], relative_gap: float) -> tuple[float, float] | None:
    """(passes, seconds) when the certified gap first came below a share of the primal value."""
    good = np.flatnonzero(history["gap"] <= relative_gap * np.abs(history["primal"]))
    return (float(history["passes"][good[0]]), float(history["seconds"][good[0]])) if good.size else None


def table() -> list[dict[str, Any]]:
    rows = []
    print(f"{'':40}" + "".join(f"{f'eps={e:g} {w}':>18}" for e, w in COLUMNS))
    for name, entries in PUBLISHED.items():
        print(f"{name:40}" + "".join(f"{'-' if n is None else n:>18}" for n in (*entries, None)))
    line = f"{'BlendedLearner, default':40}"
    for epsilon, weights in COLUMNS:
        learner = bf.BlendedLearner(epsilon, 1.0, tolerance=1e-4, max_iterations=2000, certificate_every=1)
        learner.fit(samples(weights))
        found = {gap: passes_to(learner.history_, gap) for gap in (1e-2, 1e-3, 1e-4)}
        rows.append({"epsilon": epsilon, "weights": weights, "primal": learner.primal_, "found": found})
        line += f"{'-' if found[1e-4] is None else format(found[1e-4][0], '.0f'):>18}"
    print(line)
    for row in rows:
        print(row)
    return rows


def sweeps() -> list[dict[str, Any]]:
    rows = []
    for weights in ("free", "shared"):
        for erase in (False, True):
            for k in (1, 2, 5, 20, 50):
                learner = bf.BlendedLearner(
                    1.0, 1.0, tolerance=1e-4, max_iterations=400, certificate_every=1, sweeps=k, restart_messages=erase
                )
                learner.fit(samples(weights))
                found = {gap: passes_to(learner.history_, gap) for gap in (1e-2, 1e-4)}
                rows.append(
                    {"weights": weights, "erase": erase, "sweeps": k, "primal": learner.primal_, "found": found}
                )
                print(rows[-1], flush=True)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("study", nargs="*", choices=["table", "sweeps", []], default=["table", "sweeps"])
    parser.add_argument("--output", type=Path, default=Path("results/learning.json"))
    options = parser.parse_args()
    results = {name: {"table": table, "sweeps": sweeps}[name]() for name in options.study}
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
