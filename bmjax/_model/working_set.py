"""The working set of a fit: a few slots, into which columns of X are gathered.

A fit, its M step, bound and uncertainty work on m slots; all k features are needed only to find
starts and to judge moves. Slots are in the order of the features, so that an E step visits them in
the order in which it would visit all. If there are as many slots as features, every feature has the
slot of its number and nothing is gathered.
"""

from collections.abc import Callable
from typing import TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Int

from bmjax._model.problem import Problem, State
from bmjax._runtime.backend import Array, namespace, put, take

T = TypeVar("T")

# Size of the blocks of X that the host works on, so that temporary arrays stay in the cache.
_BLOCK = 2**20


def slots_for(support: Bool[Array, " k"], slots: int) -> Int[Array, " m"]:
    """The feature in each slot, k in empty slots; every feature in the slot of its number if m = k.

    Args:
        support: Whether each feature needs a slot; of more than m, the first m get one.
        slots: Number of slots, m.
    """
    k = len(support)
    if slots == k:
        return namespace(support).arange(k, dtype="int32")
    if isinstance(support, np.ndarray):
        chosen = np.flatnonzero(support)[:slots]
        return np.pad(chosen, (0, slots - len(chosen)), constant_values=k).astype(np.int32)
    return jnp.nonzero(support, size=slots, fill_value=k)[0].astype(jnp.int32)


def gathered(problem: Problem, features: Int[Array, " m"]) -> Problem:
    """The problem restricted to the features in the slots; an empty slot holds zeros."""
    k = len(problem.X)
    if len(features) == k:
        return problem
    unmasked = problem.unmasked
    if unmasked is not None:
        unmasked = taken(unmasked, features)
    groups = problem.groups
    if groups is not None:
        own = (taken(values, features) for values in groups[:3])
        groups = groups.__class__(*own, members=groups.members)
    return problem._replace(
        X=taken(problem.X, features),
        unmasked=unmasked,
        of_features=problem.num_features,
        groups=groups,
    )


def taken(values: Array, features: Int[Array, " m"]) -> Array:
    """Rows by feature gathered as rows by slot, zero in empty slots."""
    if len(features) == len(values):
        return values
    return take(values, features)


def spread(values: Array, features: Int[Array, " m"], k: int) -> Array:
    """Values by slot along the last axis as values by feature, zero for those without a slot."""
    if len(features) == k:
        return values
    xp = namespace(values, features)
    blank = xp.zeros((k, *values.shape[:-1]), values.dtype)
    return xp.moveaxis(put(blank, features, xp.moveaxis(values, -1, 0)), 0, -1)


def arranged(state: State, features: Int[Array, " m"], k: int) -> tuple[State, Int[Array, " m"]]:
    """The state with its slots in the order of the features, and slots of pruned ones emptied."""
    if len(features) == k:
        return state, features
    xp = namespace(state, features)
    features = xp.where(state.active, features, k)
    order = xp.argsort(features, stable=True)
    ordered = State(
        mask_mean=state.mask_mean[order],
        weights=state.weights[order],
        log_odds=state.log_odds[order],
        noise_precision=state.noise_precision,
        active=state.active[order],
    )
    return ordered, features[order]


def summed(
    of_samples: Callable[[Problem, Problem, State], T],
    problem: Problem,
    part: Problem,
    state: State,
) -> T:
    """Sums over samples, computed on the host from blocks whose slots stay in the cache.

    Args:
        of_samples: A function for the sums, from the problem, its part and the state. On the host
            it must not make an array of the size of X.
        problem: The dataset.
        part: The problem of the features in the slots.
        state: A state of the slots.
    """
    n, rows = len(problem.y), max(_BLOCK // len(part.X), 1)
    if namespace(problem) is jnp or n <= rows:
        return of_samples(problem, part, state)
    total = None
    for first in range(0, n, rows):
        some = slice(first, first + rows)
        masks = state._replace(mask_mean=state.mask_mean[:, some])
        own = of_samples(_samples(problem, some), _samples(part, some), masks)
        total = own if total is None else jax.tree.map(np.add, total, own)
    assert total is not None
    return total


def _samples(problem: Problem, some: slice) -> Problem:
    """The problem restricted to some of the samples."""
    counts = problem.sample_weights
    return problem._replace(
        X=problem.X[:, some],
        y=problem.y[some],
        sample_weights=None if counts is None else counts[some],
    )
