import re

import numpy as np
import pytest

import blendfield as bf


@pytest.mark.parametrize("text", ["PR\n-12.5\n", "PR\n1\n-12.5\n", "PR\n3\n-BEGIN-\n-12.5\n", "PR -12.5"])
def test_reads_partition_functions(file, text):
    assert bf.read_pr(file("a.PR", text)) == -12.5


@pytest.mark.parametrize("text", ["MAR\n2 2 0.25 0.75 1 1\n", "MAR\n1\n2\n2 0.25 0.75\n1 1\n"])
def test_reads_marginals(file, text):
    first, second = bf.read_mar(file("a.MAR", text))
    assert first.tolist() == [0.25, 0.75]
    assert second.tolist() == [1.0]


@pytest.mark.parametrize("text", ["MPE\n3 1 0 2\n", "MPE\n1\n3 1 0 2\n", "MPE\n3 0 0 0\n-BEGIN-\n3 1 0 2\n"])
def test_reads_labellings(file, text):
    assert bf.read_mpe(file("a.MPE", text)).tolist() == [1, 0, 2]


def test_round_trip(tmp_path):
    rng = np.random.default_rng(0)
    marginals = [rng.dirichlet(np.ones(n)) for n in (1, 2, 5)]
    bf.write_mar(tmp_path / "a.MAR.gz", marginals)
    assert all(map(np.array_equal, marginals, bf.read_mar(tmp_path / "a.MAR.gz")))
    bf.write_pr(tmp_path / "a.PR", np.pi)
    assert bf.read_pr(tmp_path / "a.PR") == np.pi
    for labels in ([], [3], [1, 1], [2, 0, 1]):
        bf.write_mpe(tmp_path / "a.MPE", np.array(labels, int))
        assert bf.read_mpe(tmp_path / "a.MPE").tolist() == labels


@pytest.mark.parametrize(
    ("reader", "text", "line", "expected"),
    [
        (bf.read_pr, "MAR\n1\n", 1, "PR on the first line, got 'MAR'"),
        (bf.read_pr, "PR\n", 1, "log10 of the partition function, got the end of the file"),
        (bf.read_pr, "PR\n1.5\n2.5\n", 3, "the end of the file, got '2.5'"),
        (bf.read_pr, "PR\ninf\n", 2, "log10 of the partition function, got 'inf'"),
        (bf.read_mar, "MAR\n2 2 0.5 0.5 2 1\n", 2, "2 numbers, but 1 are left: the marginal of variable 1"),
        (bf.read_mar, "MAR\n1 2 0.5\n-0.5\n", 3, "a probability, got '-0.5'"),
        (bf.read_mar, "MAR\n1 2 0.5 0.5\n7", 3, "the end of the file, got '7'"),
        (bf.read_mpe, "MPE\n2 1\n", 2, "2 numbers, but 1 are left: a label"),
        (bf.read_mpe, "MPE\n2 1 0.5\n", 2, "a label, got '0.5'"),
    ],
)
def test_faults(file, reader, text, line, expected):
    path = file("bad", text)
    with pytest.raises(bf.FileFormatError, match=re.escape(f"{path}:{line}: expected {expected}")):
        reader(path)
