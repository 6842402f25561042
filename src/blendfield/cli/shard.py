"""Write the training samples of a configuration as shards, from which workers read what they need.

CONFIG.toml is that of `blendfield train`; the folder must be new or empty. `blendfield train FOLDER` learns from it
(docs/scale-out.md).
"""

from __future__ import annotations

import argparse

from blendfield.cli.arguments import integer
from blendfield.cli.configuration import read_configuration
from blendfield.cli.train import read_data
from blendfield.formats.shards import ENTRIES, Shards, write_shards

HELP = "write training samples as shards"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("configuration", metavar="CONFIG.toml", help="data and model, as for train")
    parser.add_argument("folder", metavar="FOLDER", help="a new or empty folder")
    parser.add_argument(
        "--entries", metavar="N", type=integer(1), default=ENTRIES, help=f"table entries per shard; default {ENTRIES}"
    )


def run(arguments: argparse.Namespace) -> int:
    given = read_configuration(arguments.configuration, {})
    training, _ = read_data(given)
    samples = given.classifier.samples(training.X, training.y, training.weights)
    given.classifier.feature_names_in_ = training.names
    write_shards(arguments.folder, samples, arguments.entries, given.classifier.record(samples))
    print(f"{arguments.folder}: {Shards(arguments.folder)!r}")
    return 0
