"""The command line as a stranger would use it."""

import json
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
import time
from fcntl import ioctl
from pathlib import Path

import numpy as np
import pytest

import blendfield as bf
from blendfield.cli import COMMANDS, main
from blendfield.inference import memory

SMALL = "MARKOV\n3\n2 3 2\n2\n2 0 1\n2 2 1\n\n6\n1 2 3 4 5 6\n6\n0 1 2 3 4 5\n"


@pytest.fixture
def small(tmp_path):
    path = tmp_path / "small.uai"
    path.write_text(SMALL)
    return str(path)


@pytest.fixture
def hard(tmp_path):
    """A model that is far from done after a second."""
    rng = np.random.default_rng(0)
    graph = bf.grid_graph((60, 60), 8)
    path = tmp_path / "hard.uai"
    bf.write_uai(path, graph, [3 * rng.standard_normal((8, 8)) for _ in range(graph.num_given)])
    return str(path)


def run(*arguments, **options):
    """The command in a process of its own."""
    command = [sys.executable, "-m", "blendfield", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, **options)


def test_infer_prints_a_summary(small, capsys):
    assert main(["infer", small, "--counting-numbers", "bethe"]) == 0
    out, err = capsys.readouterr()
    first, second = np.arange(1, 7).reshape(2, 3), np.arange(6).reshape(2, 3)
    value = np.log(sum(first[i, j] * second[k, j] for i in range(2) for j in range(3) for k in range(2)))
    assert re.search(rf"^upper +{value:.8g}", out, re.MULTILINE)
    assert re.search(r"^labels +1 2 1$", out, re.MULTILINE)
    assert "certified" in out
    assert err == ""


def test_json_is_strict_and_complete(small, capsys):
    assert main(["infer", small, "--json", "--epsilon", "0"]) == 0
    answer = json.loads(capsys.readouterr().out, parse_constant=pytest.fail)
    assert answer["labels"] == [1, 2, 1]
    assert answer["score"] == pytest.approx(np.log(30))
    assert [len(marginal) for marginal in answer["marginals"]] == [2, 3, 2]
    assert answer["converged"] is True
    assert answer["stop_reason"] == "converged"
    assert answer["certain"] == [True, True, True]
    assert answer["integrality"] == 1.0


def test_the_summary_says_what_is_proved(small, capsys):
    assert main(["infer", small, "--epsilon", "0", "--counting-numbers", "bethe"]) == 0
    out, _ = capsys.readouterr()
    assert "certain  3 of 3 labels are proved; 100 % of the beliefs are integral" in out
    assert "after 1 sweep," in out
    assert main(["infer", small]) == 0
    assert "proved" not in capsys.readouterr().out


def test_every_output(small, tmp_path, capsys):
    names = ("a.PR", "a.MAR.gz", "a.MPE", "a.json", "a.npz")
    outputs = [argument for name in names for argument in ("--output", str(tmp_path / name))]
    assert main(["infer", small, "--counting-numbers", "bethe", *outputs]) == 0
    graph, potentials = bf.read_uai(small)
    result = bf.infer(graph, potentials, counting_numbers="bethe")
    assert bf.read_pr(tmp_path / "a.PR") == pytest.approx(result.upper / np.log(10))
    for region, marginal in zip(graph.single_regions, bf.read_mar(tmp_path / "a.MAR.gz"), strict=True):
        np.testing.assert_allclose(marginal, result.beliefs[int(region)], atol=1e-12)
    assert bf.read_mpe(tmp_path / "a.MPE").tolist() == result.labels.tolist()
    assert json.loads((tmp_path / "a.json").read_text())["upper"] == pytest.approx(result.upper)
    with np.load(tmp_path / "a.npz") as arrays:
        np.testing.assert_allclose(arrays["beliefs"], result.beliefs.flat, atol=1e-12)
        assert arrays["labels"].tolist() == result.labels.tolist()
        assert arrays["history_upper"][-1] == pytest.approx(result.upper)
    assert "upper" in capsys.readouterr().out


def test_evidence_and_samples(small, tmp_path, capsys):
    evidence = tmp_path / "a.evid"
    evidence.write_text("2\n1 0 0\n1 1 0\n")
    assert main(["infer", small, "--evidence", str(evidence)]) == 2
    assert "expected one sample, got 2; choose one by --sample 0 to --sample 1" in capsys.readouterr().err
    assert main(["infer", small, "--evidence", str(evidence), "--sample", "1", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["labels"] == [1, 0, 1]
    assert main(["infer", small, "--evidence", str(evidence), "--sample", "2"]) == 2
    assert "expected a sample 2, got 2 samples" in capsys.readouterr().err


def test_options_reach_infer(small, monkeypatch, capsys):
    given = {}

    def infer(graph, potentials, **options):
        given.update(options)
        return bf.infer(graph, potentials)

    monkeypatch.setattr(COMMANDS["infer"], "infer", infer)
    flags = "--epsilon 0.5 --counting-numbers ones --method norm-product --time-limit 9 --tolerance 1e-3 --threads 1"
    flags += " --max-iterations 7 --dtype float32 --backend cpu --restarts 2"
    assert main(["infer", small, *flags.split()]) == 0
    expected = {"epsilon": 0.5, "counting_numbers": "ones", "method": "norm-product", "time_limit": 9.0, "threads": 1}
    expected |= {"tolerance": 1e-3, "max_iterations": 7, "dtype": "float32", "backend": "cpu", "restarts": 2}
    assert expected.items() <= given.items()
    main(["infer", small])
    assert given["counting_numbers"] == "cover"
    assert given["tighten"] == 0
    main(["infer", small, "--epsilon", "0", "--tighten", "3"])
    assert given["tighten"] == 3


def test_not_converged_is_said_and_written(hard, tmp_path, capsys):
    code = main(["infer", hard, "--max-iterations", "2", "--output", str(tmp_path / "a.MPE")])
    assert code == 1
    assert "max_iterations after 2 sweeps" in capsys.readouterr().out
    assert len(bf.read_mpe(tmp_path / "a.MPE")) == 3600


def test_convert(small, tmp_path, capsys):
    target = str(tmp_path / "small.fg.xz")
    assert main(["convert", small, target]) == 0
    assert capsys.readouterr() == ("", "")
    graph, potentials = bf.read_model(target)
    expected, tables = bf.read_uai(small)
    assert graph.regions == expected.regions
    np.testing.assert_allclose(np.exp(potentials[1]), np.exp(tables[1]), atol=1e-14)


def test_show(small, capsys):
    assert main(["show", small, "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["variables"] == 3
    assert facts["labels"] == {"2": 2, "3": 1}
    assert facts["shapes"] == {"2": 2, "3": 1, "2x3": 2}
    assert (facts["regions"], facts["regions_given"], facts["edges"], facts["levels"]) == (5, 2, 4, 2)
    assert (facts["forbidden_entries"], facts["table_entries"], facts["treewidth_at_most"]) == (1, 19, 1)
    assert facts["method"] == "exact"
    assert main(["show", small]) == 0
    assert "treewidth   at most 1" in capsys.readouterr().out


def test_show_counts_what_exact_inference_would_need(tmp_path, capsys):
    """A clique of 40 variables with 8 labels: 2^120 entries."""
    graph = bf.RegionGraph([8] * 40, [(i, k) for i in range(40) for k in range(i)])
    bf.write_uai(tmp_path / "clique.uai", graph, [None] * graph.num_given)
    main(["show", str(tmp_path / "clique.uai"), "--json"])
    facts = json.loads(capsys.readouterr().out)
    assert (facts["treewidth_at_most"], facts["log2_largest_clique"]) == (39, 120)
    assert facts["bytes"]["exact"] is None
    assert facts["method"] == "norm-product"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], r"the following arguments are required: COMMAND \(see blendfield --help\)"),
        (["nonsense"], "invalid choice: 'nonsense'"),
        (["infer"], r"the following arguments are required: FILE \(see blendfield infer --help\)"),
        (["infer", "nothing.uai"], "nothing.uai: No such file or directory"),
        (["infer", "folder.uai"], "folder.uai: Is a directory"),
        (["infer", "small.txt"], r"small.txt: expected a name that ends in one of \.uai"),
        (["infer", "-"], "-: expected --format"),
        (["show", "binary.uai"], "binary.uai:1: expected MARKOV or BAYES, got "),
        (["infer", "bad.uai"], "bad.uai:3: expected 3 numbers, but 2 are left: a number of labels, got '2'"),
        (["infer", "bad.uai.gz"], "bad.uai.gz: damaged or truncated compressed file"),
        (["infer", "impossible.uai"], "forbidden"),
        (["infer", "small.uai", "--epsilon", "-1"], "argument --epsilon: expected a temperature >= 0, got '-1'"),
        (["infer", "small.uai", "--epsilon", "nan"], "expected a temperature >= 0, got 'nan'"),
        (["infer", "small.uai", "--threads", "0"], "expected an integer of at least 1, got '0'"),
        (["infer", "small.uai", "--method", "magic"], "invalid choice: 'magic'"),
        (["infer", "small.uai", "--backend", "abacus"], "backend 'abacus' is unknown"),
        (["infer", "small.uai", "--output", "a.txt"], "expected a name that ends in .PR, .MAR, .MPE, .json, .npz"),
        (["infer", "small.uai", "--output", "nowhere/a.PR"], "nowhere: no such folder"),
        (["infer", "small.uai", "--output", "a.PR", "--epsilon", "0"], "the partition function needs --epsilon 1"),
        (["infer", "small.uai", "--evidence", "small.uai"], "small.uai:1: expected a number, got 'MARKOV'"),
        (["convert", "small.uai", "a.wcsp"], r"a.wcsp: expected a name that ends in one of \.uai, \.fg"),
    ],
)
def test_faults_are_one_line_and_code_2(tmp_path, monkeypatch, capsys, arguments, message):
    monkeypatch.chdir(tmp_path)
    Path("small.uai").write_text(SMALL)
    Path("bad.uai").write_text("MARKOV\n3\n2 2\n")
    Path("bad.uai.gz").write_bytes(b"\x1f\x8b\x08\x00garbage")
    Path("impossible.uai").write_text("MARKOV 1 2 1 1 0 2 0 0")
    Path("binary.uai").write_bytes(bytes(range(256)) * 20)
    Path("small.txt").write_text(SMALL)
    Path("folder.uai").mkdir()
    before = sorted(tmp_path.iterdir())
    assert main(arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("blendfield: ")
    assert err.count("\n") == 1
    assert re.search(message, err), err
    assert sorted(tmp_path.iterdir()) == before


def test_help_and_version(capsys):
    for arguments in (["--help"], *[[name, "--help"] for name in COMMANDS], ["--version"]):
        assert main(arguments) == 0
    out, err = capsys.readouterr()
    assert f"blendfield {bf.__version__}" in out
    assert "exit codes:" in out
    assert err == ""


def test_warnings_are_one_line(tmp_path, capsys):
    graph = bf.RegionGraph([2, 2, 2], [(0, 1), (1, 2), (0, 2)])
    bf.write_uai(tmp_path / "loop.uai", graph, [np.eye(2)] * 3)
    assert main(["infer", str(tmp_path / "loop.uai"), "--counting-numbers", "bethe"]) in (0, 1)
    out, err = capsys.readouterr()
    assert "not certified" in out
    assert err.startswith("blendfield: warning: ")
    assert err.count("\n") == 1


def test_pipes(small):
    """No progress in a pipe; a model from one; whoever stops reading is no error worth a word."""
    with open(small) as model:
        shown = run("infer", "-", "--format", "uai", stdin=model)
    assert shown.returncode == 0
    assert shown.stderr == ""
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write) as closed:
        command = [sys.executable, "-m", "blendfield", "show", small]
        broken = subprocess.run(command, stdout=closed, stderr=subprocess.PIPE, timeout=60)
    assert (broken.returncode, broken.stderr) == (141, b"")


@pytest.mark.parametrize("columns", [100, 20])
def test_progress_and_interrupt_on_a_terminal(hard, columns):
    """One line that is written again and again, never wider than the terminal; Ctrl-C prints what is there."""
    terminal, stderr = pty.openpty()
    ioctl(stderr, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    environment = {**os.environ, "TERM": "xterm"}
    command = [sys.executable, "-m", "blendfield", "infer", hard, "--tolerance", "0", "--max-iterations", "1000000"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=stderr, env=environment)
    os.close(stderr)
    shown = b""
    while shown.count(b"sweep") < 3:
        shown += os.read(terminal, 65536)
    process.send_signal(signal.SIGINT)
    out = process.communicate(timeout=60)[0].decode()
    os.close(terminal)
    assert process.returncode == 130
    assert "interrupted after" in out
    lines = shown.decode().split("\r")
    assert "\n" not in shown.decode()
    assert all(len(line) < columns for line in lines)
    assert lines[1].startswith("sweep 1 ")


def test_interrupt_while_reading(small, monkeypatch, capsys):
    monkeypatch.setattr("blendfield.cli.models.read_model", _interrupted)
    assert main(["show", small]) == 130
    assert capsys.readouterr().err == "blendfield: interrupted\n"


def _interrupted(*_):
    raise KeyboardInterrupt


def test_degenerate_models(tmp_path, capsys):
    """No variables, one variable with one label, no regions."""
    for text, labels in (("MARKOV 0 0", []), ("MARKOV 1 1 0", [0]), ("MARKOV 2 2 3 0", [0, 0])):
        path = tmp_path / "a.uai"
        path.write_text(text)
        assert main(["show", str(path)]) == 0
        capsys.readouterr()
        for epsilon in ("1", "0"):
            assert main(["infer", str(path), "--json", "--epsilon", epsilon]) == 0
            assert json.loads(capsys.readouterr().out)["labels"] == labels


def test_a_million_isolated_variables(tmp_path, capsys):
    path = tmp_path / "million.uai"
    path.write_text(f"MARKOV\n1000000\n{'2 ' * 1_000_000}\n1\n1 999999\n2\n1 3\n")
    started = time.perf_counter()
    assert main(["show", str(path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["components"] == 1_000_000
    assert main(["infer", str(path)]) == 0
    out = capsys.readouterr().out
    assert f"upper    {999_999 * np.log(2) + np.log(4):.9g}" in out
    assert time.perf_counter() - started < 20


def test_a_table_of_two_to_the_28_is_refused_with_its_size(tmp_path, capsys, monkeypatch):
    scope = " ".join(map(str, range(28)))
    path = tmp_path / "huge.uai"
    path.write_text(f"MARKOV\n28\n{'2 ' * 28}\n1\n28 {scope}\n268435456\n1 1 1\n")
    assert main(["infer", str(path)]) == 2
    assert "huge.uai:7: expected 268435456 entries in the table of factor 0" in capsys.readouterr().err
    path = tmp_path / "huge.wcsp"
    path.write_text(f"p 28 2 1 9\n{'2 ' * 28}\n28 {scope} 0 0\n")
    assert main(["show", str(path)]) == 2
    assert "got one of 268435456" in capsys.readouterr().err
    # A variable with as many labels needs no table in the file, but one of its own.
    path = tmp_path / "labels.uai"
    path.write_text("MARKOV 1 268435456 0")
    monkeypatch.setattr(memory, "available_bytes", lambda: 2**30)
    assert main(["infer", str(path)]) == 2
    assert re.search(r"about \d+\.\d GiB .* 268435456 entries", capsys.readouterr().err)
    assert main(["show", str(path)]) == 0
    assert "268,435,456 (2.0 GiB)" in capsys.readouterr().out
