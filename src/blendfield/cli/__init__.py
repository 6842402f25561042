"""The command line: `blendfield COMMAND ...`; what each command does is in a module of its own.

A command is a module with `HELP`, `add_arguments(parser)` and `run(arguments) -> exit code`, listed in COMMANDS.
"""

from __future__ import annotations

import argparse
import os
import sys
import warnings
from typing import Any, NoReturn

from blendfield.cli import convert, denoise, evaluate, infer, predict, report, shard, show, train
from blendfield.errors import BlendfieldError, BlendfieldWarning

COMMANDS = {
    "train": train,
    "predict": predict,
    "evaluate": evaluate,
    "infer": infer,
    "show": show,
    "convert": convert,
    "denoise": denoise,
    "shard": shard,
    "report": report,
}

FAULT = 2
"""Exit code: the command line or a file is not as it should be, or there is not enough memory."""
INTERRUPTED = 130
BROKEN_PIPE = 141

EPILOG = """exit codes:
  0    done (infer, train: and converged)
  1    infer, train: stopped before convergence; what was found is written all the same
  2    wrong arguments, unreadable or impossible input, not enough memory: one line says what was expected
  130  interrupted; infer and train write what they have
"""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """One line, and where to read more."""
        self.exit(FAULT, f"blendfield: {message} (see {self.prog} --help)\n")


class _Version(argparse.Action):
    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> NoReturn:
        from blendfield import __version__

        print(f"blendfield {__version__}")
        parser.exit()


def main(arguments: list[str] | None = None) -> int:
    """Runs one command line (without the program's name; None: the process's own) and returns its exit code."""
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", BlendfieldWarning)
            code = _run(_parser().parse_args(arguments))
        for warning in caught:
            _say(f"warning: {warning.message}")
        sys.stdout.flush()
        return code
    except SystemExit as leaving:  # argparse: help, version, wrong arguments
        return leaving.code if isinstance(leaving.code, int) else FAULT
    except BrokenPipeError:
        # Whoever read our output has seen enough. Python must not find the closed pipe once more when it ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN_PIPE
    except KeyboardInterrupt:
        _say("interrupted")
        return INTERRUPTED
    except BlendfieldError as fault:
        _say(str(fault))
    except MemoryError:
        _say("not enough memory")
    except OSError as fault:
        _say(f"{fault.filename}: {fault.strerror}" if fault.filename is not None else str(fault))
    return FAULT


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="blendfield",
        description="Learning and inference in random fields, with a certificate.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="print the version")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True, parser_class=_Parser)
    for name, command in COMMANDS.items():
        command.add_arguments(
            commands.add_parser(
                name,
                help=command.HELP,
                description=command.__doc__,
                formatter_class=argparse.RawDescriptionHelpFormatter,
                allow_abbrev=False,
            )
        )
    return parser


def _run(arguments: argparse.Namespace) -> int:
    return int(COMMANDS[arguments.command].run(arguments))


def _say(message: str) -> None:
    """One line to the standard error."""
    print("blendfield: " + " ".join(message.split("\n")), file=sys.stderr)
