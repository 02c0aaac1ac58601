"""Fits with groups of columns, from the outside: what is kept, ends, batches, refusals."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import bmjax
from bmjax import Status
from tests.helpers import lane, same_bits

LABELS = ["a"] * 3 + ["b"] * 3 + ["c"] * 2 + [None] * 2


def coded(codes, levels, reference=0):
    """Dummies of codes but for a reference level."""
    return (codes[:, None] == np.delete(np.arange(levels), reference)[None, :]).astype(float)


def design(seed, n=80, noise=0.5):
    """Group a acts, and the last column."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, len(LABELS))) + 0.5 * rng.normal(size=(n, 1))
    y = X[:, :3] @ [1.0, -0.5, 0.3] + 0.7 * X[:, 9] + noise * rng.normal(size=n) + 2
    return X, y


def categories(seed, levels=8, n=300):
    """Three categorical variables, of which the first acts, by its levels."""
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, levels, size=(3, n))
    effects = rng.normal(size=levels)
    return codes, effects[codes[0]] + 0.7 * rng.normal(size=n)


def test_dummies_of_eight_levels_are_kept_or_dropped_together(dtype):
    """The right variables, where single dummies are not found; the same whatever the reference."""
    found = alone = 0
    for seed in range(5):
        codes, y = categories(seed)
        labels = np.repeat(["a", "b", "c"], 7)
        fits = []
        for reference in (0, 5):
            X = np.hstack([coded(c, 8, reference) for c in codes]).astype(dtype)
            fits.append(bmjax.fit(X, y.astype(dtype), groups=labels, intercept=True))
        one, other = fits
        assert one.coef.dtype == dtype
        assert one.status == Status.CONVERGED
        found += np.array_equal(one.support, labels == "a")
        same = {"rtol": 1e-6 if dtype == jnp.float64 else 1e-3}
        np.testing.assert_allclose(one.starts.score[0], other.starts.score[0], **same)
        np.testing.assert_array_equal(one.support, other.support)
        if dtype == jnp.float64:
            single = bmjax.fit(X, y, intercept=True)
            alone += np.array_equal(single.support, labels == "a")
    assert found == 5
    assert alone < 5


def test_groups_of_one_are_no_groups_to_the_bit():
    X, y = design(0)
    plain = bmjax.fit(X, y, intercept=True)
    for labels in (list(range(10)), list("abcdefghij"), [None] * 10, np.arange(10)):
        grouped = bmjax.fit(X, y, intercept=True, groups=labels)
        assert same_bits(grouped._replace(groups=None), plain)
        assert grouped.groups == tuple(np.asarray(labels, object).tolist())


@pytest.mark.parametrize("solver", [bmjax.EM(), bmjax.Accelerated()])
def test_the_bound_rises_while_no_group_is_pruned(solver):
    X, y = design(1, noise=2.0)
    r = bmjax.fit(
        X, y, groups=LABELS, solver=solver, initial_inclusion=0.5, history=True, max_steps=3000
    )
    ran = np.asarray(r.history.active_count) >= 0
    bound, count = (np.asarray(v)[ran] for v in (r.history.bound, r.history.active_count))
    assert r.status == Status.CONVERGED
    assert len(np.unique(count)) > 1
    assert (np.diff(bound)[np.diff(count) == 0] > -1e-9).all()
    for own in ("a", "b", "c"):
        rates = np.asarray(r.inclusion)[[label == own for label in LABELS]]
        assert len(np.unique(rates)) == 1
    assert 0 < np.asarray(r.inclusion)[0] < 1
    # A finished fit is at rest: an EM iteration more leaves it where it is.
    again = bmjax.fit(
        X,
        y,
        groups=LABELS,
        initial_weights=r.weights,
        initial_inclusion=np.where(r.support, r.inclusion, 1e-12),
        noise_precision=float(r.noise_precision),
    )
    np.testing.assert_allclose(again.coef, r.coef, atol=5e-3)


def test_batches_and_vmap_are_single_fits():
    pairs = [design(seed, 60, noise=1.0 + seed) for seed in range(4)]
    X, y = (np.stack(values) for values in zip(*pairs, strict=True))
    options = {"groups": LABELS, "intercept": True, "unmasked": [3, 4, 5]}
    batch = bmjax.fit_batch(X, y, **options)
    assert batch.groups == tuple(LABELS)
    plain = options | {"initial_inclusion": 0.5, "uncertainty": False}
    mapped = jax.jit(jax.vmap(lambda X, y: bmjax.fit(X, y, **plain)))(X, y)
    for i in range(4):
        alone = bmjax.fit(X[i], y[i], **options)
        assert alone.support[3:6].all()
        np.testing.assert_array_equal(batch[i].support, alone.support)
        np.testing.assert_allclose(batch[i].coef, alone.coef, atol=1e-7)
        np.testing.assert_allclose(batch[i].starts.score, alone.starts.score, rtol=1e-8)
        np.testing.assert_allclose(batch[i].starts.next_rise, alone.starts.next_rise, atol=1e-6)
        alone = bmjax.fit(X[i], y[i], **plain)
        np.testing.assert_allclose(lane(mapped, i).coef, alone.coef, atol=1e-7)
        np.testing.assert_allclose(lane(mapped, i).bound, alone.bound, rtol=1e-8)
    assert len({tuple(np.asarray(s)) for s in batch.support}) > 1


def test_more_columns_than_rows():
    """Two of forty groups, of which no more than n / 2 columns may be kept; also in a program."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 120))
    labels = np.repeat(np.arange(40), 3)
    y = X[:, :3] @ [1.0, -1, 1] + X[:, 60:63] @ [1.0, 1, -1] + 0.3 * rng.normal(size=40)
    r = bmjax.fit(X, y, groups=labels)
    np.testing.assert_array_equal(np.unique(labels[np.asarray(r.support)]), [0, 20])
    assert r.status == Status.CONVERGED
    batch = bmjax.fit_batch(X[None], y[None], groups=labels, moves=0)
    np.testing.assert_allclose(batch.coef[0], r.coef, atol=1e-7)
    noise = bmjax.fit(X, rng.normal(size=40), groups=labels)
    assert noise.support.sum() <= 20


def test_groups_without_full_rank_end_finite():
    """Every level of two variables beside an intercept, a level that no row has, a column twice."""
    codes, y = categories(0, levels=4)
    every = [(c[:, None] == np.arange(4)[None, :]).astype(float) for c in codes[:2]]
    X = np.hstack([*every, np.zeros((300, 1)), every[0][:, :1]])
    labels = ["a"] * 4 + ["b"] * 4 + ["a", "a"]
    r = bmjax.fit(X, y, groups=labels, intercept=True)
    kept = np.asarray(labels) == "a"
    np.testing.assert_array_equal(r.support, kept)
    assert r.status == Status.CONVERGED
    assert all(np.isfinite(v).all() for v in (r.coef, r.bound, r.starts.next_rise))
    design = np.column_stack([np.ones(300), X[:, kept]])
    mean = design @ np.linalg.lstsq(design, y, rcond=1e-8)[0]
    np.testing.assert_allclose(r.predict(X), mean, atol=1e-5)


def test_a_weight_is_a_row_repeated_and_known_noise_is_held():
    X, y = design(2, 50)
    counts = np.random.default_rng(0).integers(0, 3, size=50)
    options = {"groups": LABELS, "intercept": True, "noise_precision": 4.0}
    weighed = bmjax.fit(X, y, sample_weights=counts, **options)
    repeated = bmjax.fit(np.repeat(X, counts, axis=0), np.repeat(y, counts), **options)
    np.testing.assert_allclose(weighed.coef, repeated.coef, atol=1e-8)
    np.testing.assert_allclose(weighed.bound, repeated.bound, rtol=1e-9)
    np.testing.assert_allclose(weighed.standard_errors, repeated.standard_errors, rtol=1e-7)


def test_deviations_of_predictions_count_a_group_once(tmp_path):
    """The masks' variance is that of the sum that they hide; a saved fit knows its groups."""
    X, y = design(3)
    r = bmjax.fit(X, y, groups=LABELS, intercept=True)
    r = r._replace(inclusion=jnp.where(r.support, 0.6, 0.0))
    r.save(tmp_path / "fit.json")
    again = bmjax.load(tmp_path / "fit.json")
    assert again.groups == r.groups == tuple(LABELS)
    whole = r.predict(X, return_std=True)[1] ** 2
    without = r._replace(inclusion=r.support.astype(float)).predict(X, return_std=True)[1] ** 2
    away = X - np.asarray(r.center)
    effects = np.stack([away[:, :3] @ r.weights[:3], away[:, 9] * float(r.weights[9])])
    assert r.support[:3].all()
    assert r.support[9]
    assert r.support.sum() == 4
    np.testing.assert_allclose(whole - without, 0.24 * np.sum(effects**2, axis=0), rtol=1e-9)
    np.testing.assert_array_equal(again.predict(X, return_std=True)[1] ** 2, whole)


def test_tables_name_the_groups():
    X, y = design(3)
    r = bmjax.fit(X, y, groups=LABELS, intercept=True)
    head, _, first, *_ = str(r.summary()).splitlines()
    assert head.split()[:2] == ["feature", "group"]
    assert first.split()[:2] == ["x0", "a"]
    assert list(r.to_pandas().group) == ["a"] * 3 + ["b"] * 3 + ["c"] * 2 + ["", ""]
    assert "group" not in str(bmjax.fit(X, y, intercept=True).summary()).split()


def test_a_group_counts_once_in_stability_selection():
    X, y = design(4, 60)
    halves = bmjax.stability_selection(
        X, y, jax.random.key(0), 4, groups=LABELS, intercept=True, initial_inclusion=0.5
    )
    kept = halves.supports[:, [0, 3, 6, 8, 9]]
    np.testing.assert_allclose(halves.average_size, kept.sum(axis=1).mean())
    np.testing.assert_allclose(halves.expected_false, halves.average_size**2 / (0.5 * 5))


@pytest.mark.parametrize("family", ["logistic", "student"])
def test_other_families(family):
    rng = np.random.default_rng(1)
    codes = rng.integers(0, 4, size=(3, 400))
    eta = np.array([-2.0, 0, 1, 2])[codes[0]]
    y = (rng.uniform(size=400) < 1 / (1 + np.exp(-eta))).astype(float)
    if family == "student":
        y = eta + rng.standard_t(3, size=400)
    X = np.hstack([coded(c, 4) for c in codes])
    labels = np.repeat([1, 2, 3], 3)
    r = bmjax.fit(X, y, groups=labels, intercept=True, family=family)
    np.testing.assert_array_equal(r.support, labels == 1)
    assert r.status == Status.CONVERGED


BAD = [
    ({"groups": ["a"] * 9}, "groups has 9 labels, wanted 10: one for each column of X"),
    ({"groups": "abcdefghij"}, "groups is 'abcdefghij'; give a list of 10 labels"),
    ({"groups": [*LABELS[:9], float("nan")]}, "groups holds NaN for column 9; give None"),
    ({"groups": [*LABELS[:9], 1.5]}, "groups holds 1.5 for column 9; a label is an integer"),
    ({"groups": [*LABELS[:9], True]}, "groups holds True for column 9"),
    ({"groups": LABELS, "unmasked": [0]}, "unmasked differs between the columns of the group 'a'"),
    (
        {"groups": LABELS, "initial_inclusion": np.linspace(0.1, 1, 10)},
        "initial_inclusion differs between the columns of the group 'a'",
    ),
    (
        {"groups": LABELS, "starts": [[0.5] * 10, [0.0, *[0.5] * 9]]},
        "starts differs between the columns of the group 'a'",
    ),
    ({"groups": LABELS, "solver": bmjax.EG()}, "with groups give bmjax.Accelerated"),
]


@pytest.mark.parametrize(("options", "message"), BAD)
def test_refused_with_a_message(options, message):
    X, y = design(0)
    with pytest.raises((TypeError, ValueError)) as caught:
        bmjax.fit(X, y, **options)
    assert message in str(caught.value)


def test_what_there_is_not_yet_says_so():
    X, y = design(0)
    with pytest.raises(TypeError, match="fit_stream has no argument 'groups'"):
        bmjax.fit_stream([(X, y)], groups=LABELS)
    with pytest.raises(NotImplementedError, match="groups of columns has no derivatives"):
        jax.grad(lambda y: bmjax.fit(X, y, groups=LABELS, moves=0).coef[0])(jnp.asarray(y))


def test_unmasked_groups_are_known_inside_jit():
    """Numbers given as a list are looked at before they become traced."""
    X, y = np.random.default_rng(0).normal(size=(40, 5))[:, :4], np.arange(40.0)

    @jax.jit
    def kept(X, y):
        options = {"groups": ["a", "a", "b", "b"], "unmasked": [2, 3], "uncertainty": False}
        return bmjax.fit(X, y, **options).support

    assert kept(jnp.asarray(X), jnp.asarray(y))[2:].all()
