"""Beliefs, the best labels found and certified bounds of a model in a file.

Prints a summary, or JSON; writes answers by the suffix of --output: .PR (log10 of the partition function), .MAR
(marginals), .MPE (labels), .json, .npz. On a terminal a line shows the bounds as they close in; Ctrl-C stops and
writes what is there.
"""

from __future__ import annotations

import argparse
import os

from blendfield.cli import models, outputs
from blendfield.cli.arguments import add_file, integer, number
from blendfield.cli.progress import ProgressLine
from blendfield.errors import FileFormatError, OptionError
from blendfield.formats.evidence import Evidence, read_evidence
from blendfield.graph import RegionGraph
from blendfield.inference import infer
from blendfield.inference.options import DATA_TYPES, METHODS

HELP = "beliefs, labels and bounds of a model"

NOT_CONVERGED = 1
INTERRUPTED = 130

COUNTING_NUMBERS = ("auto", "ones", "cover", "cover-outer", "bethe", "trw")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_file(parser)
    model = parser.add_argument_group("model")
    model.add_argument("--evidence", metavar="F", help="observed labels, a .uai.evid file")
    model.add_argument("--sample", metavar="K", type=integer(0), help="which sample of the evidence file, from 0")
    model.add_argument(
        "--epsilon",
        metavar="E",
        type=number(0, "a temperature >= 0"),
        default=1.0,
        help="temperature: 1 sums (default), 0 maximises",
    )
    method = parser.add_argument_group("method")
    method.add_argument("--method", choices=METHODS, default=METHODS[0], help=f"default: {METHODS[0]}")
    method.add_argument(
        "--counting-numbers",
        choices=COUNTING_NUMBERS,
        help="weights of the regions' entropies; default: cover for norm-product, else the method's own",
    )
    method.add_argument("--damping", metavar="D", type=number(0, "a share from 0 to below 1"), help="of old messages")
    method.add_argument("--restarts", metavar="N", type=integer(0), default=0, help="more searches for better labels")
    method.add_argument("--tighten", metavar="N", type=integer(0), default=0, help="larger and larger regions, N times")
    stop = parser.add_argument_group("when to stop")
    stop.add_argument("--time-limit", metavar="S", type=number(0, "seconds >= 0"), help="seconds")
    stop.add_argument("--tolerance", metavar="T", type=number(0, "a number >= 0"), default=1e-6, help="relative gap")
    stop.add_argument("--max-iterations", metavar="N", type=integer(0), default=1000, help="full sweeps")
    machine = parser.add_argument_group("machine")
    machine.add_argument("--threads", metavar="N", type=integer(1), help="default: all cores")
    machine.add_argument("--dtype", choices=DATA_TYPES, default="float64")
    machine.add_argument("--backend", metavar="B", default="auto", help="auto, cpu or reference")
    output = parser.add_argument_group("output")
    output.add_argument("--output", "-o", metavar="F", action="append", default=[], help="may be given several times")
    output.add_argument("--json", action="store_true", help="print JSON instead of the summary")
    output.add_argument("--quiet", "-q", action="store_true", help="no progress line")


def run(arguments: argparse.Namespace) -> int:
    for path in arguments.output:  # before any work: what cannot be written is not worth computing
        outputs.check(path, arguments.epsilon)
    graph, potentials = models.read(arguments.file, arguments.format, arguments.edges)
    evidence = _evidence(arguments, graph) if arguments.evidence else None
    numbers = arguments.counting_numbers or ("cover" if arguments.method == "norm-product" else "auto")
    progress = ProgressLine(wanted=not arguments.quiet)
    try:
        result = infer(
            graph,
            potentials,
            epsilon=arguments.epsilon,
            counting_numbers=numbers,
            method=arguments.method,
            max_iterations=arguments.max_iterations,
            tolerance=arguments.tolerance,
            evidence=evidence,
            time_limit=arguments.time_limit,
            callback=progress if progress.active else None,
            threads=arguments.threads,
            dtype=arguments.dtype,
            backend=arguments.backend,
            damping=arguments.damping,
            restarts=arguments.restarts,
            tighten=arguments.tighten,
        )
    finally:
        progress.clear()
    answer = outputs.Answer(arguments.file, arguments.method, numbers, result)
    print(answer.json() if arguments.json else answer.text(), flush=True)
    for path in arguments.output:
        outputs.write(path, answer)
    if result.stop_reason == "interrupted":
        return INTERRUPTED
    return 0 if result.converged else NOT_CONVERGED


def _evidence(arguments: argparse.Namespace, graph: RegionGraph) -> Evidence:
    samples = read_evidence(arguments.evidence, graph)
    if arguments.sample is None and len(samples) > 1:
        raise OptionError(
            f"{os.fspath(arguments.evidence)}: expected one sample, got {len(samples)}; "
            f"choose one by --sample 0 to --sample {len(samples) - 1}"
        )
    chosen = arguments.sample or 0
    if chosen >= len(samples):
        raise FileFormatError(f"{arguments.evidence}: expected a sample {chosen}, got {len(samples)} samples, from 0")
    return samples[chosen]
