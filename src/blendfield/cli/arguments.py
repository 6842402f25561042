"""Arguments that several commands take."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable

from blendfield.cli.models import FORMATS


def add_file(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "file", metavar="FILE", help="a .uai, .fg, .wcsp or .cfn file, or its .gz or .xz; - reads a pipe"
    )
    parser.add_argument("--format", choices=FORMATS, help="of FILE, where its name does not say it")
    parser.add_argument(
        "--edges",
        choices=("hasse", "variables"),
        default="hasse",
        help="link regions to the largest ones inside them (default), or to single variables only",
    )


def number(least: float, expected: str) -> Callable[[str], float]:
    """A type for argparse: a finite number from `least` on."""

    def parse(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not least <= value < math.inf:
            raise argparse.ArgumentTypeError(f"expected {expected}, got {text!r}")
        return value

    return parse


def integer(least: int) -> Callable[[str], int]:
    """A type for argparse: an integer from `least` on."""

    def parse(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            value = least - 1
        if value < least:
            raise argparse.ArgumentTypeError(f"expected an integer of at least {least}, got {text!r}")
        return value

    return parse
