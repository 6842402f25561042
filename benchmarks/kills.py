"""Kill a training run at random moments, also while it writes, and go on: is there always a checkpoint, and does the
run end at the same weights?

    python benchmarks/kills.py --kills 20

A run is started again and again with fit(..., checkpoint=path, resume=True) and killed (SIGKILL) after a random time,
until it has been killed often enough; then it may finish. After every kill the checkpoint has to load, and nothing else
may lie in its folder (but a whole file that the next write removes, see blendfield/files.py). At the end the weights
have to be those of a run that was left alone, bit for bit.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np

import blendfield as bf
from blendfield.formats.plain import from_metadata
from blendfield.formats.safetensors import TensorFile
from blendfield.learning import checkpoint

LEFT_OVER = ".checkpoint.tmp"


def samples(side: int, count: int) -> list[bf.Sample]:
    """Noisy images of stripes; weights shared by all positions."""
    rng = np.random.default_rng(0)
    graph = bf.grid_graph((side, side), 3)
    pairs, singles = np.arange(graph.num_given), np.arange(graph.num_given, graph.num_regions)
    labels = np.tile(np.arange(side) // 4 % 3, side)
    return [
        bf.Sample(
            graph,
            [
                bf.TiedLinear("pixel", singles, np.eye(3)[labels] + 0.7 * rng.standard_normal((len(labels), 3))),
                bf.TableFeatures("pair", pairs, np.eye(3)[None]),
            ],
            labels,
        )
        for _ in range(count)
    ]


def run(folder: Path, side: int, count: int, iterations: int) -> None:
    """The run that is killed; says on its output when a write begins and ends."""
    write = checkpoint.write

    def told(*arguments: object) -> None:
        print("writing", flush=True)
        write(*arguments)  # type: ignore[arg-type]
        print("written", flush=True)

    checkpoint.write = told  # type: ignore[assignment]
    learner = bf.BlendedLearner(0.2, 1.0, "cover", tolerance=1e-7, max_iterations=iterations)
    data = samples(side, count)
    print("begins", flush=True)
    learner.fit(data, checkpoint=folder / "checkpoint", checkpoint_every=2, resume=True)
    learner.save(folder / "model")
    print("ends", flush=True)


def life(folder: Path, arguments: list[str], seconds: float | None) -> str:
    """Start the run, and kill it `seconds` after it has begun; the last thing that it said."""
    command = [sys.executable, __file__, "--run", str(folder), *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        said = [process.stdout.readline().strip()]
        if seconds is not None:
            timer = threading.Timer(seconds, process.send_signal, [signal.SIGKILL])
            timer.start()
        said += [line.strip() for line in process.stdout]
        if seconds is not None:
            timer.cancel()
        if process.wait() not in (0, -signal.SIGKILL):
            raise RuntimeError("the run has failed")
    return said[-1]


def weights(folder: Path) -> bytes:
    return bf.BlendedLearner.load(folder / "model").weights_.tobytes()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--side", type=int, default=48)
    parser.add_argument("--count", type=int, default=8)
    parser.add_argument("--iterations", type=int, default=400)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", type=Path, default=Path("results/kills.json"))
    parser.add_argument("--run", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    size = [f"--side={options.side}", f"--count={options.count}", f"--iterations={options.iterations}"]
    if options.run is not None:
        run(options.run, options.side, options.count, options.iterations)
        return
    rng = random.Random(options.seed)
    with tempfile.TemporaryDirectory() as alone, tempfile.TemporaryDirectory() as killed:
        start = time.perf_counter()
        life(Path(alone), size, None)
        seconds = time.perf_counter() - start
        expected = weights(Path(alone))
        kills = during_writes = between = absent = finished = 0
        iterations = []
        while kills < options.kills:
            last = life(Path(killed), size, rng.uniform(0.0, seconds / 6))
            if last == "ends":  # too quick: once more from the start
                finished += 1
                assert weights(Path(killed)) == expected
                for path in Path(killed).iterdir():
                    path.unlink()
                continue
            kills += 1
            during_writes += last == "writing"
            names = set(os.listdir(killed))
            between += LEFT_OVER in names
            names.discard(LEFT_OVER)
            if not names:
                absent += 1  # killed before the first write was done
                continue
            assert names == {"checkpoint"}, names
            state = from_metadata(TensorFile(Path(killed) / "checkpoint"), "state")
            iterations.append(state["iteration"])
        life(Path(killed), size, None)
        assert weights(Path(killed)) == expected
        assert set(os.listdir(killed)) - {LEFT_OVER} == {"checkpoint", "model"}
        result = {
            "kills": kills,
            "during a write": during_writes,
            "between naming a file and moving it": between,
            "before the first checkpoint": absent,
            "iterations in the checkpoints": iterations,
            "runs finished in between": finished,
            "same weights at the end": True,
        }
    print(json.dumps(result))
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
