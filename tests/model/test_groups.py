"""Columns that share their masks: each step and the bound against formulas written out in NumPy."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import bmjax
from bmjax._model.groups import Groups, groups_of
from bmjax._model.sums import masked_sums
from bmjax._model.working_set import gathered, slots_for, taken
from tests.helpers import lane, some_state

LABELS = ["a", "b", "a", None, "b", "a"]
COLUMNS = ([0, 2, 5], [1, 4], [3])  # group by group
N, K = 25, 6


def grouped_state(seed, dtype=np.float64, *, n=N, labels=LABELS):
    """A problem with groups, and a state in the middle of nowhere."""
    problem, state = some_state(seed, n, len(labels), dtype)
    groups = groups_of(labels)
    rng = np.random.default_rng(seed + 100)
    k, number = len(labels), groups.number
    mask = rng.uniform(0.05, 0.95, size=(k, n))[number]
    rates = rng.uniform(0.2, 0.9, size=k)[number]
    state = state._replace(
        mask_mean=jnp.asarray(mask, dtype),
        weights=jnp.asarray(rng.normal(size=k), dtype),
        log_odds=jnp.asarray(np.log(rates / (1 - rates)), dtype),
        active=jnp.ones(k, bool),
    )
    groups = jax.tree.map(jnp.asarray, groups)
    return problem._replace(groups=groups), state


def numbers(problem, state):
    """X (n, k), y, masks (n, k), weights, rates and noise precision in NumPy."""
    fields = problem.X.T, problem.y, state.mask_mean.T, state.weights, state.inclusion
    return (*(np.array(f, float) for f in fields), float(state.noise_precision))


def e_step_by_hand(problem, state):
    X, y, mask, weights, rates, precision = numbers(problem, state)
    n = len(y)
    for own in COLUMNS:
        effect = X[:, own] @ weights[own]
        without = y - (X * mask) @ weights + mask[:, own[0]] * effect
        rate = rates[own[0]]
        log_odds = precision * effect * (without - effect / 2)
        log_odds += np.log(rate / (1 - rate)) - len(own) / (2 * n * rate)
        mask[:, own] = 1 / (1 + np.exp(-log_odds))[:, None]
    return mask.T


def second_moments(mask):
    """E[z z'] of each sample, (n, k, k)."""
    moments = mask[:, :, None] * mask[:, None, :]
    for own in COLUMNS:
        moments[:, np.ix_(own, own)[0], np.ix_(own, own)[1]] = mask[:, own[0]][:, None, None]
    return moments


def m_step_by_hand(problem, state):
    X, y, mask, *_ = numbers(problem, state)
    moments = second_moments(mask)
    omega = np.einsum("ni,nj,nij->ij", X, X, moments)
    weights = np.linalg.solve(omega, (X * mask).T @ y)
    square = y @ y - 2 * y @ (X * mask) @ weights + weights @ omega @ weights
    return weights, len(y) / square, mask.mean(axis=0)


def bound_by_hand(problem, state):
    X, y, mask, weights, rates, precision = numbers(problem, state)
    n = len(y)
    omega = np.einsum("ni,nj,nij->ij", X, X, second_moments(mask))
    square = y @ y - 2 * y @ (X * mask) @ weights + weights @ omega @ weights
    value = 0.5 * n * np.log(precision / (2 * np.pi)) - 0.5 * precision * square
    for own in COLUMNS:
        mu, pi = mask[:, own[0]], rates[own[0]]
        value += np.sum(mu * np.log(pi) + (1 - mu) * np.log1p(-pi))
        value -= np.sum(mu * np.log(mu) + (1 - mu) * np.log1p(-mu))
        value -= 0.5 * len(own) * (np.log(n * pi) + (mu.mean() - pi) / pi)
    return value - 0.5 * (len(COLUMNS) + 1) * np.log(n)


@pytest.mark.parametrize("seed", range(2))
def test_steps_and_bound_equal_the_formulas(seed, dtype, rounding):
    problem, state = grouped_state(seed, dtype)
    e, m = bmjax.e_step(problem, state), bmjax.m_step(problem, state)
    bound = bmjax.lower_bound(problem, state)
    assert e.mask_mean.dtype == m.weights.dtype == bound.dtype == dtype
    np.testing.assert_allclose(e.mask_mean, e_step_by_hand(problem, state), atol=rounding)
    weights, precision, rates = m_step_by_hand(problem, state)
    np.testing.assert_allclose(m.weights, weights, atol=20 * rounding)
    np.testing.assert_allclose(m.inclusion, rates, rtol=rounding)
    np.testing.assert_allclose(m.noise_precision, precision, rtol=rounding)
    np.testing.assert_allclose(bound, bound_by_hand(problem, state), rtol=rounding)
    for own in COLUMNS:  # tied to the bit
        for values in (e.mask_mean, m.log_odds):
            assert all(jnp.array_equal(values[own[0]], values[i]) for i in own)


def test_each_step_ends_where_the_bound_is_highest():
    """No slope in the masks of the group visited last, nor in any parameter after the M step."""
    problem, state = grouped_state(3)

    def slope(state):
        moved = jax.grad(bmjax.lower_bound, argnums=1, allow_int=True)(problem, state)
        return moved, problem.groups.summed(moved.mask_mean)

    once = bmjax.e_step(problem, state)
    assert jnp.abs(slope(state)[1][3]).max() > 0.1
    assert jnp.abs(slope(once)[1][3]).max() < 1e-9
    best = bmjax.m_step(problem, once)
    values = [bmjax.lower_bound(problem, s) for s in (state, once, best)]
    assert values[0] < values[1] < values[2]
    assert jnp.abs(slope(once)[0].weights).max() > 0.1
    for name in ("weights", "log_odds", "noise_precision"):
        assert jnp.abs(getattr(slope(best)[0], name)).max() < 1e-8, name


def test_expectations_by_enumeration():
    """Every expectation of the bound, summed over all masks of three samples and two groups."""
    n, labels = 3, [0, 1, 0]
    problem, state = grouped_state(1, n=n, labels=labels)
    mask = np.asarray(state.mask_mean).copy()
    mask[:, 0] = 1  # so that log sum_n z_n is finite
    state = state._replace(mask_mean=jnp.asarray(mask))
    X, y, mask, weights, rates, precision = numbers(problem, state)
    want, hessian, sizes = 0.0, 0.0, (2, 1)
    for bits in itertools.product((0, 1), repeat=2 * n):
        z = np.reshape(bits, (n, 2))
        q = np.prod(np.where(z == 1, mask[:, :2], 1 - mask[:, :2]))
        if q == 0:
            continue
        error = y - (X * z[:, [0, 1, 0]]) @ weights
        want += q * (n * np.log(precision / (2 * np.pi)) - precision * error @ error) / 2
        prior = z * np.log(rates[:2]) + (1 - z) * np.log1p(-rates[:2])
        want += q * (np.sum(prior) - np.log(q))
        hessian -= 0.5 * q * np.sum(np.log(z.sum(axis=0)) * sizes)
    linear = -0.5 * np.log(n * rates[:2]) - 0.5 * (mask.mean(axis=0)[:2] - rates[:2]) / rates[:2]
    penalty = linear @ sizes
    assert penalty <= hessian  # Laplace's term for so many weights is bounded from below
    want += penalty - 1.5 * np.log(n)
    np.testing.assert_allclose(bmjax.lower_bound(problem, state), want, rtol=1e-12)


def test_groups_of_one_are_no_groups():
    """The path of groups, given only groups of one, against the path without."""
    plain, state = some_state(5, 20, 4)
    k = len(plain.X)
    order = jnp.arange(k, dtype=jnp.int32)
    alone = Groups(order, jnp.ones(k, jnp.int32), jnp.ones(k, bool), order[:, None])
    grouped = plain._replace(groups=alone)
    for step in (bmjax.e_step, bmjax.m_step):
        for got, want in zip(step(grouped, state), step(plain, state), strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-14)
    got, want = (bmjax.lower_bound(p, state) for p in (grouped, plain))
    np.testing.assert_allclose(got, want, rtol=1e-13)


def test_a_group_is_pruned_together():
    problem, state = grouped_state(0)
    rows = np.asarray([label == "a" for label in LABELS])
    state = state._replace(mask_mean=jnp.where(rows[:, None], 1e-20, state.mask_mean))
    np.testing.assert_array_equal(bmjax.prune(problem, state).active, ~rows)


def test_slots_hold_whole_groups():
    """Steps in a few slots are those among all columns, of which one group is pruned."""
    problem, state = grouped_state(2)
    kept = np.asarray([label != "b" for label in LABELS])
    state = state._replace(active=jnp.asarray(kept))
    features = slots_for(jnp.asarray(kept), 5)
    part = gathered(problem, features)
    here = state._replace(
        mask_mean=taken(state.mask_mean, features),
        weights=taken(state.weights, features),
        log_odds=taken(state.log_odds, features),
        active=taken(state.active, features),
    )
    for step in (bmjax.e_step, bmjax.m_step):
        whole, few = step(problem, state), step(part, here)
        np.testing.assert_allclose(few.mask_mean[:4], whole.mask_mean[kept], atol=1e-12)
        np.testing.assert_allclose(few.weights[:4], whole.weights[kept], atol=1e-12)
    got, want = bmjax.lower_bound(part, here), bmjax.lower_bound(problem, state)
    np.testing.assert_allclose(got, want, rtol=1e-12)


def test_vmap_is_the_loop():
    pairs = [grouped_state(seed) for seed in range(3)]
    batch = jax.tree.map(lambda *leaves: jnp.stack(leaves), *pairs)
    swept = jax.vmap(bmjax.e_step)(*batch)
    summed = jax.vmap(lambda p, s: masked_sums(p, s, p.y)[0].omega)(*batch)
    for i, (problem, state) in enumerate(pairs):
        one = bmjax.e_step(problem, state)
        np.testing.assert_allclose(lane(swept, i).mask_mean, one.mask_mean, atol=1e-14)
        omega = masked_sums(problem, state, problem.y)[0].omega
        np.testing.assert_allclose(summed[i], omega, rtol=1e-12)


def test_there_is_no_g_step():
    problem, state = grouped_state(0)
    with pytest.raises(ValueError, match="no G step with groups"):
        bmjax.g_step(problem, state, optax.sgd(0.1), None)
