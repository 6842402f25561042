"""A record that has one of everything."""

import numpy as np

from blendfield import reports


def history(rate=0.1, length=60, cost=2.0):
    iteration = np.arange(1.0, length + 1)
    excess = 900 * np.exp(-rate * iteration)
    dual = 100 - 2 * excess
    dual[::3] = np.nan
    columns = {"iteration": iteration, "primal": 100 + excess, "dual": dual, "gap": 100 + excess - dual}
    return reports.history_of(columns | {"passes": cost * iteration, "seconds": 0.01 * cost * iteration})


def record(title="One run", error=0.25, **changes):
    pixels = np.random.default_rng(0).random((6, 9))
    runs = {"eps = 1": history()}
    panels = reports.Panels(
        "Seen & found",
        "of the first image",
        ["rings", "letters"],
        ["noisy", "truth"],
        [[reports.grey_image(pixels), reports.grey_image(pixels > 0.5)]] * 2,
    )
    bars = reports.Bars("Errors", "", ["rings", "letters"], ["ours", "rival"], [[0.1, 2.5], [None, 3.0]], "%", ["ours"])
    columns = [reports.Column("method"), reports.Column("rings", "%", 2, "low"), reports.Column("passes")]
    fields = {
        "kind": "Denoising",
        "title": title,
        "answer": f"Only {error} % are wrong <and that is all>.",
        "command": "blendfield denoise --quick",
        "key_numbers": [
            reports.KeyNumber("Test error", error, "%", "of ten images", better="low"),
            reports.KeyNumber("Gap", 1.2e-7),
        ],
        "figures": [panels, bars, reports.convergence(runs, "Bounds"), reports.objective(runs, "Objective")],
        "tables": [
            reports.Table("Errors in full", columns, [["ours", 0.104, 120], ["rival", float("nan"), 4800]], "A note.")
        ],
        "notes": ["What was unexpected."],
        "configuration": {"epsilon": 1.0, "rivals": True, "images": None, "grid": [0.1, 1.0]},
        "seeds": {"noise": 3},
        "histories": runs,
        "seconds": 12.5,
    }
    return reports.RunRecord(**(fields | changes))
