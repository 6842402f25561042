"""A picture hidden in noise is found by message passing, before your eyes: the bounds close in, and a PNG is written.

Every pixel has one of five labels, each label a colour. What is seen is the colour plus much more noise than colour.
The model knows the colours, the noise, and that neighbours mostly have the same label; it does not know the picture.
"""

import argparse
import sys
import time
from pathlib import Path

import numpy as np

import blendfield as bf

COLOURS = np.array([[24, 40, 72], [233, 196, 106], [231, 111, 81], [42, 157, 143], [244, 241, 222]]) / 255
NIGHT, SUN, RING, HILL, INK = range(5)
NOISE = 0.6
SAMENESS = 1.3
EPSILON = 0.5

GLYPHS = {
    "B": ["####.", "#...#", "#...#", "####.", "#...#", "#...#", "####."],
    "L": ["#....", "#....", "#....", "#....", "#....", "#....", "#####"],
    "E": ["#####", "#....", "#....", "####.", "#....", "#....", "#####"],
    "N": ["#...#", "##..#", "##..#", "#.#.#", "#..##", "#..##", "#...#"],
    "D": ["####.", "#...#", "#...#", "#...#", "#...#", "#...#", "####."],
    "F": ["#####", "#....", "#....", "####.", "#....", "#....", "#...."],
    "I": ["#####", "..#..", "..#..", "..#..", "..#..", "..#..", "#####"],
}


def hidden_picture(unit: int) -> np.ndarray:
    """int64 [42 unit, 60 unit]: labels of a landscape at night with two words in it."""
    height, width = 42 * unit, 60 * unit
    y, x = np.mgrid[:height, :width]
    labels = np.full((height, width), NIGHT)
    distance = np.hypot(y - 0.42 * height, x - 0.76 * width)
    labels[distance < 0.30 * height] = RING
    labels[distance < 0.20 * height] = SUN
    labels[y > height * (0.82 - 0.08 * np.sin(2.2 * np.pi * x / width))] = HILL
    for word, top in (("BLEND", 4 * unit), ("FIELD", 18 * unit)):
        letters = np.concatenate([bitmap(letter) for letter in word], axis=1)
        enlarged = letters.repeat(3 * unit // 2, axis=0).repeat(unit, axis=1)
        window = labels[top : top + enlarged.shape[0], 3 * unit : 3 * unit + enlarged.shape[1]]
        window[enlarged] = INK
    return labels


def bitmap(letter: str) -> np.ndarray:
    """bool [7, 6]: the letter and a column of space."""
    return np.array([[mark == "#" for mark in line + "."] for line in GLYPHS[letter]])


def show_progress(progress) -> None:
    """Callback of `infer`: one line of the terminal, the bar grows with the digits that are certain."""
    relative = progress.gap / max(1.0, abs(progress.upper))
    digits = min(6.0, max(0.0, -np.log10(max(relative, 1e-9))))
    print(
        f"sweep {progress.iteration:4d}   {progress.lower:12.3f} <= optimum <= {progress.upper:12.3f}"
        f"   relative gap {relative:7.1e}  [{'#' * round(4 * digits):<24}]",
        end="\r" if sys.stdout.isatty() else "\n",
        flush=True,
    )


def draw(path: Path, image: np.ndarray, truth: np.ndarray, result, marginals: np.ndarray) -> None:
    """The panels: what was seen, what was found, what was hidden, how sure, and the bounds over the sweeps."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    errors = np.mean(result.labels.reshape(truth.shape) != truth)
    blind = np.mean(nearest_colour(image) != truth)
    entropy = -np.sum(marginals * np.log(np.maximum(marginals, 1e-300)), axis=-1) / np.log(len(COLOURS))

    figure = plt.figure(figsize=(12, 6.2), layout="constrained")
    panels = figure.subplot_mosaic([["seen", "found", "hidden"], ["unsure", "bounds", "bounds"]])
    pictures = {
        "seen": (np.clip(image, 0, 1), f"seen (each pixel by itself: {blind:.0%} wrong)"),
        "found": (COLOURS[result.labels.reshape(truth.shape)], f"found ({errors:.1%} wrong)"),
        "hidden": (COLOURS[truth], "hidden"),
    }
    for name, (pixels, title) in pictures.items():
        panels[name].imshow(pixels, interpolation="nearest")
        panels[name].set_title(title)
    panels["unsure"].imshow(entropy, cmap="magma", vmin=0, vmax=1, interpolation="nearest")
    panels["unsure"].set_title("how unsure (bright: entropy of the beliefs)")
    for name in [*pictures, "unsure"]:
        panels[name].set_axis_off()

    iterations = np.asarray(result.history["iteration"])
    upper, lower = np.asarray(result.history["upper"]), np.asarray(result.history["lower"])
    best = result.lower
    panels["bounds"].fill_between(iterations, lower - best, upper - best, color="#2a9d8f", alpha=0.15, linewidth=0)
    panels["bounds"].plot(iterations, upper - best, color="#e76f51", marker=".", label="upper bound")
    panels["bounds"].plot(iterations, lower - best, color="#2a9d8f", marker=".", label="lower bound")
    panels["bounds"].set_yscale("symlog", linthresh=1.0)
    panels["bounds"].set_title("the optimum lies between the bounds (drawn relative to the last lower one)")
    panels["bounds"].set_xlabel("full sweeps")
    panels["bounds"].legend(frameon=False)
    panels["bounds"].yaxis.tick_right()
    panels["bounds"].spines[["top", "left"]].set_visible(False)
    figure.savefig(path, dpi=110)
    plt.close(figure)


def nearest_colour(image: np.ndarray) -> np.ndarray:
    """int64 [height, width]: the label of each pixel by itself."""
    return np.argmin(np.sum((image[..., None, :] - COLOURS) ** 2, axis=-1), axis=-1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=Path("hidden_picture.png"))
    parser.add_argument("--unit", type=int, default=4, help="size of the picture, which is 60 x 42 units")
    options = parser.parse_args()

    truth = hidden_picture(options.unit)
    image = COLOURS[truth] + NOISE * np.random.default_rng(0).standard_normal((*truth.shape, 3))

    start = time.perf_counter()
    graph = bf.grid_graph(truth.shape, len(COLOURS))
    pairs = np.arange(graph.num_given)
    singles = np.arange(graph.num_given, graph.num_regions)  # in the order of the pixels
    likelihood = -np.sum((image[..., None, :] - COLOURS) ** 2, axis=-1) / (2 * NOISE**2)
    potentials = [
        (singles, likelihood.reshape(len(singles), len(COLOURS))),
        (pairs, np.broadcast_to(SAMENESS * np.eye(len(COLOURS)), (len(pairs), len(COLOURS), len(COLOURS)))),
    ]
    print(f"{truth.size} pixels, {len(pairs)} pairs of neighbours, {len(COLOURS)} labels")
    result = bf.infer(
        graph,
        potentials,
        epsilon=EPSILON,
        counting_numbers="cover",
        tolerance=1e-6,
        certificate_every=2,
        callback=show_progress,
    )
    print(f"\nafter {time.perf_counter() - start:.1f} s: {result.stop_reason}, {result.iterations} sweeps")
    marginals = np.stack([result.beliefs[region] for region in singles]).reshape(*truth.shape, len(COLOURS))
    draw(options.output, image, truth, result, marginals)
    print(f"written: {options.output}")


if __name__ == "__main__":
    main()
