"""Every reader against damaged files: bytes flipped, ends cut off, files spliced, numbers replaced, counts made huge.

Whatever the bytes, a reader has to return a model or raise an error of `blendfield.errors`, within a second and little
memory; and what it accepts it must have read to the end: the same text with a number more or less is refused.

    python benchmarks/fuzz_readers.py --count 1000000

Files are made here; with BLENDFIELD_DATA, small real ones are damaged too. What fails is kept in results/fuzz/.
"""

from __future__ import annotations

import argparse
import gzip
import json
import lzma
import os
import random
import re
import resource
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import blendfield as bf
from blendfield.inference import memory

MEMORY = 2**28
"""Bytes that readers are told there are; the process itself may grow by eight times that."""
SLOW = 1.0
"""Seconds of the processor one input may take: a busy machine, or a paused process, is no fault of a reader."""
HANG = 30
"""Seconds of the processor after which a reader is stopped."""
WAITS = 900
"""Seconds by the clock after which it is stopped, should it wait for something."""
REAL = 0.2
"""How many of the damaged files are real ones, which are larger."""

Reader = Callable[[str], Any]
READERS: dict[str, Reader] = {
    "uai": bf.read_uai,
    "fg": bf.read_fg,
    "wcsp": bf.read_wcsp,
    "cfn": bf.read_cfn,
    "evid": bf.read_evidence,
    "PR": bf.read_pr,
    "MAR": bf.read_mar,
    "MPE": bf.read_mpe,
}
SHARES = {"uai": 8, "fg": 6, "wcsp": 6, "cfn": 6, "evid": 3, "PR": 1, "MAR": 2, "MPE": 1}

NUMBERS = [
    *b"0 1 2 3 -1 -2 0.5 -0.0 1e3 7 28 31 32 33 255 65536 268435456 2147483647 2147483648 4294967296".split(),
    *b"-2147483648 9223372036854775808 99999999999999999999 1e308 1e309 1e-400 -1e-400 nan inf -inf 1_0 0x10".split(),
    *b"1e 1. .5 +3 2,5 1e999999999 --1 1-2 00".split(),
    b"9" * 400,
    b"0." + b"0" * 400 + b"1",
    b"",
]
JUNK = [b"\0", b"\xff\xfe", b"MARKOV", b"#", b"[", b"]", b"{", b"}", b":", b'"', b"-BEGIN-", b"\n", b"<", b"salldiff"]
ANSWERS = ("PR", "MAR", "MPE")
_PACKED = re.compile(rb"\x1f\x8b|\xfd7zXZ")
_DIALECT = re.compile(rb"-BEGIN-|\A\s*\S+\s+\+?0*1(\.0*)?(\s|\Z)")  # several solutions, or first the number of samples
_SEPARATORS = b' \t\r\n\v\f",:'
"""Of .cfn files: what may follow the last bracket."""
_NUMBER = re.compile(rb"[^\s\[\]{},:\"]+")


def made_seeds(rng: np.random.Generator) -> dict[str, list[bytes]]:
    """Small valid files of every kind."""
    seeds: dict[str, list[bytes]] = {name: [] for name in READERS}
    with tempfile.TemporaryDirectory() as folder:
        for number in range(6):
            labels = rng.integers(1, 4, 4)
            regions = [(0, 1), (2, 1), (3,), (0, 2, 3)][: int(rng.integers(0, 5))]
            graph = bf.RegionGraph(labels, regions)
            tables = [np.round(rng.standard_normal(graph.shape(r)), 2) for r in range(len(regions))]
            for table in tables:
                table[rng.random(table.shape) < 0.2] = -np.inf
            for name, write in (("uai", bf.write_uai), ("fg", bf.write_fg)):
                path = os.path.join(folder, f"{number}.{name}")
                write(path, graph, tables)
                seeds[name].append(Path(path).read_bytes())
            seeds["wcsp"].append(_wcsp(rng, labels.tolist(), regions))
            seeds["cfn"].append(_cfn(rng, labels.tolist(), regions))
    seeds["uai"].append(b"BAYES 2 2 2 3 1 0 0 2 1 0 2 .5 .5 1 2 4 1 0 .5 .5")
    seeds["wcsp"].append(b"p 3 4 4 99\n4 4 -3\n-2 0 1 5 1\n0 0 3\n2 1 0 5 -1\n2 0 2 -1 >= 1 2\n0 3 0\n")
    seeds["cfn"].append(b"{problem: {p <9.50} variables: [[a b] 2 -3] functions: {f {[0 1] 1 [a 0 2]} g {[1 0] f}}}")
    seeds["evid"] += [b"0", b"2 1 0 3 1", b"2\n1 1 0\n2 0 1 2 1\n", b"1\n0\n"]
    seeds["PR"] += [b"PR\n-12.5\n", b"PR\n1\n3.25\n"]
    seeds["MAR"] += [b"MAR\n2 2 0.25 0.75 3 1 0 0\n", b"MAR\n1\n1 2 .5 .5\n"]
    seeds["MPE"] += [b"MPE\n3 0 1 2\n", b"MPE\n1\n2 1 1\n-BEGIN-\n2 0 1\n"]
    for name, files in seeds.items():
        files += [pack(file) for file in files[:2] for pack in (gzip.compress, lzma.compress)]
        seeds[name] = files
    return seeds


def _wcsp(rng: np.random.Generator, labels: list[int], regions: list[tuple[int, ...]]) -> bytes:
    lines = [f"p {len(labels)} 4 {len(regions)} 50", " ".join(map(str, labels))]
    for region in regions:
        tuples = [[int(rng.integers(labels[i])) for i in region] for _ in range(int(rng.integers(0, 4)))]
        different = {tuple(row): int(rng.integers(60)) for row in tuples}
        lines.append(" ".join(map(str, [len(region), *region, 3, len(different)])))
        lines += [" ".join(map(str, [*row, cost])) for row, cost in different.items()]
    return "\n".join(lines).encode() + b"\n"


def _cfn(rng: np.random.Generator, labels: list[int], regions: list[tuple[int, ...]]) -> bytes:
    functions = {}
    for k, region in enumerate(regions):
        size = int(np.prod([labels[i] for i in region]))
        functions[f"f{k}"] = {"scope": [f"x{i}" for i in region], "costs": rng.integers(-9, 9, size).tolist()}
    variables = {f"x{i}": [f"l{k}" for k in range(count)] for i, count in enumerate(labels)}
    network = {"problem": {"name": "p", "mustbe": "<50.0"}, "variables": variables, "functions": functions}
    return json.dumps(network, indent=int(rng.integers(0, 2))).encode()


def real_seeds(largest: int) -> dict[str, list[bytes]]:
    """Small files of the data sets, unpacked or as they are."""
    seeds: dict[str, list[bytes]] = {name: [] for name in READERS}
    root = Path(os.environ.get("BLENDFIELD_DATA", "nowhere"))
    for folder in ("uai2014", "graphical_models", "graphical_models/libdai"):
        for path in sorted((root / folder).glob("*")) if (root / folder).is_dir() else []:
            kind = path.name.removesuffix(".xz").removesuffix(".gz").rpartition(".")[2]
            if kind not in READERS or path.name.startswith("10_1"):  # its tables have a million entries each
                continue
            packed = path.read_bytes()
            unpack = {".xz": lzma.decompress, ".gz": gzip.decompress}.get(path.suffix, bytes)
            seeds[kind] += [text for text in {packed, unpack(packed)} if len(text) <= largest]
    return seeds


def damage(rng: random.Random, text: bytes, others: list[bytes]) -> bytes:
    """One to four accidents."""
    for _ in range(rng.choice((1, 1, 1, 2, 2, 3, 4))):
        text = rng.choice(ACCIDENTS)(rng, text, others)
    return text


def flip_bits(rng: random.Random, text: bytes, _: list[bytes]) -> bytes:
    if not text:
        return text
    place = rng.randrange(len(text))
    return text[:place] + bytes([text[place] ^ (1 << rng.randrange(8))]) + text[place + 1 :]


def cut_off(rng: random.Random, text: bytes, _: list[bytes]) -> bytes:
    return text[: rng.randrange(len(text) + 1)]


def cut_out(rng: random.Random, text: bytes, _: list[bytes]) -> bytes:
    start = rng.randrange(len(text) + 1)
    return text[:start] + text[start + rng.choice((1, 2, 5, 20)) :]


def repeat(rng: random.Random, text: bytes, _: list[bytes]) -> bytes:
    start = rng.randrange(len(text) + 1)
    stop = min(len(text), start + rng.choice((1, 3, 10, 50)))
    return text[:stop] + text[start:stop] * rng.choice((1, 2, 20)) + text[stop:]


def splice(rng: random.Random, text: bytes, others: list[bytes]) -> bytes:
    other = rng.choice(others)
    return text[: rng.randrange(len(text) + 1)] + other[rng.randrange(len(other) + 1) :]


def put_in(rng: random.Random, text: bytes, _: list[bytes]) -> bytes:
    place = rng.randrange(len(text) + 1)
    return text[:place] + rng.choice((*JUNK, *NUMBERS)) + text[place:]


def edit_number(rng: random.Random, text: bytes, _: list[bytes]) -> bytes:
    tokens = list(_NUMBER.finditer(text[:20000]))
    if not tokens:
        return text
    # Counts stand near the beginning.
    token = rng.choice(tokens[:12] if rng.random() < 0.5 else tokens)
    return text[: token.start()] + rng.choice(NUMBERS) + text[token.end() :]


def swap_numbers(rng: random.Random, text: bytes, _: list[bytes]) -> bytes:
    tokens = list(_NUMBER.finditer(text[:20000]))
    if len(tokens) < 2:
        return text
    first, second = sorted(rng.sample(tokens, 2), key=lambda token: token.start())
    between = text[first.end() : second.start()]
    return text[: first.start()] + second.group() + between + first.group() + text[second.end() :]


ACCIDENTS = [flip_bits, cut_off, cut_out, repeat, splice, put_in, edit_number, edit_number, edit_number, swap_numbers]


class Fuzz:
    def __init__(self, folder: str, seed: int, made: dict[str, list[bytes]], real: dict[str, list[bytes]]) -> None:
        self.rng = random.Random(seed)
        self.made = made
        self.real = real
        self.path = os.path.join(folder, "input")
        self.rows = {name: {"inputs": 0, "read": 0, "refused": 0, "checked": 0, "slowest": 0.0} for name in READERS}
        self.failures: list[tuple[str, bytes, str]] = []

    def one(self, name: str) -> None:
        is_real = self.real[name] and self.rng.random() < REAL
        text = damage(self.rng, self.rng.choice((self.real if is_real else self.made)[name]), self.made[name])
        row = self.rows[name]
        row["inputs"] += 1
        started = time.process_time()
        accepted = self.read(name, text)
        seconds = time.process_time() - started
        row["slowest"] = max(row["slowest"], seconds)
        if seconds > SLOW:
            self.failures.append((name, text, f"took {seconds:.1f} s"))
        row["read" if accepted else "refused"] += 1
        if accepted and self.rng.random() < 0.2:
            row["checked"] += 1
            self.check_the_end(name, text)

    def read(self, name: str, text: bytes) -> bool:
        """Whether the reader took it; everything but an error of ours is a failure."""
        with open(self.path, "wb") as file:
            file.write(text)
        signal.setitimer(signal.ITIMER_PROF, HANG)
        signal.alarm(WAITS)
        try:
            READERS[name](self.path)
        except bf.BlendfieldError as error:
            if "\n" in str(error) or len(str(error)) > 400 or self.path not in str(error):
                self.failures.append((name, text, f"a bad message: {error}"))
            return False
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt):
                raise
            self.failures.append((name, text, f"{type(error).__name__}: {error}"))
            return False
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
            signal.alarm(0)
        return True

    def check_the_end(self, name: str, text: bytes) -> None:
        """A text that was read is refused with one number more, and with its last number (or bracket) gone."""
        if name == "evid" or _PACKED.match(text) or (name in ANSWERS and _DIALECT.search(text)):
            return  # another dialect may well fit
        if name == "fg":
            text = re.sub(rb"#[^\n]*", b"", text)
        shorter = text.rstrip(_SEPARATORS)[:-1] if name == "cfn" else re.sub(rb"\S+\s*$", b"", text)
        for changed in (text.rstrip() + b"\n7", shorter):
            if self.read(name, changed):
                self.failures.append((name, changed, "read although a number was added or missing"))


def _timeout(*_: object) -> None:
    raise TimeoutError(f"no answer after {HANG} s of the processor or {WAITS} s by the clock")


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=10_000, help="inputs, of all readers together")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--largest", type=int, default=13_000, help="bytes of the largest real file that is damaged")
    parser.add_argument("--output", default="results/fuzz_readers.json")
    options = parser.parse_args(arguments)

    made, real = made_seeds(np.random.default_rng(options.seed)), real_seeds(options.largest)
    memory.available_bytes = lambda: MEMORY
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (size + 8 * MEMORY, resource.RLIM_INFINITY))
    for alarm in (signal.SIGALRM, signal.SIGPROF):
        signal.signal(alarm, _timeout)
    started = time.perf_counter()
    names = [name for name, share in SHARES.items() for _ in range(share)]
    folder = "/dev/shm" if os.path.isdir("/dev/shm") else None
    with tempfile.TemporaryDirectory(dir=folder) as place:
        fuzz = Fuzz(place, options.seed, made, real)
        for number in range(options.count):
            fuzz.one(fuzz.rng.choice(names))
            if len(fuzz.failures) > 50:
                break
            if number % 50_000 == 49_999:
                print(f"{number + 1} inputs, {len(fuzz.failures)} failures", file=sys.stderr, flush=True)
    seconds = time.perf_counter() - started
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - before
    print(f"{'reader':8}{'files':>7}{'inputs':>10}{'read':>9}{'refused':>9}{'ends checked':>14}{'slowest, ms':>13}")
    for name, row in fuzz.rows.items():
        counts = f"{row['inputs']:>10}{row['read']:>9}{row['refused']:>9}{row['checked']:>14}"
        print(f"{name:8}{len(made[name]) + len(real[name]):>7}{counts}{1e3 * row['slowest']:>13.0f}")
    total = sum(int(row["inputs"]) for row in fuzz.rows.values())
    print(f"{total} inputs, {len(fuzz.failures)} failures, {seconds:.0f} s, memory grew by {memory.in_words(grown)}")
    _save(options.output, fuzz, {"inputs": total, "seconds": seconds, "grown_bytes": grown, "seed": options.seed})
    return 1 if fuzz.failures else 0


def _save(output: str, fuzz: Fuzz, summary: dict[str, Any]) -> None:
    folder = Path(output).parent
    folder.mkdir(parents=True, exist_ok=True)
    Path(output).write_text(json.dumps({**summary, "failures": len(fuzz.failures), "readers": fuzz.rows}, indent=1))
    for number, (name, text, why) in enumerate(fuzz.failures[:50]):
        kept = folder / "fuzz" / f"{number}.{name}"
        kept.parent.mkdir(exist_ok=True)
        kept.write_bytes(text)
        print(f"{kept}: {why}")


if __name__ == "__main__":
    sys.exit(main())
