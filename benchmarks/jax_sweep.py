"""The coloured sweep of regions of one shape over single variables, as one writes it in JAX.

No work is wasted: the tables of every class and slot are kept side by side, so that a class reads exactly those that it
needs, in one fused log-sum-exp; messages are gathered and scattered by index.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from blendfield.backends.protocol import Program


def jax_sweep(program: Program, tables: Any, epsilon: float, dtype: str) -> tuple[Any, Any, Any]:
    """(sweep: (messages, data) -> messages, messages at the start, data); messages: one [P, L] per slot."""
    import jax
    import jax.numpy as jnp
    from jax.scipy.special import logsumexp

    jax.config.update("jax_enable_x64", True)
    graph = program.graph
    count, labels = graph.num_given, int(graph.cardinalities[0])
    axes = len(graph.regions[0])
    numbers = np.asarray(program.counting_numbers)
    parents = tables[: count * labels**axes].reshape(count, *[labels] * axes)
    theta = jnp.asarray(tables[count * labels**axes :].reshape(-1, labels))
    child = program.edge_children.reshape(count, axes) - count
    hat = numbers[count:] + np.bincount(child.ravel(), np.repeat(numbers[:count], axes), minlength=len(numbers) - count)
    class_of = program.region_class[count:]
    classes = [int(c) for c in program.schedule]
    lanes = {(c, s): np.flatnonzero(class_of[child[:, s]] == c) for c in classes for s in range(axes)}
    data = {
        "theta": theta,
        "parts": {
            f"{c} {s}": {
                "tables": jnp.asarray(parents[own], dtype),
                "lanes": jnp.asarray(own),
                "child": jnp.asarray(child[own, s]),
                "scale": jnp.asarray(epsilon * numbers[own], dtype),
                "share": jnp.asarray((numbers[own] / hat[child[own, s]])[:, None], dtype),
            }
            for (c, s), own in lanes.items()
        },
    }

    def across(values: Any, slot: int) -> Any:
        shape = [1] * (axes + 1)
        shape[0], shape[slot + 1] = -1, labels
        return values.reshape(shape)

    @jax.jit
    def sweep(messages: Any, data: Any) -> Any:
        messages = list(messages)
        for c in classes:
            mus, total = [], data["theta"]
            for s in range(axes):
                part = data["parts"][f"{c} {s}"]
                value = part["tables"]
                for t in range(axes):
                    if t != s:
                        value = value + across(messages[t][part["lanes"]], t)
                scale = part["scale"].reshape(-1, *[1] * axes)
                others = tuple(t + 1 for t in range(axes) if t != s)
                mu = part["scale"][:, None] * logsumexp(value / scale, axis=others)
                total = total.at[part["child"]].add(mu)
                mus.append(mu)
            for s, mu in enumerate(mus):
                part = data["parts"][f"{c} {s}"]
                sent = part["share"] * total[part["child"]] - mu
                messages[s] = messages[s].at[part["lanes"]].set(sent - sent.mean(axis=1, keepdims=True))
        return tuple(messages)

    return sweep, tuple(jnp.zeros((count, labels), dtype) for _ in range(axes)), data


def flat(messages: Any) -> Any:
    """float [messages layout] on the host."""
    return np.stack([np.asarray(m) for m in messages], axis=1).reshape(-1)
