import numpy as np
import pytest

from blendfield.graph import Ragged


@pytest.fixture
def rows():
    return Ragged(np.array([0, 2, 2, 3]), np.array([4, 5, 6], np.int32))


def test_is_a_sequence(rows):
    assert len(rows) == 3
    assert rows[0] == (4, 5)
    assert rows[-1] == (6,)
    assert rows[1:] == [(), (6,)]
    assert list(rows) == [(4, 5), (), (6,)]
    assert (6,) in rows
    assert rows.index(()) == 1
    assert type(rows[0][0]) is int
    with pytest.raises(IndexError):
        rows[3]
    with pytest.raises(TypeError):
        hash(rows)


def test_equals_nested_lists_and_tuples(rows):
    assert rows == [(4, 5), (), (6,)]
    assert rows == ([4, 5], [], [6])
    assert [(4, 5), (), (6,)] == rows  # noqa: SIM300 - the list is asked first
    assert rows == Ragged(rows.offsets.copy(), rows.values.copy())
    assert rows != [(4, 5), (), (7,)]
    assert rows != [(4, 5), ()]
    assert rows != [(4, 5), (), 6]
    assert rows != "456"
    assert rows != Ragged(rows.offsets, rows.values + 1)


def test_repr_is_short(rows):
    assert repr(rows) == "[(4, 5), (), (6,)]"
    many = Ragged(np.arange(1001), np.arange(1000, dtype=np.int32))
    assert repr(many) == "[(0,), (1,), (2,), (3,), (4,), (5,), ... 1000 in all]"


def test_iterates_in_blocks():
    many = Ragged(np.arange(0, 280001, 2), np.arange(280000, dtype=np.int32))
    assert [row[0] for row in many] == list(range(0, 280000, 2))
