"""Each step against the literal reference and against the gradient of the bound."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import bmjax
from benchmarks import reference
from bmjax._model import steps, sweep, working_set
from bmjax._model.gradient_rule import (
    Parameters,
    cap_inclusion_update,
    paper_optimizer,
    precondition_by_reparametrization,
)
from bmjax._model.working_set import gathered, slots_for, taken
from tests.helpers import for_reference, lane, same_bits, some_state, spread

SEEDS = range(4)


@pytest.mark.parametrize("sweeps", [1, 3])
@pytest.mark.parametrize("seed", SEEDS)
def test_e_step_equals_reference(seed, sweeps, dtype, rounding):
    problem, state = some_state(seed, dtype=dtype)
    got = bmjax.e_step(problem, state, sweeps).mask_mean
    want = reference.e_step(*for_reference(problem, state), sweeps=sweeps)
    assert got.dtype == dtype
    np.testing.assert_allclose(got, spread(state.active, want.T), atol=rounding)


def test_e_step_is_exact_at_the_ends(dtype):
    """Inclusion 1 gives mask 1, a pruned feature or inclusion 0 gives mask 0."""
    problem, state = some_state(0, dtype=dtype)
    state = state._replace(log_odds=state.log_odds.at[0].set(-jnp.inf))
    mask = bmjax.e_step(problem, state).mask_mean
    assert (mask[1] == 1).all()
    assert (mask[2] == 0).all()
    assert (mask[0] == 0).all()


@pytest.mark.parametrize("seed", SEEDS)
def test_e_step_maximises_the_bound(seed):
    """At its fixed point the slope in every mask vanishes; after one sweep, in the last feature."""
    problem, state = some_state(seed)

    def slope(state):
        return jax.grad(lambda m: bmjax.lower_bound(problem, state._replace(mask_mean=m)))(
            state.mask_mean
        )

    once = bmjax.e_step(problem, state)
    assert jnp.abs(slope(state)[-1]).max() > 0.1
    assert jnp.abs(slope(once)[-1]).max() < 1e-9
    assert bmjax.lower_bound(problem, once) > bmjax.lower_bound(problem, state)
    settled = bmjax.e_step(problem, state, sweeps=3000)
    inside = (settled.mask_mean > 0) & (settled.mask_mean < 1)
    assert jnp.abs(jnp.where(inside, slope(settled), 0)).max() < 1e-7


@pytest.mark.parametrize("known_noise", [False, True])
@pytest.mark.parametrize("seed", SEEDS)
def test_m_step_equals_reference(seed, known_noise, dtype, rounding):
    problem, state = some_state(seed, dtype=dtype, known_noise=known_noise)
    got = bmjax.m_step(problem, state)
    X, y, mask, *_ = for_reference(problem, state)
    known = float(state.noise_precision) if known_noise else None
    weights, precision, inclusion = reference.m_step(X, y, mask, known)
    np.testing.assert_allclose(got.weights, spread(state.active, weights), atol=20 * rounding)
    np.testing.assert_allclose(got.inclusion, spread(state.active, inclusion), rtol=rounding)
    assert got.noise_precision == pytest.approx(precision, rel=rounding)


@pytest.mark.parametrize("seed", SEEDS)
def test_m_step_maximises_the_bound(seed):
    problem, state = some_state(seed)
    best = bmjax.m_step(problem, state)

    def bound(weights, precision, inclusion, at=best):
        log_odds = jnp.log(inclusion) - jnp.log1p(-inclusion)
        log_odds = jnp.where(jnp.isinf(at.log_odds), at.log_odds, log_odds)
        at = at._replace(weights=weights, noise_precision=precision, log_odds=log_odds)
        return bmjax.lower_bound(problem, at)

    inside = jnp.where(jnp.isinf(best.log_odds), 0.5, best.inclusion)
    slopes = jax.grad(bound, argnums=(0, 1, 2))(best.weights, best.noise_precision, inside)
    for slope in slopes:
        assert jnp.abs(slope).max() < 1e-9
    start = jax.grad(bound, argnums=(0, 1, 2))(state.weights, state.noise_precision, inside, state)
    assert jnp.abs(start[0]).max() > 1
    assert bmjax.lower_bound(problem, best) > bmjax.lower_bound(problem, state)


@pytest.mark.parametrize("reparametrize", [True, False])
@pytest.mark.parametrize("rate", [1e-5, 0.3])  # far below the cap, and far above it
@pytest.mark.parametrize("known_noise", [False, True])
def test_g_step_equals_reference(reparametrize, rate, known_noise, dtype, rounding):
    problem, state = some_state(2, dtype=dtype, known_noise=known_noise)
    optimizer = paper_optimizer(rate, reparametrize=reparametrize)
    optimizer_state = optimizer.init(Parameters(state.weights, state.inclusion))
    got, _ = bmjax.g_step(problem, state, optimizer, optimizer_state)
    weights, precision, inclusion = reference.g_step(
        *for_reference(problem, state),
        learning_rate=rate,
        reparametrize=reparametrize,
        known_noise=known_noise,
    )
    np.testing.assert_allclose(got.weights, spread(state.active, weights), atol=rounding)
    np.testing.assert_allclose(got.inclusion, spread(state.active, inclusion), atol=rounding)
    assert got.noise_precision == pytest.approx(precision, rel=10 * rounding)
    assert got.log_odds[1] == jnp.inf  # at inclusion one only the weight moves
    assert got.weights[1] != state.weights[1]


def bound_of_parameters(problem, state):
    """The bound as a function of `Parameters`, the point the state is at, and where it is inside.

    Rates of exactly zero or one stay as they are; the point holds 0.5 in their place.
    """
    inside = (state.inclusion > 0) & (state.inclusion < 1)

    def bound(theta):
        log_odds = jnp.log(theta.inclusion) - jnp.log1p(-theta.inclusion)
        log_odds = jnp.where(inside, log_odds, state.log_odds)
        return bmjax.lower_bound(problem, state._replace(weights=theta.weights, log_odds=log_odds))

    return bound, Parameters(state.weights, jnp.where(inside, state.inclusion, 0.5)), inside


def test_preconditioner_is_the_inverse_metric():
    """The direction is inv(J'J) grad G, J the Jacobian of (beta, pi) -> (beta, beta pi)."""
    problem, state = some_state(5)
    bound, here, inside = bound_of_parameters(problem, state)
    slope = jax.grad(bound)(here)
    slope = slope._replace(inclusion=jnp.where(inside, slope.inclusion, 0))
    transform = precondition_by_reparametrization()
    exact = here._replace(inclusion=state.inclusion)
    direction, _ = transform.update(slope, transform.init(exact), exact)
    assert isinstance(direction, Parameters)
    for k in np.flatnonzero(inside):
        point = jnp.stack([state.weights[k], state.inclusion[k]])
        J = jax.jacobian(lambda p: jnp.stack([p[0], p[0] * p[1]]))(point)
        gradient = jnp.stack([slope.weights[k], slope.inclusion[k]])
        want = jnp.linalg.solve(J.T @ J, gradient)
        got = jnp.stack([direction.weights[k], direction.inclusion[k]])
        np.testing.assert_allclose(got, want, rtol=1e-9)


def test_g_step_gradient_is_that_of_the_bound():
    """A plain unit-rate step moves by the autodiff gradient of the bound."""
    problem, state = some_state(6)
    bound, here, inside = bound_of_parameters(problem, state)
    slope = jax.grad(bound)(here)
    rate = 1e-6
    optimizer = paper_optimizer(rate, reparametrize=False, cap=None)
    got, _ = bmjax.g_step(problem, state, optimizer, optimizer.init(here))
    moved = (got.weights - state.weights) / rate
    np.testing.assert_allclose(moved, slope.weights, rtol=1e-6, atol=1e-6)
    moved = (got.inclusion - state.inclusion) / rate
    np.testing.assert_allclose(moved[inside], slope.inclusion[inside], rtol=1e-6, atol=1e-6)


def test_cap_shrinks_the_whole_step(dtype):
    cap = cap_inclusion_update(0.05)
    update = Parameters(jnp.asarray([1.0, -2.0], dtype), jnp.asarray([0.2, -0.1], dtype))
    capped, _ = cap.update(update, cap.init(update))
    np.testing.assert_allclose(capped.weights, [0.25, -0.5], rtol=1e-6)
    np.testing.assert_allclose(capped.inclusion, [0.05, -0.025], rtol=1e-6)
    small = Parameters(update.weights, 0.1 * update.inclusion)
    untouched, _ = cap.update(small, cap.init(small))
    assert same_bits(untouched, small)


def test_g_step_takes_another_optax_optimiser():
    """With optax.sgd it is the paper's step; Adam moves too and keeps its own state."""
    problem, state = some_state(2)
    here = Parameters(state.weights, state.inclusion)
    paper, by_sgd = paper_optimizer(1e-4), paper_optimizer(0.0, optimizer=optax.sgd(1e-4))
    want, _ = bmjax.g_step(problem, state, paper, paper.init(here))
    got, _ = bmjax.g_step(problem, state, by_sgd, by_sgd.init(here))
    assert same_bits(got, want)
    adam = paper_optimizer(0.0, optimizer=optax.adam(1e-3))
    with jax.numpy_dtype_promotion("standard"):  # optax mixes its counter with floats
        new, memory = bmjax.g_step(problem, state, adam, adam.init(here))
    assert optax.tree.get(memory, "count") == 1
    assert jnp.any(new.weights != state.weights)
    assert new.weights[2] == 0


def test_prune_is_by_mean_mask_and_final(dtype):
    problem, state = some_state(0, dtype=dtype)
    problem = problem._replace(prune_threshold=jnp.asarray(0.5, dtype))
    mask = state.mask_mean.at[0].set(0.49).at[3].set(0.5)
    pruned = bmjax.prune(problem, state._replace(mask_mean=mask))
    assert not pruned.active[0]
    assert not pruned.active[2]  # pruned before, and not revived
    assert pruned.active[3]  # at the threshold is not below it
    assert (pruned.mask_mean[0] == 0).all()
    assert pruned.weights[0] == 0
    assert pruned.inclusion[0] == 0


def _each_step(problem, state):
    optimizer = paper_optimizer(1e-3)
    start = optimizer.init(Parameters(state.weights, state.inclusion))
    return {
        "e": bmjax.e_step(problem, state),
        "m": bmjax.m_step(problem, state),
        "g": bmjax.g_step(problem, state, optimizer, start)[0],
        "prune": bmjax.prune(problem, state),
        "bound": bmjax.lower_bound(problem, state),
        "initial": bmjax.initialise(problem, jnp.full_like(state.weights, 0.3)),
    }


def test_steps_under_jit_and_vmap(dtype, rounding):
    several = [some_state(seed, dtype=dtype) for seed in SEEDS]
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *several)
    batch = jax.jit(jax.vmap(lambda pair: _each_step(*pair)))(stacked)
    for i, (problem, state) in enumerate(several):
        alone = _each_step(problem, state)
        assert jax.tree.structure(alone) == jax.tree.structure(lane(batch, i))
        for a, b in zip(jax.tree.leaves(alone), jax.tree.leaves(lane(batch, i)), strict=True):
            assert a.dtype == b.dtype
            np.testing.assert_allclose(a, b, rtol=50 * rounding, atol=50 * rounding)


def test_steps_under_grad():
    """The derivative of each step's output in y, by finite differences, with a pruned feature."""
    problem, state = some_state(1)
    direction = jnp.asarray(np.random.default_rng(1).normal(size=problem.y.shape))

    def outputs(shift):
        steps = _each_step(problem._replace(y=problem.y + shift * direction), state)
        leaves = [
            steps["e"].mask_mean,
            steps["m"].weights,
            steps["m"].noise_precision,
            steps["m"].inclusion,
            steps["g"].weights,
            steps["g"].inclusion,
            steps["bound"],
            steps["initial"].weights,
        ]
        return jnp.stack([jnp.sum(jnp.sin(leaf)) for leaf in leaves])

    h = 1e-6
    numeric = (outputs(h) - outputs(-h)) / (2 * h)
    for slope in (jax.jacfwd(outputs)(0.0), jax.jacrev(outputs)(0.0)):
        np.testing.assert_allclose(slope, numeric, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize(
    "solver", [bmjax.Accelerated(), bmjax.EM(), bmjax.EG(), bmjax.Hybrid(switch=3)]
)
def test_carry_is_stable(solver, dtype):
    """Structure, shapes, types and weak types survive a step, as a while loop needs."""
    problem, state = some_state(0, dtype=dtype)
    carry = solver.init(problem, state)
    after = solver.step(problem, carry)
    kind = jax.tree.map(lambda leaf: (leaf.shape, leaf.dtype, leaf.weak_type), carry)
    assert kind == jax.tree.map(lambda leaf: (leaf.shape, leaf.dtype, leaf.weak_type), after)
    assert carry.state.weights.dtype == dtype


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("count", [60, 8, 1, 0])
def test_an_iteration_of_the_features_in_slots(count, weighted):
    """Made on a few slots, it is the one made on all features, also in a lane."""
    k, slots = 70, 64
    problem, state = some_state(3, n=150, k=k)
    rng = np.random.default_rng(count)
    active = jnp.zeros(k, bool).at[rng.permutation(k)[:count]].set(True)
    state = steps.restrict(state, active & state.active)
    # One that is pruned in this very iteration, and one that would be if it could be masked.
    low = jnp.flatnonzero(state.active, size=2, fill_value=0)
    state = state._replace(log_odds=state.log_odds.at[low].set(-60))
    problem = problem._replace(unmasked=jnp.zeros(k, bool).at[low[1]].set(count > 1))
    if weighted:
        problem = problem._replace(sample_weights=jnp.asarray(rng.integers(0, 3, 150), float))
    features = slots_for(state.active, slots)
    part = gathered(problem, features)
    of_slots = state._replace(
        mask_mean=taken(state.mask_mean, features),
        weights=taken(state.weights, features),
        log_odds=jnp.where(features < k, taken(state.log_odds, features), -jnp.inf),
        active=taken(state.active, features),
    )

    def iterate(problem, state):
        return steps.em_iteration(problem, state, sweep.residual(problem, state), 1)

    whole, left = iterate(problem, state)
    assert whole.active.sum() == max(int(state.active.sum()) - 1, 0)
    one_lane = jax.tree.map(lambda leaf: leaf[None], of_slots)
    in_a_lane = jax.vmap(lambda state: iterate(part, state))(one_lane)
    for few, few_left in (iterate(part, of_slots), lane(in_a_lane, 0)):
        close = {"rtol": 1e-9, "atol": 1e-11}
        np.testing.assert_array_equal(working_set.spread(few.active, features, k), whole.active)
        np.testing.assert_allclose(
            working_set.spread(few.weights, features, k), whole.weights, **close
        )
        np.testing.assert_allclose(
            working_set.spread(few.inclusion, features, k), whole.inclusion, **close
        )
        np.testing.assert_allclose(few.noise_precision, whole.noise_precision, **close)
        np.testing.assert_allclose(few_left.residual, left.residual, **close)
        np.testing.assert_allclose(few_left.sum_squares, left.sum_squares, **close)
