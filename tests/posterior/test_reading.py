"""What is read off a posterior, and what `posterior` refuses."""

from types import SimpleNamespace
from xml.etree import ElementTree

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest

import bmjax
from bmjax._posterior.intervals import quantiles
from bmjax._posterior.reading import selected
from bmjax.sklearn import SupportPosteriorRegressor
from tests.posterior.designs import ar1


@pytest.fixture(scope="module")
def found():
    X, y, _ = ar1(1, 40, 6, [1, -1, 0.4], correlation=0.8)
    return bmjax.posterior(X, y, intercept=True)


def test_quantiles_of_a_mixture_are_those_of_draws_from_it():
    rng = np.random.default_rng(0)
    weight, inside = np.array([0.5, 0.3, 0.2]), np.array([[1, 0], [0, 1], [1, 1]], bool)
    mean = np.where(inside, [[1.0, 0], [0, -0.2], [0.3, -0.1]], 0)
    deviation = np.where(inside, [[0.4, 0], [0, 0.1], [0.8, 0.3]], 0)
    which = rng.choice(3, 400_000, p=weight)
    draws = mean[which] + deviation[which] * np.sqrt(0.8) * rng.standard_t(10, (400_000, 2))
    draws = np.where(inside[which], draws, 0)
    mixture = SimpleNamespace(
        features=np.arange(2),
        probability=weight,
        inside=inside,
        mean=mean,
        deviation=deviation,
        freedom=10.0,
    )
    posterior = SimpleNamespace(coef=np.zeros(2), probability=weight @ inside, mixture=mixture)
    for at in (0.01, 0.05, 0.3, 0.7, 0.95, 0.99):
        got = quantiles(at, posterior)
        np.testing.assert_allclose(got, np.quantile(draws, at, axis=0), 0, 0.02)


def test_select_takes_the_largest_set_that_may_be_taken():
    probability = np.array([0.5, 0.99, 0.7, 1.0, 0.9])
    always = np.array([False, False, False, True, False])
    # Means of 1 - p: .01, .055, .137, .228
    for fdr, wanted in ((0.0, [3]), (0.02, [1, 3]), (0.1, [1, 3, 4]), (0.14, [1, 2, 3, 4])):
        np.testing.assert_array_equal(np.flatnonzero(selected(probability, always, fdr)), wanted)
    both = selected(np.stack([probability] * 2), np.stack([always] * 2), 0.1)
    np.testing.assert_array_equal(both[0], both[1])


def test_select_of_a_posterior(found):
    np.testing.assert_array_equal(found.select(0.1), found.select())
    assert found.select(0.0).sum() == 0
    assert found.select(0.9).all()


def test_summary_and_table(found):
    text = str(found.summary(["a", "b", "c", "d", "e", "f"]))
    assert "every support was looked at" in text
    assert "most probable supports" in text
    table = found.to_pandas()
    assert list(table.index) == [f"x{i}" for i in range(6)]
    np.testing.assert_array_equal(table["probability"], found.probability)
    np.testing.assert_array_equal(table["lower"], found.interval()[0])
    assert repr(found).startswith("Posterior(6 features, ")
    with pytest.raises(ValueError, match="names has 1"):
        found.summary(["a"])


def test_a_notebook_shows_the_summary(found):
    page = ElementTree.fromstring(found._repr_html_())
    body = [[cell.text for cell in row] for row in page.findall("table/tbody/tr")]
    text = str(found.summary())
    shown = [line.split() for line in text.splitlines()[2:8]]
    assert [" ".join(row).split() for row in body[:6]] == shown
    assert len(page.findall("ul/li")) == text.partition("most probable supports")[2].count("\n")
    names = ["<b>", "a&b", "c", "d", "e", "f"]  # which are no markup
    assert "<b>" in "".join(ElementTree.fromstring(found.summary(names)._repr_html_()).itertext())
    batch = jax.tree.map(lambda leaf: np.asarray(leaf)[None], found)
    assert batch._repr_html_() is None


def test_a_posterior_is_a_pytree(found):
    again = jax.tree.map(lambda leaf: leaf, found)
    np.testing.assert_array_equal(again.coef, found.coef)
    mean = jax.jit(lambda posterior, X: posterior.predict(X))(found, jnp.ones((2, 6)))
    np.testing.assert_allclose(mean, found.predict(np.ones((2, 6))))


def test_readings_of_one_dataset_refuse_a_batch():
    data = [ar1(seed, 40, 6, [1, -1]) for seed in range(2)]
    several = bmjax.posterior(np.stack([d[0] for d in data]), np.stack([d[1] for d in data]))
    for read in (several.summary, several.to_pandas, several.credible_sets):
        with pytest.raises(ValueError, match="of one dataset, this is of 2"):
            read()
    assert several.select().shape == (2, 6)
    assert several.predict(data[0][0], return_std=True)[1].shape == (2, 40)


X, Y, _ = ar1(0, 20, 3, [1.0])


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"X": X[:, 0]}, ValueError, r"X has shape \(20,\)"),
        ({"y": Y[:5]}, ValueError, "y has 5 entries but X has 20 rows"),
        ({"X": np.where(X > 1, np.nan, X)}, ValueError, "X holds NaN or infinite values"),
        ({"X": [["a", "b", "c"]] * 20}, TypeError, "X has dtype"),
        ({"key": 3}, TypeError, "key is 3; give one JAX random key"),
        ({"intercept": "yes"}, TypeError, "intercept is 'yes'"),
        ({"unmasked": [7]}, ValueError, "unmasked is .*; wanted numbers of features, 0 to 2"),
        ({"unmasked": [0, 1, 2]}, ValueError, "unmasked names all 3 features"),
        ({"sample_weights": -np.ones(20)}, ValueError, "sample_weights holds negative numbers"),
        ({"noise_precision": 0}, ValueError, "noise_precision is 0; it must be above 0"),
        ({"enumerate_up_to": 30}, ValueError, "enumerate_up_to is 30; it must be at most 20"),
        ({"chains": 12}, ValueError, "chains is 12; it must be a multiple of 8"),
        ({"tolerance": 0.0}, ValueError, "tolerance is 0.0; it must be above 0"),
        ({"max_steps": 1.5}, TypeError, "max_steps is 1.5; it must be a whole number"),
        ({"supports": 0}, ValueError, "supports is 0; it must be at least 1"),
        ({"progress": 1}, TypeError, "progress is 1; it must be True or False"),
    ],
)
def test_wrong_arguments_are_named(change, error, message):
    asked = {"X": X, "y": Y, "key": None} | change
    with pytest.raises(error, match=message):
        bmjax.posterior(asked.pop("X"), asked.pop("y"), **asked)


def test_inside_jit_it_says_where_to_call_it():
    with pytest.raises(TypeError, match="call it outside"):
        jax.jit(lambda y: bmjax.posterior(X, y).coef)(Y)
    # Where the data are at hand it runs while something else is traced.
    coef = jax.jit(lambda v: bmjax.posterior(X, Y).coef + v)(0.0)
    np.testing.assert_allclose(coef, bmjax.posterior(X, Y).coef)


@pytest.mark.parametrize(("level", "error"), [(1.5, ValueError), (0, ValueError), ("a", TypeError)])
def test_levels_out_of_range(found, level, error):
    for read in (found.interval, found.credible_sets):
        with pytest.raises(error, match="level"):
            read(level)


def test_probabilities_and_intervals_are_calibrated_where_the_design_is_the_prior():
    """Effects drawn from the prior: what is said with a probability happens that often."""
    rng = np.random.default_rng(0)
    b, n, k = 300, 50, 6
    distance = np.abs(np.subtract.outer(np.arange(k), np.arange(k)))
    X = rng.normal(size=(b, n, k)) @ np.linalg.cholesky(0.5**distance).T
    rate, width = 0.5 * rng.random((b, 1)), 10 ** rng.uniform(0.5, 2, b)
    inside = rng.random((b, k)) < rate
    coef = np.zeros((b, k))
    for i in range(b):
        own = X[i] - X[i].mean(0)
        own = own[:, inside[i]]
        if inside[i].any():
            half = np.linalg.cholesky(np.linalg.inv(own.T @ own))
            coef[i, inside[i]] = np.sqrt(width[i]) * half @ rng.normal(size=own.shape[1])
    y = np.einsum("bnk,bk->bn", X, coef) + rng.normal(size=(b, n))
    found = bmjax.posterior(X, y, intercept=True)
    p = np.asarray(found.probability).ravel()
    for low, high in ((0, 0.2), (0.2, 0.5), (0.5, 0.9), (0.9, 1.01)):
        some = (p >= low) & (p < high)
        error = np.sqrt(np.mean(p[some] * (1 - p[some])) / some.sum())
        assert abs(inside.ravel()[some].mean() - p[some].mean()) < 4 * error + 0.02
    lower, upper = found.interval(0.9)
    covered = np.mean((lower <= coef) & (coef <= upper))
    assert 0.9 < covered < 0.99  # features that are out are covered nearly always
    false = [np.mean(~inside[i][s]) if s.any() else 0.0 for i, s in enumerate(found.select(0.1))]
    assert np.mean(false) < 0.12


def test_unmasked_features_by_their_names():
    X, y, _ = ar1(0, 40, 6, [1, -1])
    frame = pd.DataFrame(X, columns=list("abcdef"))
    named = bmjax.posterior(frame, y, unmasked=["c", "f"])
    numbered = bmjax.posterior(X, y, unmasked=[2, 5])
    np.testing.assert_array_equal(named.probability, numbered.probability)
    np.testing.assert_array_equal(np.flatnonzero(named.unmasked), [2, 5])
    with pytest.raises(ValueError, match="unmasked names 'g', of which X has no column"):
        bmjax.posterior(frame, y, unmasked=["g"])
    model = SupportPosteriorRegressor(fit_intercept=False, unmasked="c").fit(frame, y)
    assert model.probability_[2] == 1


def test_categories_are_not_for_the_posterior():
    X, y, _ = ar1(0, 40, 6, [1, -1])
    frame = pd.DataFrame(X).rename(columns=str).assign(place=pd.Categorical(["a", "b"] * 20))
    with pytest.raises(ValueError, match="get_dummies"):
        SupportPosteriorRegressor().fit(frame, y)


def test_names_of_the_data_stay_with_the_posterior():
    X, y, _ = ar1(0, 40, 3, [1, -1])
    frame = pd.DataFrame(X, columns=["age", "size", "dose"])
    found = bmjax.posterior(frame, pd.Series(y, name="price"), intercept=True)
    assert found.names.features == ("age", "size", "dose")
    assert list(found.to_pandas().index) == ["age", "size", "dose"]
    assert "dose" in str(found.summary())
    assert "other" in str(found.summary(["other", "a", "b"]))
    turned = frame[["dose", "age", "size"]]
    np.testing.assert_array_equal(found.predict(turned), found.predict(X))
    with pytest.raises(ValueError, match="no column 'size'"):
        found.predict(frame[["age", "dose"]])
    moved = jax.tree.map(lambda leaf: leaf, found)
    assert moved.names == found.names
    assert bmjax.posterior(X, y).names is None
    model = SupportPosteriorRegressor().fit(frame, y)
    assert model.posterior_.names.features == ("age", "size", "dose")
