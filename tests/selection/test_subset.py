"""The search for a subset: rank-one updates against fresh factors, moves against least squares."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bmjax._selection.climb import Rules
from bmjax._selection.gram import Rows, anchored, unit_columns, unit_scale
from bmjax._selection.neighbours import Noise, squares_after
from bmjax._selection.pairs import with_best_pair
from bmjax._selection.slab import Move, change_of, moved, refreshed
from bmjax._selection.subset import (
    Stages,
    bic_charge,
    flat,
    from_both_ends,
    from_nothing,
    whole_slab,
)
from tests.helpers import normal_design

N, K, SLOTS = 40, 9, 6


def on_both(*arrays):
    """The arrays of NumPy and of JAX."""
    return [arrays, tuple(map(jnp.asarray, arrays))]


def correlated(seed, dtype, n=N, k=K):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, k)) + 0.8 * rng.normal(size=(n, 1))
    y = X[:, :3] @ [1.0, -1, 0.5] + rng.normal(size=n)
    return np.ascontiguousarray(X.T).astype(dtype), y.astype(dtype)


def source_of(X, y, kind):
    if kind == "rows":
        return Rows(X, y, None, unit_scale((X**2).sum(axis=1)))
    return unit_columns(anchored(X, y))[0]


def one_climb(rules):
    return Stages(lambda _: rules)


def square_of(X, y, kept):
    return np.sum((y - X[kept].T @ np.linalg.lstsq(X[kept].T, y)[0]) ** 2)


def walk(source, slab, moves):
    for slot, feature in moves:
        move = Move(
            np.asarray(slot, np.int32), np.asarray(feature, np.int32), None, slab.square * 0
        )
        change = change_of(slab, move)
        slab = moved(source, slab, move, change, np.asarray(True))
    return slab


@pytest.mark.parametrize("kind", ["rows", "sums"])
def test_updates_stay_with_a_fresh_factor(kind, dtype):
    """Additions, drops and exchanges by rank one: all that is held is as if computed anew."""
    X, y = correlated(0, dtype)
    slots = SLOTS if kind == "rows" else K
    empty = slots if kind == "sums" else None
    moves = [(slots, 2), (slots, 5), (slots, 0), (1, K), (slots, 7), (2, 3), (0, 8), (slots, 4)]
    for arrays in on_both(X, y):
        source = source_of(*arrays, kind)
        begun = whole_slab(source_of(*arrays, "sums"), arrays[0][:, 0] > np.inf)
        if empty is None:
            begun = begun._replace(
                features=begun.features[:slots],
                gram=begun.gram[:slots],
                inverse=begun.inverse[:slots, :slots],
                reach=begun.reach[:slots],
                coef=begun.coef[:slots],
            )
        slab = walk(source, refreshed(source, begun), moves)
        fresh = refreshed(source, slab)
        tolerance = 1e-10 if dtype == jnp.float64 else 2e-4
        for name in ("inverse", "reach", "coef", "slope"):
            np.testing.assert_allclose(
                getattr(slab, name), getattr(fresh, name), atol=tolerance, err_msg=name
            )
        kept = np.flatnonzero(np.asarray(slab.kept))
        assert sorted(kept) == [3, 4, 7, 8]
        scale = np.sqrt((X.astype(float) ** 2).sum(axis=1))
        want = np.linalg.lstsq(X[kept].T.astype(float), y.astype(float))[0] * scale[kept]
        order = np.argsort(np.asarray(slab.features))[: len(kept)]
        np.testing.assert_allclose(np.asarray(slab.coef)[order], want, atol=20 * tolerance)
        np.testing.assert_allclose(fresh.square, square_of(X, y, kept), rtol=1e3 * tolerance)


@pytest.mark.parametrize("kind", ["rows", "sums"])
def test_every_move_is_judged_as_least_squares_would(kind):
    X, y = correlated(1, np.float64)
    support = np.isin(np.arange(K), [1, 4, 6])
    for arrays in on_both(X, y):
        slab = refreshed(
            source_of(*arrays, kind), whole_slab(source_of(*arrays, "sums"), arrays[0][:, 0] < 0)
        )
        sums = source_of(*arrays, "sums")
        slab = refreshed(source_of(*arrays, kind), whole_slab(sums, _as(arrays[0], support)))
        after = squares_after(slab)
        for i, j in itertools.product(range(K), range(K)):
            if support[i] and not support[j]:
                turned = support ^ np.isin(np.arange(K), [i, j])
                np.testing.assert_allclose(after.swap[i, j], square_of(X, y, turned), rtol=1e-9)
            else:
                assert np.isinf(after.swap[i, j])
        for i in range(K):
            turned = support ^ (np.arange(K) == i)
            found = after.drop if support[i] else after.add
            np.testing.assert_allclose(found[i], square_of(X, y, turned), rtol=1e-9)


def _as(like, values):
    return jnp.asarray(values) if isinstance(like, jax.Array) else values


@pytest.mark.parametrize("seed", range(3))
def test_the_end_of_a_search_is_a_local_optimum(seed, dtype):
    """No move, nor pair of additions, lowers BIC, from every source and in NumPy and JAX alike."""
    X, y = correlated(seed, dtype)
    charge = bic_charge(N)

    def bic(kept):
        square = square_of(X.astype(float), y.astype(float), np.flatnonzero(kept))
        return 0.5 * N * np.log(square) + charge * kept.sum()

    ends = []
    for features, target in on_both(X, y):
        noise = Noise(N, None, 1e-12)
        sums = source_of(features, target, "sums")
        rules = Rules(flat(charge, K, noise), noise, K, 100)
        ends.append(from_both_ends(sums, one_climb(rules), K))
        few = Rules(flat(charge, K, noise), noise, SLOTS, 100)
        ends.append(from_nothing(source_of(features, target, "rows"), SLOTS, one_climb(few)))
    for end in ends:
        assert end.ended
        kept = np.asarray(end.support)
        here = bic(kept)
        for i, j in itertools.product(range(K), range(K)):
            turned = kept ^ (np.arange(K) == i) ^ ((np.arange(K) == j) & (kept[i] != kept[j]))
            assert bic(turned) > here - 1e-3
            assert bic(kept | np.isin(np.arange(K), [i, j])) > here - 1e-3
    np.testing.assert_array_equal(ends[0].support, ends[2].support)
    np.testing.assert_array_equal(ends[1].support, ends[3].support)
    tolerance = 1e-9 if dtype == jnp.float64 else 1e-3
    np.testing.assert_allclose(ends[0].coef, ends[2].coef, atol=tolerance)


@pytest.mark.parametrize("kind", ["rows", "sums"])
@pytest.mark.parametrize("support", [[], [1, 4]])
def test_the_best_pair_is_that_of_least_squares(kind, support, dtype):
    """Among all pairs, of which some are copies or opposites of one column."""
    X, y = correlated(2, np.float64)
    X[7], X[8] = X[0], -3 * X[2]
    X, y = X.astype(dtype), y.astype(dtype)
    want = {}
    for i, j in itertools.combinations(np.setdiff1d(np.arange(K), support), 2):
        kept = [*support, i, j]
        if np.linalg.matrix_rank(X[kept]) == len(kept):
            want[i, j] = square_of(X.astype(float), y.astype(float), kept)
    tolerance = 1e-9 if dtype == jnp.float64 else 1e-4
    for arrays in on_both(X, y):
        source, sums = source_of(*arrays, kind), source_of(*arrays, "sums")
        slab = refreshed(source, whole_slab(sums, _as(arrays[0], np.isin(np.arange(K), support))))
        more, possible = with_best_pair(source, slab)
        assert possible
        new = set(np.flatnonzero(np.asarray(more.kept))) - set(support)
        np.testing.assert_allclose(want[tuple(sorted(new))], min(want.values()), rtol=tolerance)
        np.testing.assert_allclose(more.square, min(want.values()), rtol=tolerance)
        fresh = refreshed(source, more)
        np.testing.assert_allclose(more.coef, fresh.coef, atol=10 * tolerance)
        np.testing.assert_allclose(more.gram, fresh.gram, atol=10 * tolerance)


def test_a_pair_needs_two_slots():
    X, y = correlated(2, np.float64)
    sums = source_of(X, y, "sums")
    slab = refreshed(sums, whole_slab(sums, np.arange(K) < K - 1))
    assert not with_best_pair(sums, slab)[1]


@pytest.mark.parametrize("k", [40, 400])
def test_effects_that_cancel_are_found(k):
    """Two columns that are alike and act with opposite signs, neither of any use alone."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(100, k))
    X[:, 1] = X[:, 0] + 0.1 * rng.normal(size=100)
    y = 10 * (X[:, 0] - X[:, 1]) + 0.3 * rng.normal(size=100)
    X, y = np.ascontiguousarray(X.T), y
    for features, target in on_both(X, y):
        noise = Noise(100, None, 1e-12)
        rules = Rules(flat(3 * bic_charge(100), k, noise), noise, 10, 50)
        end = from_nothing(source_of(features, target, "rows"), 10, one_climb(rules))
        assert np.flatnonzero(np.asarray(end.support)).tolist() == [0, 1]


def test_a_search_says_when_it_is_out_of_room():
    X, y = normal_design(0, 60, [3.0, 2, -2, 2.5, 0, 0, 0], noise=0.1)
    rows = source_of(np.ascontiguousarray(X.T), y, "rows")
    noise = Noise(60, None, 1e-12)
    for slots, full in ((2, True), (6, False)):
        rules = Rules(flat(bic_charge(60), 7, noise), noise, 6, 50)
        end = from_nothing(rows, slots, one_climb(rules))
        assert bool(end.full) == full
        assert end.support.sum() == min(slots, 4)


def test_features_that_are_needed_come_first_and_stay():
    X, y = correlated(5, np.float64)
    needed = np.isin(np.arange(K), [6, 8])
    noise = Noise(N, None, 1e-12)

    def pricing(features, coef):
        may_not_go = np.where(np.isin(features, [6, 8]), -np.inf, 0.0)
        return flat(50.0, K, noise)(features, coef)._replace(masks=may_not_go)

    rules = Rules(pricing, noise, SLOTS, 50)
    end = from_nothing(source_of(X, y, "rows"), SLOTS, one_climb(rules), needed)
    np.testing.assert_array_equal(end.support, needed)  # the others cost too much


def test_many_moves_are_refreshed():
    """More moves than are made between two refreshes, to the right end, in float32."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 60))
    weights = np.r_[rng.uniform(0.5, 1, 45), np.zeros(15)]
    y = X @ weights + 0.1 * rng.normal(size=400)
    features, target = np.ascontiguousarray(X.T).astype(np.float32), y.astype(np.float32)
    noise = Noise(400, None, 1e-9)
    rules = Rules(flat(bic_charge(400), 60, noise), noise, 50, 500)
    end = from_nothing(source_of(features, target, "rows"), 50, one_climb(rules))
    assert end.steps >= 45
    np.testing.assert_array_equal(end.support[:45], True)
    assert end.support.sum() <= 48
