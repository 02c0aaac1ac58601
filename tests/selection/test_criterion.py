"""What the default charges for a support, against densities of SciPy and all subsets."""

import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import bmjax
from bmjax._selection.best_subset import _stages, best_subset, few_of_many
from bmjax._selection.criterion import Criterion, criterion, effects
from bmjax._selection.gram import anchored, unit_columns
from bmjax._selection.neighbours import best_of, squares_after
from bmjax._selection.slab import refreshed
from bmjax._selection.subset import whole_slab
from tests.helpers import learned_charge


def problem_of(X, y):
    return bmjax.Problem(jnp.asarray(X.T), jnp.asarray(y), None, jnp.asarray(0.0))


def score_by_hand(X, y, support, held=None):
    """The score of least squares on a subset, up to a constant of the dataset.

    Features with a weight in `held` are priced at that weight.
    """
    (n, k), kept = X.shape, X[:, support]
    coef = np.zeros(k)
    coef[support] = np.linalg.lstsq(kept, y, rcond=None)[0]
    variance = np.mean((y - X @ coef) ** 2)
    weights = coef if held is None else np.where(held != 0, held, coef)
    strengths = (weights**2 * np.mean(X**2, axis=0))[support] / variance
    share = max(1 - math.log(n) / (8 * math.log(k)), 0)
    choices = math.comb(k, min(int(support.sum()), k // 2))
    spent = learned_charge(n, strengths) + share * math.log(choices)
    return -0.5 * n * math.log(variance) - spent


def design(seed, n, k, effects, *, orthogonal=False):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, k)) @ (np.eye(k) + 0.3)
    if orthogonal:
        X = np.linalg.qr(X)[0] * math.sqrt(n)
    weights = np.zeros(k)
    weights[rng.permutation(k)[: len(effects)]] = effects
    return X, X @ weights + rng.normal(size=n)


@pytest.mark.parametrize("size", [1, 2, 5])
@pytest.mark.parametrize("columns", [1, 4])
def test_the_charge_is_that_of_the_densities(size, columns):
    """Of any strengths, also where groups are of many columns, and of the same strengths."""
    rng = np.random.default_rng(size)
    rule = Criterion(0.5 * math.log(80), True, np.zeros(9), 0.5 * math.log(80), 0.7)
    d = np.full(size, columns)
    for strengths in (rng.exponential(size=size), np.full(size, 0.3), 10.0 ** -np.arange(size)):
        kept = effects(strengths / 4.0, np.ones(size, bool), d).total.per_noise(np.asarray(4.0))
        want = learned_charge(80, strengths, d, least=0.7)
        np.testing.assert_allclose(rule.charge(kept), want, rtol=1e-10)


def test_a_feature_far_weaker_than_the_others_costs_more():
    """Beside six equally strong ones a weak seventh costs more than BIC; many weak ones less."""
    bic = 0.5 * math.log(200)
    strong = learned_charge(200, np.ones(6))
    assert learned_charge(200, [1.0] * 6 + [0.03]) - strong > bic + 1
    assert learned_charge(200, [0.03] * 8) < 8 * (bic - 0.5)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("effects", [(1.0, 1.0, 0.9), (0.2, 0.2, 0.2, 0.15), (3.0, 0.3, 0.1)])
def test_the_best_subset_is_that_of_brute_force(seed, effects):
    X, y = design(seed, 100, 7, effects)
    problem = problem_of(X, y)
    sums = anchored(problem.X, problem.y, None, tall=True)
    support, _, full = best_subset(problem, criterion("learned", problem), sums)
    assert not full
    every = [np.asarray(s) for s in itertools.product((False, True), repeat=7)]
    best = max(every, key=lambda s: score_by_hand(X, y, s))
    np.testing.assert_array_equal(support, best)


@pytest.mark.parametrize("seed", range(6))
def test_the_end_of_a_wide_search_is_a_local_optimum(seed):
    """No drop, addition or exchange raises the score, nor do two additions at once."""
    X, y = design(seed, 40, 60, (2.0, 2.0, -1.5, 1.0))
    problem = problem_of(X, y)
    support, _, full = few_of_many(problem, criterion("learned", problem), 20)
    assert not full
    kept = np.asarray(support)
    here = score_by_hand(X, y, kept)
    single = [kept ^ (np.arange(60) == i) for i in range(60)]
    pairs = itertools.product(np.flatnonzero(kept), np.flatnonzero(~kept))
    pairs = itertools.chain(pairs, itertools.combinations(np.flatnonzero(~kept), 2))
    moved = single + [kept ^ np.isin(np.arange(60), pair) for pair in pairs]
    assert max(score_by_hand(X, y, s) for s in moved) < here + 1e-9


@pytest.mark.parametrize("orthogonal", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_a_move_is_priced_at_the_weight_that_enters(seed, orthogonal):
    """Other weights are held; where columns are orthogonal, they stay, so its rise is exact."""
    X, y = design(seed, 50, 6, (1.0, 0.5, 0.3), orthogonal=orthogonal)
    problem = problem_of(X, y)
    sums, scale = unit_columns(anchored(problem.X, problem.y, None, tall=True))
    k = len(scale)
    rules = _stages(problem, criterion("learned", problem), k, k, in_stages=False).last
    for size in range(1, 6):
        kept = np.random.default_rng([seed, size]).permutation(6) < size
        slab = refreshed(sums, whole_slab(sums, jnp.asarray(kept)))
        price = rules.pricing(slab.features, slab.coef)
        move = best_of(slab, squares_after(slab), price, rules.most)
        into = [int(move.feature)] if move.feature < 6 else []
        out = [int(slab.features[move.slot])] if move.slot < 6 else []
        chosen = (kept & ~np.isin(np.arange(6), out)) | np.isin(np.arange(6), into)
        held = np.zeros(6)
        held[kept] = np.linalg.lstsq(X[:, kept], y, rcond=None)[0]
        here = score_by_hand(X, y, kept)
        np.testing.assert_allclose(move.rise, score_by_hand(X, y, chosen, held) - here, atol=1e-8)
        if orthogonal:
            singles = [kept ^ (np.arange(6) == i) for i in range(6)]
            pairs = itertools.product(np.flatnonzero(kept), np.flatnonzero(~kept))
            every = singles + [kept ^ np.isin(np.arange(6), pair) for pair in pairs]
            rises = [score_by_hand(X, y, s) - here for s in every]
            np.testing.assert_allclose(move.rise, max(rises), atol=1e-8)


@pytest.mark.parametrize("seed", range(3))
def test_fewer_than_two_samples_a_feature_are_searched_from_three_starts(seed):
    """The subset scores as high as those of searches from both ends, and in stages."""
    X, y = design(seed, 60, 40, (1.5, -1.5, 1.0, -1.0, 0.8, 0.8))
    problem = problem_of(X, y)
    rule = criterion("learned", problem)
    sums = anchored(problem.X, problem.y, None, tall=True)
    whole = best_subset(problem, rule, sums)[0]
    in_stages = few_of_many(problem, rule, 24)[0]
    best, _, full = best_subset(problem, rule, sums, 24, in_stages=True)
    assert not full
    one, other, end = (score_by_hand(X, y, np.asarray(s)) for s in (whole, in_stages, best))
    assert end == pytest.approx(max(one, other), abs=1e-9)


@pytest.mark.parametrize("seed", [0, 5, 6])
def test_the_slots_of_a_search_do_not_change_what_a_support_costs(seed):
    """Supports with more features than slots are charged in full, so idle ones do not come in."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(80, 60))
    y = X[:, :10].sum(axis=1) + 2 * rng.normal(size=80)
    few = bmjax.fit(X, y, intercept=True)
    every = jax.jit(lambda X, y: bmjax.fit(X, y, intercept=True))(X, y)
    np.testing.assert_array_equal(few.support, every.support)
    # Rows of weight zero pad the first, so sums differ by rounding, and ends within the tolerance.
    np.testing.assert_allclose(few.starts.score[0], every.starts.score[0], rtol=1e-3)
