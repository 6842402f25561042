"""The kernels of core/features against their NumPy twins, on random blocks; the same bits on any number of threads."""

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from blendfield import _core
from blendfield.testing import assert_close
from blendfield.testing import feature_kernels as twins

NAMES = ("terms_apply", "terms_moments", "terms_statistics", "free_apply", "free_moments", "free_statistics")


@dataclass
class Block:
    """Arguments of the kernels by name; `count` terms of `entries` entries over `num_tables` tables, K weights."""

    arguments: dict[str, np.ndarray | int | None]

    @classmethod
    def random(
        cls,
        seed: int,
        count: int,
        entries: int,
        num_tables: int,
        num_weights: int,
        *,
        rows: str = "own",
        coefficient: bool = True,
        dtype: str = "float64",
    ) -> "Block":
        rng = np.random.default_rng(seed)
        size = num_tables * entries + 3
        num_rows = {"own": count, "shared": 1, "indexed": 5}[rows]
        return cls(
            {
                "flat": rng.standard_normal(size).astype(dtype),
                "d": rng.standard_normal(size).astype(dtype),
                "beliefs": rng.random(size).astype(dtype) / entries,
                "w": rng.standard_normal(num_weights),
                "gradient": rng.standard_normal(num_weights),
                "sums": rng.random((2, num_weights)),
                "start": 3 + entries * np.sort(rng.integers(num_tables, size=count)),
                "weight": rng.integers(num_weights, size=count).astype(np.int32),
                "base": rng.integers(max(1, num_weights - entries + 1), size=count).astype(np.int32),
                "coefficient": rng.standard_normal(count) if coefficient else None,
                "scale": rng.random(7),
                "region": rng.integers(7, size=count).astype(np.int32),
                "table": rng.integers(num_rows, size=count).astype(np.int32) if rows == "indexed" else None,
                "tables": rng.standard_normal((num_rows, entries)),
                "entries": entries,
            }
        )

    def run(self, name: str, threads: int | None = None, **changes: object) -> np.ndarray:
        """What the kernel (without `threads`: its twin) makes of a copy of its first argument."""
        function = getattr(twins if threads is None else _core, name)
        first = {"apply": "flat", "moments": "gradient", "statistics": "sums"}[name.split("_")[1]]
        names = {
            "terms_apply": ("w", "start", "weight", "coefficient", "table", "tables"),
            "terms_moments": ("d", "start", "weight", "coefficient", "table", "tables"),
            "terms_statistics": ("beliefs", "scale", "region", "start", "weight", "coefficient", "table", "tables"),
            "free_apply": ("w", "start", "base", "coefficient", "entries"),
            "free_moments": ("d", "start", "base", "coefficient", "entries"),
            "free_statistics": ("beliefs", "scale", "region", "start", "base", "coefficient", "entries"),
        }[name]
        arguments = {**self.arguments, **changes}
        result = np.array(arguments[first])
        extra = {} if threads is None else {"threads": threads}
        function(result, *(arguments[key] for key in names), **extra)
        return result


def tolerance(dtype: str) -> float:
    return 1e-12 if dtype == "float64" else 1e-5


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    count=st.integers(0, 60),
    entries=st.integers(1, 10),
    num_tables=st.integers(1, 40),
    extra_weights=st.integers(0, 30),
    rows=st.sampled_from(["own", "shared", "indexed"]),
    coefficient=st.booleans(),
    dtype=st.sampled_from(["float64", "float32"]),
)
def test_kernels_are_their_twins(name, seed, count, entries, num_tables, extra_weights, rows, coefficient, dtype):
    weights = entries + extra_weights
    block = Block.random(seed, count, entries, num_tables, weights, rows=rows, coefficient=coefficient, dtype=dtype)
    if name == "terms_statistics":  # beliefs are distributions
        beliefs = block.arguments["beliefs"]
        tables = beliefs[3:].reshape(-1, entries).astype(np.float64)
        beliefs[3:] = (tables / tables.sum(axis=1, keepdims=True)).ravel()
    assert_close(block.run(name, threads=1), block.run(name), tolerance(dtype), name)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("num_weights", [9, 3000, 200_000])
@pytest.mark.parametrize("entries", [2, 7])
@pytest.mark.parametrize("name", NAMES)
def test_same_bits_on_any_number_of_threads(name, entries, num_weights, dtype):
    """Large enough for many parts, with tables that many terms change."""
    block = Block.random(1, 60_000, entries, 25_000, num_weights, dtype=dtype)
    one = block.run(name, threads=1)
    if name != "terms_statistics":
        assert_close(one, block.run(name), 10 * tolerance(dtype), name)
    for threads in (2, 3):
        np.testing.assert_array_equal(block.run(name, threads=threads), one)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("entries", [1, 2, 5, 8])
def test_rows_out_and_back(entries, dtype):
    block = Block.random(2, 20_000, entries, 9_000, 1, dtype=dtype)
    flat, start = block.arguments["flat"], block.arguments["start"]
    rows = _core.rows_gather(flat, start, entries, threads=2)
    assert rows.dtype == np.float64
    np.testing.assert_array_equal(rows, twins.rows_gather(flat, start, entries))
    results = []
    for threads in (1, 2):
        changed = flat.copy()
        _core.rows_scatter_add(changed, rows, start, threads=threads)
        results.append(changed)
    np.testing.assert_array_equal(results[0], results[1])
    expected = flat.copy()
    twins.rows_scatter_add(expected, rows, start)
    assert_close(results[0], expected, 10 * tolerance(dtype))


def test_what_lies_outside_is_refused():
    block = Block.random(3, 10, 3, 6, 8, rows="indexed")
    start, weight, base, table = (block.arguments[key] for key in ("start", "weight", "base", "table"))

    def changed(array, value):
        array = array.copy()
        array[-1] = value
        return array

    size = len(block.arguments["flat"])
    for name in NAMES:
        with pytest.raises(ValueError, match="start of term 9"):
            block.run(name, threads=1, start=changed(start, size - 2))
    for name in NAMES[:3]:
        with pytest.raises(ValueError, match="weight of term 9 is 8"):
            block.run(name, threads=1, weight=changed(weight, 8))
        with pytest.raises(ValueError, match="table of term 9 is -1"):
            block.run(name, threads=1, table=changed(table, -1))
        with pytest.raises(ValueError, match="weight has length 9"):
            block.run(name, threads=1, weight=weight[:-1])
    for name in NAMES[3:]:
        with pytest.raises(ValueError, match="base of term 9 is 6"):
            block.run(name, threads=1, base=changed(base, 6))
    for name in ("terms_apply", "free_apply"):
        with pytest.raises(ValueError, match="sorted by start"):
            block.run(name, threads=1, start=changed(start, 0))
    with pytest.raises(TypeError):  # never a silent copy of what is to be changed
        _core.terms_apply(block.arguments["flat"].astype(int), *[block.arguments["w"]] * 6)
