"""One page of one run, or a page that compares several.

RUN is a folder that holds run.json, or such a file. Writes index.html, which needs no other file and no network,
tables.txt and a PNG of every figure.
"""

from __future__ import annotations

import argparse

from blendfield.reports import read_run, write_report

HELP = "a page of pictures, tables and figures from the records of runs"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("runs", metavar="RUN", nargs="+", help="a folder with run.json, or such a file")
    parser.add_argument("--output", "-o", metavar="DIR", required=True, help="folder to write to; made if missing")


def run(arguments: argparse.Namespace) -> int:
    print(write_report([read_run(path) for path in arguments.runs], arguments.output))
    return 0
