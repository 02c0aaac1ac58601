"""Where the default solver jumps to: closed forms for courses that are known exactly."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import bmjax
from bmjax._model import sweep
from bmjax._solvers.extrapolation import Landmark
from tests.helpers import some_state

SOLVER = bmjax.Accelerated()
LIMIT, RHO = 0.7, 0.98


def on_course(state, distance, weights):
    """The state with every log-odds so far from `LIMIT`."""
    k = len(state.weights)
    return state._replace(
        active=jnp.ones(k, bool),
        log_odds=jnp.full(k, LIMIT + distance, state.weights.dtype),
        weights=jnp.full(k, weights, state.weights.dtype),
    )


def three_states(disturbance=0.0, weights=(2.0, 2.0, 2.0)):
    """A carry and two EM iterations of a course that goes RHO of the way to `LIMIT`."""
    problem, state = some_state(0)
    distances = (1 + disturbance, RHO, RHO**2)
    start, first, second = (on_course(state, d, w) for d, w in zip(distances, weights, strict=True))
    return SOLVER.init(problem, start), first, second


def selected(carry, landmark_distance, rounds=SOLVER.calm):
    """The carry some cycles after the last pruning, its landmark on the same course."""
    k = len(carry.state.weights)
    at = jnp.full(k, LIMIT + landmark_distance)
    move = (RHO - 1) * (at - LIMIT)
    return carry._replace(landmark=Landmark(at, move), calm=jnp.asarray(rounds, jnp.int32))


def test_a_geometric_course_is_followed_to_its_limit():
    carry, first, second = three_states()
    beyond = SOLVER.beyond(carry, first, second)
    np.testing.assert_allclose(beyond.log_odds, LIMIT, rtol=1e-10)


@pytest.mark.parametrize(("idle", "goes_on"), [(20, True), (100, False)])
def test_extrapolation_goes_on_where_the_bound_shows_no_rise(idle, goes_on):
    """On tall data float32 shows none while there is still some way to go, but not for ever."""
    carry, first, second = three_states()
    progress = carry.progress._replace(num_steps=jnp.asarray(idle, jnp.int32))
    beyond = SOLVER.beyond(carry._replace(progress=progress), first, second)
    expected = LIMIT if goes_on else second.log_odds
    np.testing.assert_allclose(beyond.log_odds, expected, rtol=1e-10)


def test_a_disturbed_course_is_judged_by_the_landmark():
    """What the last jump stirred up hides the course from moves side by side, not from afar."""
    carry, first, second = three_states(disturbance=-5e-4)
    misled = SOLVER.beyond(carry, first, second)
    assert jnp.abs(misled.log_odds - LIMIT).min() > 0.02
    there = SOLVER.beyond(selected(carry, 3.0), first, second)
    np.testing.assert_allclose(there.log_odds, LIMIT, rtol=1e-10)
    # Not while features are still being selected, nor by a landmark that is hardly any distance
    # away.
    for early in (selected(carry, 3.0, SOLVER.calm - 1), selected(carry, RHO + 0.02)):
        np.testing.assert_array_equal(SOLVER.beyond(early, first, second).log_odds, misled.log_odds)


def test_a_course_that_speeds_up_goes_as_far_as_the_trust():
    carry, first, second = three_states()
    k = len(carry.state.weights)
    away = Landmark(first.log_odds + 1.0, (second.log_odds - first.log_odds) / 2)
    carry = selected(carry, 3.0)._replace(landmark=away, trust=jnp.asarray(50.0))
    move = (RHO - 1) * RHO
    found = SOLVER.beyond(carry, first, second).log_odds
    np.testing.assert_allclose(found, np.full(k, second.log_odds + 50 * move), rtol=1e-10)


def coef_kept(part):
    """Weights of three states on the course that make up for a part of the change of inclusion."""
    u = jax.nn.log_sigmoid(LIMIT + jnp.asarray([1.0, RHO, RHO**2]))
    return tuple(float(w) for w in 2 * jnp.exp(part * (u[0] - u)))


@pytest.mark.parametrize(("moved", "part"), [(1.0, 1.0), (0.4, 0.4), (0.0, 0.0), (-1, 0), (3, 1)])
def test_weights_go_along_as_they_did(moved, part):
    """As much as they made up for, between nothing and weight * inclusion constant."""
    carry, first, second = three_states(weights=coef_kept(moved))
    beyond = SOLVER.beyond(selected(carry, 3.0), first, second)
    expected = second.weights * (second.inclusion / beyond.inclusion) ** part
    np.testing.assert_allclose(beyond.weights, expected, rtol=1e-9)
    early = SOLVER.beyond(carry, first, second)
    np.testing.assert_array_equal(early.weights, second.weights)


def test_rates_at_an_end_stand_still():
    carry, first, second = three_states()
    ends = {0: jnp.inf, 1: -jnp.inf}

    def at_ends(state):
        log_odds = state.log_odds
        for feature, end in ends.items():
            log_odds = log_odds.at[feature].set(end)
        return state._replace(log_odds=log_odds)

    carry = selected(carry, 3.0)._replace(state=at_ends(carry.state))
    beyond = SOLVER.beyond(carry, at_ends(first), at_ends(second))
    for feature, end in ends.items():
        assert beyond.log_odds[feature] == end
        assert beyond.weights[feature] == second.weights[feature]
    assert jnp.isfinite(beyond.log_odds[2:]).all()


@pytest.mark.parametrize("sweeps", [1, 2])
def test_sweep_from_the_residual_of_other_weights(sweeps):
    """The same as from the residual that the state's own weights leave."""
    problem, state = some_state(1)
    before = state._replace(weights=jnp.where(state.active, 1.3 * state.weights + 0.1, 0))
    with_old = sweep.over_features(
        problem, state, sweep.residual(problem, before), sweeps, True, before.weights
    )
    with_own = sweep.over_features(problem, before, sweep.residual(problem, before), sweeps, True)
    assert jnp.abs(with_old.mask_mean - with_own.mask_mean).max() > 1e-3

    # By hand: each feature's old effect is taken out and its new one put in.
    X, masks = np.asarray(problem.X), np.array(state.mask_mean)
    left, w = np.asarray(sweep.residual(problem, before)), np.asarray(before.weights)
    offset = np.asarray(sweep.mask_offset(state, problem.num_samples))
    for _ in range(sweeps):
        for j in np.flatnonzero(state.active):
            new_effect = X[j] * float(state.weights[j])
            left = left + masks[j] * X[j] * w[j]
            log_odds = float(state.noise_precision) * new_effect * (left - new_effect / 2)
            masks[j] = 1 / (1 + np.exp(-log_odds - offset[j]))
            left = left - masks[j] * new_effect
        w = np.asarray(state.weights)
    np.testing.assert_allclose(
        with_old.mask_mean[state.active], masks[np.asarray(state.active)], atol=1e-12
    )
