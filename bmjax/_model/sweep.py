"""The sweep of the E step: the masks of one feature after another, given those of the others."""

from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Bool, Float, Int

from bmjax._model.groups import Groups
from bmjax._model.problem import Problem, State
from bmjax._runtime.backend import Array


def over_features(
    problem: Problem,
    state: State,
    residual: Float[Array, " n"],
    sweeps: int,
    skip_pruned: bool = False,
    residual_weights: Float[Array, " k"] | None = None,
) -> State:
    """The E step, equation (11), from a residual that is already known.

    With `skip_pruned` pruned features cost nothing: the active ones come first and the loop ends
    after them, and the masks of pruned ones are unchanged, without effect since their weights are
    zero. Such a loop has no reverse-mode derivative, so the steps used alone do not skip.
    `residual_weights` are the weights of the residual, if they are not those of the state.
    """
    if problem.groups is not None:
        return _over_groups(problem, problem.groups, state, sweeps, skip_pruned)
    offset = mask_offset(state, problem.num_samples)
    carry = state.mask_mean, residual
    mask_mean, _ = visit(problem.X, state, offset, carry, sweeps, skip_pruned, residual_weights)
    return state._replace(mask_mean=mask_mean)


def _over_groups(
    problem: Problem, groups: Groups, state: State, sweeps: int, skip_pruned: bool
) -> State:
    """The E step if groups of columns share their masks.

    A group is a feature of weight one, the sum of its columns times their weights, in the row of
    its first column. The residual is computed from the weights and masks, since that of other
    weights does not determine what a group has explained.
    """
    weights = jnp.where(state.active, state.weights, 0)
    effects = groups.summed(problem.X * weights[:, None])
    first = state._replace(weights=jnp.ones_like(weights), active=state.active & groups.first)
    offset = mask_offset(state, problem.num_samples, groups.size)
    left = residual(problem, state._replace(weights=weights))
    carry = groups.tied(state.mask_mean), left
    mask_mean, _ = visit(effects, first, offset, carry, sweeps, skip_pruned)
    return state._replace(mask_mean=groups.tied(mask_mean))


def mask_offset(
    state: State, n: int | Float[Array, ""], columns: Int[Array, " k"] | int = 1
) -> Float[Array, " k"]:
    """The term of a mask's log-odds that is common to all samples: logit(pi) - d / (2 n pi).

    d is the number of columns of the feature's group, 1 without groups (equation (11)). The offset
    is -inf for a pruned feature or inclusion 0 and inf for inclusion 1: the sigmoid is then exact.
    """
    live = state.active & (state.log_odds > -jnp.inf)
    log_odds = jnp.where(live, state.log_odds, 0)
    half = 0.5 * (columns if isinstance(columns, int) else columns.astype(log_odds.dtype))
    return jnp.where(live, log_odds - half / (n * jax.nn.sigmoid(log_odds)), -jnp.inf)


def visit(  # noqa: PLR0913 - the loop's parts, kept apart so that it compiles once
    X: Float[Array, "k n"],
    state: State,
    offset: Float[Array, " k"],
    carry: tuple[Float[Array, "k n"], Float[Array, " n"]],
    sweeps: int,
    skip_pruned: bool,
    residual_weights: Float[Array, " k"] | None = None,
) -> tuple[Float[Array, "k n"], Float[Array, " n"]]:
    """Mask means and residual after a number of sweeps over all features.

    Args:
        X: Features.
        state: The state, of which weights, noise precision and `active` are read.
        offset: The term of the log-odds that is common to all samples, from `mask_offset`.
        carry: Mask means and residual before the sweeps.
        sweeps: Number of sweeps.
        skip_pruned: See `over_features`.
        residual_weights: See `over_features`.
    """
    weights = jnp.where(state.active, state.weights, 0)
    features, count = to_visit(state.active, skip_pruned)

    def visit_one(weights_before, position, carry):
        mask_mean, residual = carry
        feature = features[position]
        # Reading and writing one row by dynamic slices keeps the update in place: other forms
        # make XLA on CPU copy the whole array for every feature.
        x = lax.dynamic_index_in_dim(X, feature, keepdims=False)
        old = lax.dynamic_index_in_dim(mask_mean, feature, keepdims=False)
        without = residual + old * (x * weights_before[feature])
        effect = x * weights[feature]
        new = jax.nn.sigmoid(
            state.noise_precision * effect * (without - 0.5 * effect) + offset[feature]
        )
        mask_mean = lax.dynamic_update_index_in_dim(mask_mean, new, feature, 0)
        return mask_mean, without - new * effect

    before = weights if residual_weights is None else residual_weights
    carry = lax.fori_loop(0, count, partial(visit_one, before), carry)
    again = partial(visit_one, weights)  # one function, so that JAX compiles it once
    for _ in range(sweeps - 1):
        carry = lax.fori_loop(0, count, again, carry)
    return carry


def to_visit(
    active: Bool[Array, " k"], skip_pruned: bool
) -> tuple[Int[Array, " k"], int | Int[Array, ""]]:
    """The features in the order in which a loop visits them, and how many it visits."""
    if not skip_pruned:
        return jnp.arange(len(active), dtype=jnp.int32), len(active)
    needed = _in_any_lane(active)
    return jnp.argsort(~needed, stable=True).astype(jnp.int32), jnp.sum(needed, dtype=jnp.int32)


def _shared_by_lanes(combine: Callable[[Array], Array]) -> Callable[[Array], Array]:
    """The identity; under `vmap` one value for all lanes, combined from theirs along axis 0."""

    @jax.custom_batching.custom_vmap
    def shared(value):
        return value

    @shared.def_vmap
    def _(axis_size, in_batched, value):
        del axis_size
        return (shared(combine(value) if in_batched[0] else value), False)

    return shared


def residual(problem: Problem, state: State) -> Float[Array, " n"]:
    """The residual of y at the mask means, y - (X o M) weights."""
    # As a product, since XLA on a CPU takes seconds for a sum over the rows of (50, 1e6) numbers.
    return problem.y - state.weights @ (problem.X * state.mask_mean)


# The features to visit: one list for all lanes, so that the loop stays a loop.
_in_any_lane = _shared_by_lanes(partial(jnp.any, axis=0))
