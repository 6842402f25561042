"""Write a model in another format.

Tables stay as they are: scores become exp(score) in .uai and .fg files, and costs become exp(-cost).
"""

from __future__ import annotations

import argparse

from blendfield.cli import models
from blendfield.formats.models import check_format, write_model

HELP = "write a model in another format"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "source", metavar="A", help="a .uai, .fg, .wcsp or .cfn file, or its .gz or .xz; - reads a pipe"
    )
    parser.add_argument("target", metavar="B", help="a .uai or .fg file to write, compressed if it ends in .gz or .xz")
    parser.add_argument("--from", dest="source_format", choices=models.FORMATS, help="format of A")
    parser.add_argument("--to", dest="target_format", choices=models.WRITABLE, help="format of B")


def run(arguments: argparse.Namespace) -> int:
    check_format(arguments.target, arguments.target_format, models.WRITABLE)  # before a large file is read for nothing
    graph, potentials = models.read(arguments.source, arguments.source_format)
    write_model(arguments.target, graph, potentials, arguments.target_format)
    return 0
