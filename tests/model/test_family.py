"""Families against their literal formulas, exact evidence by enumeration, and autodiff."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.optimize
import scipy.special
import scipy.stats

import bmjax
from bmjax._model.family import touching
from tests.helpers import some_state

FAMILIES = [bmjax.Logistic(), bmjax.Student(3.0), bmjax.Student(None)]


def problem_and_state(family, seed=3, n=30, k=5, dtype=np.float64):
    """A dataset of a family with weights of rows, and a state that is at no optimum."""
    problem, state = some_state(seed, n=n, k=k, dtype=dtype)
    rng = np.random.default_rng(seed)
    y, noise = problem.y, problem.noise_precision
    if not family.has_units:
        y, noise = jnp.asarray(rng.integers(0, 2, n), dtype), jnp.ones((), dtype)
        state = state._replace(noise_precision=noise)
    elif family.degrees is not None:
        family = bmjax.Student(jnp.asarray(family.degrees, dtype))
    counts = jnp.asarray(rng.integers(1, 4, n), dtype)
    problem = problem._replace(y=y, noise_precision=noise, sample_weights=counts, family=family)
    return problem, state


def log_density(family, y, eta, noise, degrees=None):
    """The log density of y given its predictor, by SciPy."""
    if not family.has_units:
        return np.where(
            np.asarray(y) == 1, scipy.special.log_expit(eta), scipy.special.log_expit(-eta)
        )
    return scipy.stats.t.logpdf(y, degrees, loc=eta, scale=1 / np.sqrt(noise))


def literal_bound(problem, state):
    """The bound by its formulas, sample by sample, the touching points found by a search."""
    family, X, y = problem.family, np.asarray(problem.X), np.asarray(problem.y)
    mask = np.where(np.asarray(state.active)[:, None], np.asarray(state.mask_mean), 0)
    weights, noise = np.asarray(state.weights), float(state.noise_precision)
    counts, pi = np.asarray(problem.sample_weights), np.asarray(state.inclusion)
    effects = X * weights[:, None]
    mean, variance = (effects * mask).sum(0), (effects**2 * mask * (1 - mask)).sum(0)
    total = 0.0
    if not family.has_units:
        for i in range(len(y)):
            second = mean[i] ** 2 + variance[i]

            def lower(xi, i=i, second=second):
                w = np.tanh(xi / 2) / (2 * xi)
                height = scipy.special.log_expit(xi) - xi / 2
                return (y[i] - 0.5) * mean[i] - 0.5 * w * (second - xi**2) + height

            best = scipy.optimize.minimize_scalar(
                lambda xi, f=lower: -f(xi), bounds=(1e-6, 50), method="bounded"
            )
            total += counts[i] * -best.fun
    else:
        square = noise * ((y - mean) ** 2 + variance)
        grid = [family.degrees] if family.degrees is not None else np.geomspace(1, 100, 33)
        total = max(
            np.sum(counts * (scipy.stats.t.logpdf(np.sqrt(square), float(d)) + 0.5 * np.log(noise)))
            for d in grid
        )
    n, size = counts.sum(), 0
    for j in np.flatnonzero(np.asarray(state.active)):
        size += 1
        m = mask[j]
        prior = scipy.special.xlogy(m, pi[j]) + scipy.special.xlog1py(1 - m, -pi[j])
        total += np.sum(counts * prior)
        total += np.sum(counts * (scipy.special.entr(m) + scipy.special.entr(1 - m)))
        total -= 0.5 * (np.log(n * pi[j]) + (counts @ m / n - pi[j]) / pi[j])
    return total - 0.5 * (size + 1) * np.log(n)


@pytest.mark.parametrize("family", FAMILIES, ids=str)
def test_bound_equals_its_formulas(family, dtype):
    problem, state = problem_and_state(family, dtype=dtype)
    got = bmjax.lower_bound(problem, state)
    assert got.dtype == dtype
    # The search for the touching point is good to 1e-5, and the bound flat there.
    rel = 1e-8 if dtype == np.float64 else 1e-5
    assert float(got) == pytest.approx(literal_bound(problem, state), rel=rel)


@pytest.mark.parametrize("family", FAMILIES[:2], ids=str)
def test_expected_log_likelihood_is_bounded_by_enumeration(family):
    """Over all masks: E[log p(y | Z)] is above the bound's part, and log p(y) above the whole."""
    n, k = 5, 2
    problem, state = problem_and_state(family, n=n, k=k)
    rng = np.random.default_rng(0)
    mask, pi = rng.uniform(0.1, 0.9, (k, n)), rng.uniform(0.2, 0.8, k)
    state = state._replace(
        mask_mean=jnp.asarray(mask),
        log_odds=jnp.asarray(np.log(pi / (1 - pi))),
        weights=jnp.asarray(3 * rng.normal(size=k)),
        active=jnp.ones(k, bool),
    )
    problem = problem._replace(sample_weights=None)
    X, y, weights = (np.asarray(a) for a in (problem.X, problem.y, state.weights))
    noise, terms, expected, divergence = float(state.noise_precision), [], 0.0, 0.0
    for bits in itertools.product((0, 1), repeat=n * k):
        z = np.reshape(bits, (k, n))
        q = np.prod(np.where(z == 1, mask, 1 - mask))
        log_p = np.sum(log_density(family, y, weights @ (X * z), noise, 3.0))
        log_prior = np.sum(z * np.log(pi)[:, None] + (1 - z) * np.log1p(-pi)[:, None])
        expected += q * log_p
        divergence += q * (np.log(q) - log_prior)
        terms.append(log_p + log_prior)
    exact = scipy.special.logsumexp(terms)
    penalty = -0.5 * np.sum(np.log(n * pi) + (mask.mean(1) - pi) / pi) - 0.5 * (k + 1) * np.log(n)
    got = float(bmjax.lower_bound(problem, state)) - penalty
    assert got <= expected - divergence + 1e-10
    assert expected - divergence <= exact
    # Where masks are certain there is one predictor a sample, and nothing is given away.
    certain = state._replace(mask_mean=jnp.ones((k, n)), log_odds=jnp.full(k, jnp.inf))
    got = float(bmjax.lower_bound(problem, certain)) + 0.5 * (2 * k + 1) * np.log(n)
    want = np.sum(log_density(family, y, weights @ X, noise, 3.0))
    assert got == pytest.approx(want, rel=1e-12)


@pytest.mark.parametrize("family", FAMILIES, ids=str)
def test_steps_equal_their_formulas_and_raise_the_bound(family):
    """One E step and one M step, written out feature by feature."""
    problem, state = problem_and_state(family)
    near = touching(problem, state)
    X, y, counts = (np.asarray(a) for a in (problem.X, problem.y, problem.sample_weights))
    mask, weights = np.asarray(state.mask_mean).copy(), np.asarray(state.weights)
    noise, pi, n = float(state.noise_precision), np.asarray(state.inclusion), counts.sum()
    effects = X * weights[:, None]
    mean = (effects * mask).sum(0)
    variance = (effects**2 * mask * (1 - mask)).sum(0)
    if not family.has_units:
        xi = np.sqrt(mean**2 + variance)
        w = np.tanh(xi / 2) / (2 * xi)
        target = (y - 0.5) / w
    else:
        square = noise * ((y - mean) ** 2 + variance)
        grid = [family.degrees] if family.degrees is not None else np.geomspace(1, 100, 33)
        logs = [np.sum(counts * scipy.stats.t.logpdf(np.sqrt(square), float(d))) for d in grid]
        d = float(grid[int(np.argmax(logs))])
        w, target = (d + 1) / (d + square), y
    active = np.asarray(state.active)
    mask[~active] = 0
    for j in np.flatnonzero(active):
        others = np.delete(effects * mask, j, axis=0).sum(0)
        gain = noise * w * effects[j] * (target - others - effects[j] / 2)
        offset = scipy.special.logit(pi[j]) - 1 / (2 * n * pi[j])
        mask[j] = scipy.special.expit(gain + offset)
    after = bmjax.e_step(problem, state)
    np.testing.assert_allclose(np.asarray(after.mask_mean)[active], mask[active], rtol=1e-9)
    assert bmjax.lower_bound(problem, after) > bmjax.lower_bound(problem, state)
    # The M step at these masks, with the parabolas that touch where the E step has left them.
    near = touching(problem, after)
    root = np.asarray(near.X)[active] / X[active]
    w = root[0] ** 2
    masked = X[active] * mask[active]
    omega = (masked * counts * w) @ masked.T
    spread = (X[active] ** 2 * mask[active] * (1 - mask[active])) @ (counts * w)
    target = np.asarray(near.y) / root[0]
    want = np.linalg.solve(omega + np.diag(spread), masked @ (counts * w * target))
    final = bmjax.m_step(problem, after)
    np.testing.assert_allclose(np.asarray(final.weights)[active], want, rtol=1e-8)
    if family.has_units:
        left = target - want @ masked
        square = (counts * w) @ left**2 + want**2 @ spread
        assert float(final.noise_precision) == pytest.approx(n / square, rel=1e-8)
    assert bmjax.lower_bound(problem, final) > bmjax.lower_bound(problem, after)


@pytest.mark.parametrize("family", FAMILIES[:2], ids=str)
def test_the_bound_is_flat_where_a_fit_has_ended(family):
    """Autodiff at the end of a fit: no slope in weights, log-odds inside (0, 1), masks or noise."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(200, 3))
    eta = X @ [1.5, -1.0, 0]
    y = (rng.random(200) < scipy.special.expit(eta)) * 1.0
    if family.has_units:
        y = eta + rng.standard_t(3, size=200)
    noise = None if family.has_units else jnp.ones(())
    problem = bmjax.Problem(jnp.asarray(X.T), jnp.asarray(y), noise, jnp.asarray(1e-12))
    problem = problem._replace(family=family)
    state = bmjax.initialise(problem, jnp.asarray([0.9, 0.9, 0.9]))

    def iterate(_, state):
        return bmjax.m_step(problem, bmjax.prune(problem, bmjax.e_step(problem, state)))

    state = jax.lax.fori_loop(0, 20_000, iterate, state)
    slope = jax.grad(lambda s: bmjax.lower_bound(problem, s), allow_int=True)(state)
    inside = state.active & jnp.isfinite(state.log_odds) & (state.inclusion < 1 - 1e-9)
    assert int(state.active.sum()) >= 2
    np.testing.assert_allclose(np.where(state.active, slope.weights, 0), 0, atol=1e-5)
    np.testing.assert_allclose(np.where(inside, slope.log_odds, 0), 0, atol=1e-4)
    if family.has_units:
        assert abs(float(slope.noise_precision)) < 1e-5


@pytest.mark.parametrize("eta", [0.0, 1e-9, 0.0099, 0.0101, 3.0, 700.0])
def test_the_parabola_of_a_logistic_sample(eta):
    """Weight and height at the touching point, also where the series takes over near zero."""
    problem = bmjax.Problem(jnp.ones((1, 1)), jnp.ones(1), jnp.ones(()), jnp.asarray(1e-9))
    mean = jnp.asarray([eta])
    weight, _, base = bmjax.Logistic().touching(problem, mean, 0 * mean, jnp.ones(()))
    want = 0.25 if eta == 0 else np.tanh(eta / 2) / (2 * eta)
    assert float(weight[0]) == pytest.approx(want, rel=1e-12)
    height = float(base) - 0.5 * want * (0.5 / want - eta) ** 2 - 0.5 * np.log(2 * np.pi)
    assert height == pytest.approx(scipy.special.log_expit(eta), rel=1e-9, abs=1e-12)
