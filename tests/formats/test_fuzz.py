import json
import subprocess
import sys
from pathlib import Path

FUZZ = Path(__file__).parents[2] / "benchmarks" / "fuzz_readers.py"


def test_readers_survive_damaged_files(tmp_path):
    """A few thousand inputs of those that `benchmarks/fuzz_readers.py` makes; in a process of its own, whose memory is
    limited.
    """
    output = tmp_path / "fuzz.json"
    command = [sys.executable, str(FUZZ), "--count", "4000", "--seed", "7", "--output", str(output)]
    finished = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert finished.returncode == 0, finished.stdout + finished.stderr
    found = json.loads(output.read_text())
    assert found["inputs"] == 4000
    assert all(row["read"] > 5 and row["refused"] > 5 for row in found["readers"].values())
