"""Binary pictures found again in noise: train, test, and a report with pictures.

Every finished part is kept in the report's folder: the same command goes on where it stopped. Ctrl-C stops, with a
report of what is finished. `blendfield denoise
predict MODEL IMAGE...` cleans image files.
"""

from __future__ import annotations

import argparse
import shlex
import sys
from typing import Any

from blendfield.applications.cells import Cell, Result
from blendfield.applications.denoising.configuration import (
    C_GRID,
    MODELS,
    NOISES,
    PROTOCOLS,
    RIVALS,
    STUDIES,
    DenoisingConfiguration,
)
from blendfield.cli.arguments import integer, number

HELP = "find binary pictures again in noise: train, test, report; clean image files"

QUICK: dict[str, Any] = {
    "noises": NOISES,
    "size": 48,
    "copies": 20,
    "tolerance": 1e-3,
    "rivals": ("pseudo-likelihood",),
}
FULL: dict[str, Any] = {"noises": NOISES, "rivals": RIVALS, "both": True, "studies": STUDIES, "C": None}
INTERRUPTED = 130
NOT_GIVEN: Any = argparse.SUPPRESS


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(work=_study)
    extent = parser.add_mutually_exclusive_group()
    extent.add_argument("--quick", action="store_true", help="both noises, 48 pixels, 20 copies: about a minute")
    extent.add_argument("--full", action="store_true", help="all studies, noises and rivals; goes on where it stopped")
    task = parser.add_argument_group("task")
    add: Any = task.add_argument
    add("--noise", dest="noises", nargs="+", choices=NOISES, default=NOT_GIVEN, help="default: gaussian")
    add("--protocol", dest="protocols", nargs="+", choices=PROTOCOLS, default=NOT_GIVEN, help="default: A B C")
    add("--images", metavar="DIR", default=NOT_GIVEN, help="your own binary pictures, or the word binary_images")
    add("--size", metavar="N", type=integer(1), default=NOT_GIVEN, help="pixels a side (64)")
    add("--copies", metavar="N", type=integer(1), default=NOT_GIVEN, help="noisy images per picture (50)")
    add("--seed", metavar="N", type=integer(0), default=NOT_GIVEN, help="of the noise (0)")
    add("--studies", nargs="+", choices=STUDIES, default=NOT_GIVEN, help="default: accuracy; with --full all")
    model = parser.add_argument_group("model and training")
    add = model.add_argument
    add("--model", choices=MODELS, default=NOT_GIVEN, help="weights; default: free for A and C, tied for B")
    add("--epsilon", metavar="E", type=number(0, "a temperature >= 0"), default=NOT_GIVEN, help="temperature (1)")
    add("--counting-numbers", choices=("ones", "cover", "cover-outer"), default=NOT_GIVEN, help="default: cover")
    grid = ", ".join(f"{C:g}" for C in C_GRID)
    add("--C", type=_strength, default=NOT_GIVEN, help=f"regulariser (1), or auto: chosen of {grid}; --full: auto")
    add("--no-loss", dest="loss", action="store_false", default=NOT_GIVEN, help="without the Hamming loss")
    add("--rivals", nargs="+", choices=(*RIVALS, "all", "none"), default=NOT_GIVEN, help="other trainers beside it")
    add("--tolerance", metavar="T", type=number(0, "a number > 0"), default=NOT_GIVEN, help="relative gap (1e-4)")
    add("--max-iterations", metavar="N", type=integer(1), default=NOT_GIVEN, help="of the blend (1000)")
    add("--time-limit", metavar="S", type=number(0, "seconds > 0"), default=NOT_GIVEN, help="of each training")
    add("--backend", metavar="B", default=NOT_GIVEN, help="auto, cpu or reference")
    add("--threads", metavar="N", type=integer(1), default=NOT_GIVEN, help="default: all cores")
    parser.add_argument("--report", metavar="DIR", default="denoising", help="folder to write to (denoising)")
    _add_predict(parser.add_subparsers(metavar="predict", required=False))


def _add_predict(commands: Any) -> None:
    text = "Clean image files with a model that `blendfield denoise` has learned; writes NAME-clean.png for each."
    parser = commands.add_parser("predict", help="clean image files", description=text, allow_abbrev=False)
    parser.set_defaults(work=_predict)
    parser.add_argument("model", metavar="MODEL", help="such as denoising/model-gaussian.safetensors")
    parser.add_argument("images", metavar="IMAGE", nargs="+", help="an opaque grey or RGB image file, 8 bits")
    parser.add_argument("--output", "-o", metavar="DIR", help="folder for the PNGs; default: beside each image")


def run(arguments: argparse.Namespace) -> int:
    return int(arguments.work(arguments))


def _study(arguments: argparse.Namespace) -> int:
    from blendfield.applications.denoising.clean import kept_model, noisy_example
    from blendfield.applications.denoising.study import run_study
    from blendfield.reports import text_table

    configuration = configuration_of(arguments)
    command = "blendfield denoise " + shlex.join(_arguments_of(arguments))
    finished = run_study(configuration, arguments.report, command.strip(), _show)
    for table in finished.record.tables:
        print(text_table(table))
    print(finished.record.answer)
    if finished.noises:
        model = shlex.quote(str(kept_model(finished.page.parent, finished.noises[0])))
        image = shlex.quote(str(noisy_example(finished.page.parent, finished.noises[0])))
        print(f"clean an image of your own, or:  blendfield denoise predict {model} {image}")
    print(f"report:  {finished.page}")
    return 0 if finished.whole else INTERRUPTED


def configuration_of(arguments: argparse.Namespace) -> DenoisingConfiguration:
    """Defaults of --quick or --full, and what was said besides."""
    given = dict(QUICK if arguments.quick else FULL if arguments.full else {})
    names = {field for field in DenoisingConfiguration.__dataclass_fields__ if hasattr(arguments, field)}
    for name in names:
        value = getattr(arguments, name)
        given[name] = tuple(value) if isinstance(value, list) else value
    if "all" in given.get("rivals", ()):
        given["rivals"] = RIVALS
    elif "none" in given.get("rivals", ()):
        given["rivals"] = ()
    return DenoisingConfiguration(**given)


def _strength(text: str) -> float | None:
    return None if text == "auto" else number(0, "a number > 0, or auto")(text)


def _show(cell: Cell, result: Result) -> None:
    """One line for a finished cell, where the output is not a terminal's (that has its own line)."""
    if not sys.stderr.isatty():
        error = f"  {result['error']:.3f} % wrong" if "error" in result else ""
        print(f"{cell.name}{error}  {result['seconds']:.1f} s", file=sys.stderr, flush=True)


def _arguments_of(arguments: argparse.Namespace) -> list[str]:
    """What would give these arguments again."""
    words = ["--quick"] * arguments.quick + ["--full"] * arguments.full
    flags = {"noises": "noise", "protocols": "protocol"}
    for name in DenoisingConfiguration.__dataclass_fields__:
        if not hasattr(arguments, name):
            continue
        value = getattr(arguments, name)
        if name == "loss":
            words.append("--no-loss")
            continue
        words.append("--" + flags.get(name, name).replace("_", "-"))
        values = value if isinstance(value, list) else [value]
        words += [
            "auto" if name == "C" and value is None else f"{v:g}" if isinstance(v, float) else str(v) for v in values
        ]
    return words


def _predict(arguments: argparse.Namespace) -> int:
    from blendfield.applications.denoising.clean import clean_files

    for path in clean_files(arguments.model, arguments.images, arguments.output):
        print(path)
    return 0
