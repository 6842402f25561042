"""Tables and figures of accuracy, from the results of its cells."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from blendfield.applications.cells import Result
from blendfield.applications.denoising.accuracy import SIMPLE, rows_of, simple_name
from blendfield.applications.denoising.configuration import DenoisingConfiguration
from blendfield.applications.denoising.methods import METHODS
from blendfield.applications.denoising.task import COPIES_OF_OTHERS, base_pictures
from blendfield.reports import Bars, Column, Figure, GreyImage, Panels, Table
from blendfield.reports.record import Cell

PROTOCOLS = {
    "A": "the clean picture is the same in training and test",
    "B": "tested on a picture that was not in training",
    "C": "every image flipped and shifted at random",
}
PAPER = {
    "gaussian": {
        "LBP, SGD": (2.73, 2.47, 3.23, 2.32),
        "LBP, SMD": (2.73, 2.47, 3.23, 2.31),
        "LBP, BFGS": (2.74, 2.42, 3.13, 2.40),
        "mean field, SGD": (3.05, 3.08, 4.14, 2.91),
        "mean field, SMD": (2.97, 3.06, 3.87, 14.44),
        "mean field, BFGS": (3.00, 2.78, 3.62, 2.48),
        "blend": (0.0488, 0.0073, 0.1294, 0.1318),
    },
    "bimodal": {
        "LBP, SGD": (5.29, 4.48, 6.82, 7.25),
        "LBP, SMD": (5.30, 4.47, 6.76, 7.26),
        "LBP, BFGS": (5.21, 4.40, 6.03, 6.62),
        "mean field, SGD": (10.0, 41.1, 29.6, 53.6),
        "mean field, BFGS": (5.27, 4.62, 6.46, 7.25),
        "blend": (0.0537, 0.0244, 0.1221, 0.9277),
    },
}
"""percent wrong on the four images of the paper, which cannot be obtained"""


def title_of(configuration: DenoisingConfiguration, protocol: str, method: str, model: str, loss: bool) -> str:
    """Of a row."""
    words = METHODS[method].title
    if method == "blend" and model != configuration.model_of(protocol):
        words += f", {model} weights"
    if method == "blend" and loss != configuration.loss:
        words += ", with loss" if loss else ", without loss"
    return words


def errors_of(
    configuration: DenoisingConfiguration, results: Mapping[str, Result], noise: str, protocol: str
) -> dict[str, list[float]]:
    """Percent wrong by title, picture by picture, of every row that is finished; the simple predictors last."""
    found = {
        title_of(configuration, protocol, method, model, loss): [cell["error"] for cell in cells]
        for method, model, loss, cells in rows_of(configuration, results, noise, protocol)
    }
    simple = results.get(simple_name(noise, protocol), {})
    return found | {title: simple[name] for name, (title, _) in SIMPLE.items() if name in simple}


def accuracy_tables(configuration: DenoisingConfiguration, results: Mapping[str, Result]) -> list[Table]:
    """One table per noise and protocol, then what the paper has."""
    names = [picture.name for picture in base_pictures(configuration)]
    tables = []
    for noise in configuration.noises:
        for protocol in configuration.protocols:
            columns = [Column("method"), *(Column(name, "%", 2, "low") for name in ["mean", *names])]
            columns += [Column("C"), Column("iterations", decimals=0), Column("training", "s")]
            rows: list[list[Cell]] = []
            cells_of = {
                title_of(configuration, protocol, method, model, loss): cells
                for method, model, loss, cells in rows_of(configuration, results, noise, protocol)
            }
            for title, errors in errors_of(configuration, results, noise, protocol).items():
                cells = cells_of.get(title, [])
                extra: list[Cell] = [None, None, None]
                if cells:
                    seconds = [cell["history"]["seconds"][-1] for cell in cells]
                    iterations = float(np.mean([cell["iterations"] for cell in cells]))
                    extra = [float(cells[0]["C"]), iterations, float(np.mean(seconds))]
                rows.append([title, float(np.mean(errors)), *errors, *extra])
            model = configuration.model_of(protocol)
            note = f"Protocol {protocol}: {PROTOCOLS[protocol]}; {model} weights unless stated. "
            tables.append(Table(_title(noise, protocol), columns, rows, note + _images(configuration, protocol)))
        if configuration.rivals:
            tables.append(_paper(noise))
    return tables


def _title(noise: str, protocol: str) -> str:
    return f"Wrong pixels: {'Gaussian' if noise == 'gaussian' else noise} noise, protocol {protocol}"


def _images(configuration: DenoisingConfiguration, protocol: str) -> str:
    which = {None: "the four generated pictures", "binary_images": "the pictures of binary_images"}
    images = which.get(configuration.images, "the user's own pictures")
    training = configuration.copies - configuration.testing
    if protocol == "B":
        training = min(training, COPIES_OF_OTHERS)
    each = " of each other picture" if protocol == "B" else ""
    return (
        f"Images: {images}, {configuration.size} x {configuration.size} pixels; {training} noisy images{each} to "
        f"train, {configuration.testing} to test. Iterations and seconds: mean over the pictures, training alone."
    )


def _paper(noise: str) -> Table:
    columns = [Column("method"), *(Column(f"I{k}", "%", better="low") for k in range(1, 5))]
    name = "Gaussian" if noise == "gaussian" else noise
    note = "Its four images cannot be obtained: a neighbourhood, not figures to be matched. Its protocol is A."
    return Table(f"What the paper has, {name} noise", columns, [[k, *v] for k, v in PAPER[noise].items()], note)


def accuracy_figures(configuration: DenoisingConfiguration, results: Mapping[str, Result]) -> list[Figure]:
    """What was seen, hidden and found; and the errors as bars."""
    figures: list[Figure] = []
    for noise in configuration.noises:
        for protocol in configuration.protocols:
            if protocol != "A" or configuration.protocols == ("A",):  # nothing to see where all is found
                figures += _panels(configuration, results, noise, protocol)
    for noise in configuration.noises:
        figures += _bars(configuration, results, noise)
    return figures


def _panels(
    configuration: DenoisingConfiguration, results: Mapping[str, Result], noise: str, protocol: str
) -> list[Figure]:
    cells = next((cells for *_, cells in rows_of(configuration, results, noise, protocol)), None)
    if cells is None:
        return []
    names = [picture.name for picture in base_pictures(configuration)]
    images = [[GreyImage(cell[part]) for part in ("noisy", "truth", "found")] for cell in cells]
    caption = (
        f"The first test image of each picture: seen, hidden, and found by the blend. Protocol {protocol}: "
        f"{PROTOCOLS[protocol]}."
    )
    kind = "Gaussian" if noise == "gaussian" else noise
    return [
        Panels(f"{kind.capitalize()} noise, protocol {protocol}", caption, names, ["seen", "hidden", "found"], images)
    ]


def _bars(configuration: DenoisingConfiguration, results: Mapping[str, Result], noise: str) -> list[Figure]:
    means = {
        protocol: {
            title: float(np.mean(errors))
            for title, errors in errors_of(configuration, results, noise, protocol).items()
        }
        for protocol in configuration.protocols
    }
    methods = list(dict.fromkeys(title for found in means.values() for title in found if title != "threshold"))
    # Beyond a few per cent a bar only hides the others; its number is in the table.
    shown = [title for title in methods if title != SIMPLE["majority"][0]]
    values: list[list[Cell]] = [[means[protocol].get(title) for title in shown] for protocol in means]
    if not shown:
        return []
    kind = "Gaussian" if noise == "gaussian" else noise
    highlight = [title for title in shown if title.startswith("blend")]
    caption = "Mean over the pictures. Majority label and threshold, far out, are in the tables."
    groups = [f"protocol {protocol}" for protocol in means]
    return [Bars(f"Wrong pixels, {kind} noise", caption, groups, shown, values, "% wrong", highlight)]
