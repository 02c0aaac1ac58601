"""Starts, moves and the score: against brute force, closed forms and separate fits."""

import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import bmjax
from bmjax import Status
from bmjax._results.parts import Starts
from bmjax._selection.criterion import criterion, score
from bmjax._selection.moves import best_move, surroundings
from tests.helpers import lane, learned_charge, normal_design, plain_fit, uniform_design


def interior_state(seed, k=5, n=60):
    """A problem and a state that an M step leaves, with masks between zero and one."""
    X, y, _ = uniform_design(seed, k, n)
    problem = bmjax.Problem(jnp.asarray(X.T), jnp.asarray(y), None, jnp.asarray(1e-12))
    state = bmjax.initialise(problem, jnp.asarray([0.5, 0.9, 0.0, 0.7, 0.0]))
    for _ in range(2):
        state = bmjax.m_step(problem, bmjax.e_step(problem, state))
    return problem, state


@pytest.mark.parametrize("seed", range(3))
def test_the_best_move_is_that_of_brute_force(seed):
    """Every move made by hand and scored in full; held weights' spread, so the rise is exact."""
    problem, state = interior_state(seed)
    k = len(problem.X)
    rule = criterion("held", problem)
    here = score(rule, problem, state, bmjax.lower_bound(problem, state))
    kept = np.asarray(state.active)
    after = [kept ^ (np.arange(k) == i) for i in range(k)]
    after += [
        kept ^ (np.arange(k) == i) ^ (np.arange(k) == j)
        for i, j in itertools.product(np.flatnonzero(kept), np.flatnonzero(~kept))
    ]
    rises = []
    for active in after:
        mask = np.where((active & ~kept)[:, None], 1.0, state.mask_mean) * active[:, None]
        moved = state._replace(active=jnp.asarray(active), mask_mean=jnp.asarray(mask))
        moved = bmjax.m_step(problem, moved)
        rises.append(score(rule, problem, moved, bmjax.lower_bound(problem, moved)) - here)
    features = jnp.arange(k, dtype=jnp.int32)
    around = surroundings(problem, state, features)
    moved, _, rise = best_move(problem, rule, state, around, jnp.asarray(1.0))
    np.testing.assert_allclose(rise, max(rises), atol=1e-9)
    np.testing.assert_array_equal(moved.active, after[int(np.argmax(rises))])
    np.testing.assert_allclose(
        score(rule, problem, moved, bmjax.lower_bound(problem, moved)) - here, rise, atol=1e-9
    )


@pytest.mark.parametrize("rate", [0.5, 0.99])
def test_a_moved_state_is_that_of_an_m_step_at_its_masks(rate):
    """Also where an added feature is masked at some rate; drops, additions and exchanges."""
    problem, state = interior_state(0)
    rule = criterion("held", problem)
    around = surroundings(problem, state, jnp.arange(len(problem.X), dtype=jnp.int32))
    added = []
    for rank in range(8):
        moved, _, _ = best_move(problem, rule, state, around, jnp.asarray(rate), rank)
        added.append(bool(jnp.any(moved.active & ~state.active)))
        want = bmjax.m_step(problem, moved)
        for name in ("weights", "log_odds", "noise_precision"):
            got, wanted = getattr(moved, name), getattr(want, name)
            np.testing.assert_allclose(got, wanted, rtol=1e-9, err_msg=name)
    assert any(added)
    assert not all(added)


def test_what_each_rule_charges():
    """At inclusion 1: the log likelihood of least squares less BIC's charge, and the extras."""
    X, y = normal_design(0, 50, [2.0, 0, -1, 0, 0, 1.5])
    problem = bmjax.Problem(jnp.asarray(X.T), jnp.asarray(y), None, jnp.asarray(0.0))
    state = bmjax.m_step(problem, bmjax.initialise(problem, jnp.asarray([1.0, 0, 1, 0, 0, 1])))
    bound = bmjax.lower_bound(problem, state)
    n, k, size = 50, 6, 3
    kept = X[:, [0, 2, 5]]
    coef, square = np.linalg.lstsq(kept, y, rcond=None)[:2]
    variance = square[0] / n
    likelihood = -0.5 * n * (math.log(2 * math.pi * variance) + 1) - 0.5 * math.log(n)
    held = likelihood - size * 0.5 * math.log(n)
    strengths = coef**2 * np.mean(kept**2, axis=0) / variance
    share = 1 - math.log(n) / (8 * math.log(k))
    learned = likelihood - learned_charge(n, strengths) - share * math.log(math.comb(k, size))
    want = {"paper": held - size * 0.5 * math.log(n), "held": held, "learned": learned}
    assert abs(want["learned"] - want["held"]) > 0.5  # or the test would not see it
    for name, value in want.items():
        got = score(criterion(name, problem), problem, state, bound)
        np.testing.assert_allclose(got, value, rtol=1e-10)
    np.testing.assert_allclose(want["paper"], bound, rtol=1e-10)


def test_strong_signals_are_found_where_one_start_is_not_enough():
    X, y = normal_design(5, 200, [0, 2, 0, -1, 0.5, 0], noise=0.01)
    alone, guided = plain_fit(X, y), bmjax.fit(X, y)
    np.testing.assert_array_equal(guided.support, [False, True, False, True, True, False])
    np.testing.assert_allclose(guided.noise_precision**-0.5, 0.01, rtol=0.15)
    assert guided.bound > alone.bound + 100
    assert alone.noise_precision**-0.5 > 0.03


def test_given_starts_are_separate_fits_and_the_best_is_returned():
    X, y, _ = uniform_design(3, 6)
    rates = np.array([[0.1] * 6, [0.5] * 6, [0.9, 0, 0.9, 0.9, 0, 0.9]])
    r = bmjax.fit(X, y, starts=rates, moves=0)
    assert r.starts.score.shape == (3,)
    for i, rate in enumerate((0.1, 0.5)):
        alone = plain_fit(X, y, initial_inclusion=rate)
        np.testing.assert_allclose(r.starts.bound[i], alone.bound, rtol=1e-9)
        np.testing.assert_allclose(r.starts.coef[i], alone.coef, atol=1e-7)
        assert r.starts.num_steps[i] == alone.num_steps
    assert not np.asarray(r.starts.inclusion[2])[[1, 4]].any()
    best = int(r.starts.best)
    np.testing.assert_array_equal(r.coef, r.starts.coef[best])
    assert int(r.num_steps) == int(r.starts.num_steps.sum())
    assert r.bound == r.starts.bound[best]


def test_moves_lead_from_a_poor_start_to_a_better_fit():
    """From a start without the strongest feature, which one fit cannot bring back."""
    X, y = normal_design(3, 100, [1.0, 0, 0.5, 0, 0])
    poor = [[0, 0.9, 0.9, 0.9, 0.9]]
    still = bmjax.fit(X, y, starts=poor, moves=0)
    moved = bmjax.fit(X, y, starts=poor, moves=6)
    np.testing.assert_array_equal(moved.support, [True, False, True, False, False])
    assert not still.support[0]
    made = np.asarray(moved.starts.score)
    made = made[np.isfinite(made)]
    assert len(made) > 1
    np.testing.assert_allclose(made[0], still.starts.score[0], rtol=1e-9)
    assert moved.starts.score[moved.starts.best] == made.max()
    assert (moved.starts.size[len(made) :] == -1).all()


@pytest.mark.parametrize("width", [1, 3])
def test_a_batch_equals_single_fits_and_vmap(width):
    pairs = [uniform_design(seed, 5) for seed in range(5)]
    X, y = (np.stack([p[i] for p in pairs]) for i in (0, 1))
    batch = bmjax.fit_batch(X, y, width=width)._replace(lane_steps=None)
    mapped = jax.jit(jax.vmap(bmjax.fit))(X, y) if width == 1 else batch
    for i in range(5):
        alone = bmjax.fit(X[i], y[i])
        for other in (lane(batch, i), lane(mapped, i)):
            np.testing.assert_array_equal(other.support, alone.support)
            np.testing.assert_allclose(other.coef, alone.coef, atol=1e-7)
            np.testing.assert_allclose(other.starts.score, alone.starts.score, rtol=1e-8)


def test_more_features_than_samples(dtype):
    rng = np.random.default_rng(2)
    X = rng.normal(size=(40, 60)).astype(dtype)
    y = (X[:, :3] @ [3.0, -2, 2] + 0.5 * rng.normal(size=40)).astype(dtype)
    r = bmjax.fit(X, y)
    assert r.status == Status.CONVERGED
    np.testing.assert_array_equal(np.flatnonzero(r.support), [0, 1, 2])
    assert 0.25 < r.noise_precision**-0.5 < 1


def test_the_history_is_that_of_the_returned_fit():
    """Also where the best start is not the last one, and where starts end alike."""
    X, y = normal_design(5, 200, [0, 2, 0, -1, 0.5, 0], noise=0.1)
    r = bmjax.fit(X, y, starts=[0.99, 0.5, 0.1], moves=0, history=True, max_steps=300)
    assert r.starts.best == 0
    steps = int(r.starts.num_steps[0])
    course = np.asarray(r.history.bound)
    assert np.isfinite(course).sum() == steps // 3
    np.testing.assert_allclose(course[steps // 3 - 1], r.bound, rtol=1e-9)
    twice = bmjax.fit(X, y, starts=[0.99, 0.985], moves=0)
    assert twice.starts.best == 0
    np.testing.assert_array_equal(twice.coef, twice.starts.coef[0])


def test_share_counts_equal_supports_once_and_none_as_the_first():
    coef = np.array([[1.0, 0], [1.1, 0], [0, 2], [np.nan, np.nan]])
    starts = Starts(
        score=jnp.asarray([-1.0, 0, -1, -jnp.inf]),
        bound=jnp.zeros(4),
        size=jnp.asarray([1, 1, 1, -1]),
        status=jnp.ones(4, jnp.int32),
        num_steps=jnp.ones(4, jnp.int32),
        inclusion=jnp.asarray(coef),
        coef=jnp.asarray(coef),
        best=jnp.asarray(1),
        next_rise=jnp.asarray(-1.0),
    )
    e = math.exp(-1)
    np.testing.assert_allclose(starts.share, np.array([0, 1, e, 0]) / (1 + e))
    np.testing.assert_allclose(starts.averaged_support, np.array([1, e]) / (1 + e))
    np.testing.assert_allclose(starts.averaged_coef, np.array([1.1, 2 * e]) / (1 + e))
    hopeless = starts._replace(score=jnp.full(4, -jnp.inf))
    np.testing.assert_array_equal(hopeless.share, [1, 0, 0, 0])


BAD = [
    ({"starts": 0}, "starts is 0; it must be at least 1"),
    ({"starts": 99}, "starts is 99; there are 10 built-in"),
    ({"starts": [0.1, 1.5]}, "an inclusion rate lies between 0 and 1"),
    ({"starts": np.ones((2, 3))}, r"starts has shape \(2, 3\)"),
    ({"starts": 3, "initial_inclusion": 0.5}, "starts is given beside initial_inclusion"),
    ({"moves": -1}, "moves is -1"),
    ({"criterion": "aic"}, "criterion is 'aic'; it must be one of learned, held, paper"),
]


@pytest.mark.parametrize(("options", "message"), BAD)
def test_refused_with_a_message(options, message):
    with pytest.raises(ValueError, match=message):
        bmjax.fit(np.ones((5, 4)), np.ones(5), **options)
