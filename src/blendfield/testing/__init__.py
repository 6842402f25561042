"""Shipped test equipment: oracles for small models, random models, and conformance suites for backends."""

from blendfield.testing.assertions import assert_close
from blendfield.testing.oracles import Exact, enumerate_exact, joint_optimum, lp_optimum
from blendfield.testing.programs import build_program
from blendfield.testing.random_models import (
    random_forest,
    random_grid,
    random_junction_tree,
    random_labels,
    random_region_graph,
    random_tables,
)

__all__ = [
    "Exact",
    "assert_close",
    "build_program",
    "enumerate_exact",
    "joint_optimum",
    "lp_optimum",
    "random_forest",
    "random_grid",
    "random_junction_tree",
    "random_labels",
    "random_region_graph",
    "random_tables",
]
