"""The scikit-learn estimator: its rules, whole, and that it is `bmjax.fit` underneath."""

import pickle
import subprocess
import sys

import jax
import numpy as np
import pandas as pd
import pytest
from joblib import parallel_config
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import (
    check_fit_idempotent,
    check_sample_weight_equivalence_on_dense_data,
    parametrize_with_checks,
)

import bmjax
from bmjax import Status
from bmjax.sklearn import BayesianMaskingClassifier, BayesianMaskingRegressor
from tests.helpers import normal_design

WEIGHTS = [2.0, 0.0, -1.0, 0.0, 0.5]
NAMES = ["age", "bmi", "sex", "bp", "glu"]

# One fit from one start takes a third of the time to compile.
quick = BayesianMaskingRegressor(initial_inclusion=0.5)
# The checks fit noise too.
nothing_selected = pytest.mark.filterwarnings("ignore:No features were selected:UserWarning")


@pytest.fixture(scope="module")
def data():
    return normal_design(0, 60, WEIGHTS, noise=0.3)


@pytest.fixture(scope="module")
def frame(data):
    return pd.DataFrame(data[0], columns=NAMES)


@pytest.fixture(scope="module")
def fitted(data):
    return BayesianMaskingRegressor().fit(*data)


@nothing_selected
@pytest.mark.filterwarnings("ignore:The kept features tell the two outcomes apart")  # toy classes
@parametrize_with_checks([quick, BayesianMaskingClassifier(initial_inclusion=0.5)])
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@nothing_selected
@pytest.mark.parametrize(
    "check",
    [
        check_fit_idempotent,
        check_sample_weight_equivalence_on_dense_data,
    ],
)
def test_scikit_learn_checks_of_the_default(check):
    check("BayesianMaskingRegressor", BayesianMaskingRegressor())


def test_is_fit(data, fitted):
    X, y = data
    want = bmjax.fit(X, y, intercept=True)
    np.testing.assert_array_equal(fitted.support_, want.support)
    np.testing.assert_array_equal(fitted.support_, np.asarray(WEIGHTS) != 0)
    np.testing.assert_allclose(fitted.coef_, want.coef, rtol=1e-6)
    np.testing.assert_allclose(fitted.inclusion_, want.inclusion, rtol=1e-6)
    np.testing.assert_allclose(fitted.weights_, want.weights, rtol=1e-6)
    np.testing.assert_allclose(fitted.intercept_, want.intercept, rtol=1e-6)
    np.testing.assert_allclose(fitted.noise_precision_, want.noise_precision, rtol=1e-6)
    np.testing.assert_allclose(fitted.bound_, want.bound, rtol=1e-6)
    assert fitted.n_iter_ >= 1
    assert fitted.status_ is Status.CONVERGED
    mean, std = fitted.predict(X, return_std=True)
    want_mean, want_std = want.predict(X, return_std=True)
    np.testing.assert_array_equal(mean, fitted.predict(X))
    np.testing.assert_allclose(mean, want_mean, rtol=1e-6)
    np.testing.assert_allclose(std, want_std, rtol=1e-6)


def test_without_intercept(data):
    model = clone(quick).set_params(fit_intercept=False).fit(*data)
    assert model.intercept_ == 0
    assert (model.predict(np.zeros((2, 5))) == 0).all()


@pytest.mark.parametrize("enabled", [False, True])
def test_types(data, dtype, enabled):
    """float32 stays, and float64 is float64 whether or not the user has enabled it in JAX."""
    X, y = data
    with jax.enable_x64(enabled):
        model = clone(quick).fit(X.astype(dtype), y)
        mean, std = model.predict(X, return_std=True)
    assert jax.config.jax_enable_x64
    leaves = [leaf for leaf in jax.tree.leaves(model.result_) if leaf.dtype.kind == "f"]
    assert {leaf.dtype for leaf in (*leaves, mean, std, model.intercept_)} == {dtype}
    np.testing.assert_allclose(model.coef_[[0, 2, 4]], [2, -1, 0.5], atol=0.2)


def test_integers_are_float64(data):
    X, y = data
    model = clone(quick).fit(np.round(10 * X).astype(int), np.round(10 * y).astype(int))
    assert model.coef_.dtype == np.float64


def test_weights_are_repeated_rows(data):
    """To the last bit, where the order of the rows could otherwise decide between two fits."""
    X, y = data
    rng = np.random.default_rng(0)
    times = rng.integers(0, 4, len(y))
    weighted = clone(quick).fit(X, y, sample_weight=times)
    rows = rng.permutation(np.repeat(np.arange(len(y)), times))
    repeated = clone(quick).fit(X[rows], y[rows])
    np.testing.assert_array_equal(weighted.coef_, repeated.coef_)
    assert weighted.bound_ == repeated.bound_


@pytest.mark.parametrize("scale", [1e-6, 1e6])
@pytest.mark.parametrize("which", ["X", "y", "both"])
def test_units_do_not_matter(data, fitted, scale, which):
    X, y = data
    of_X, of_y = scale if which != "y" else 1, scale if which != "X" else 1
    model = BayesianMaskingRegressor().fit(X * of_X, y * of_y)
    np.testing.assert_array_equal(model.support_, fitted.support_)
    np.testing.assert_allclose(model.coef_ * of_X / of_y, fitted.coef_, rtol=1e-5)
    np.testing.assert_allclose(model.inclusion_, fitted.inclusion_, rtol=1e-5)
    np.testing.assert_allclose(model.predict(X * of_X) / of_y, fitted.predict(X), rtol=1e-5)


def test_standardize_is_in_the_units_of_the_user(data):
    X, y = data
    model = clone(quick).set_params(standardize=True).fit(X * 1e4, y * 1e-3)
    np.testing.assert_allclose(model.coef_ * 1e7, clone(quick).fit(X, y).coef_, atol=1e-2)


def test_data_frames_in_and_out(data, frame):
    y = data[1]
    model = clone(quick).set_output(transform="pandas").fit(frame, pd.Series(y))
    assert list(model.feature_names_in_) == NAMES
    assert list(model.get_feature_names_out()) == ["age", "sex", "glu"]
    pd.testing.assert_frame_equal(model.transform(frame), frame[["age", "sex", "glu"]])
    np.testing.assert_array_equal(model.get_support(indices=True), [0, 2, 4])
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame[NAMES[::-1]])


@pytest.mark.parametrize("kind", [BayesianMaskingRegressor, BayesianMaskingClassifier])
def test_groups(data, kind):
    """Columns with one label are kept or pruned together, and their masks vary together."""
    X, y = data
    target = y > np.roll(y, 7) if kind is BayesianMaskingClassifier else y
    model = kind(initial_inclusion=0.5, groups=["a", "a", None, "b", "b"]).fit(X, target)
    np.testing.assert_array_equal(model.support_[[0, 3]], model.support_[[1, 4]])
    assert model.support_[0]
    result = model.result_._replace(inclusion=np.where(model.support_, 0.5, 0.0))
    if kind is BayesianMaskingClassifier:
        model.result_ = result
        with jax.enable_x64(True):
            wanted = jax.tree.map(jax.numpy.asarray, result).predict(X)
        np.testing.assert_allclose(model.predict_proba(X)[:, 1], wanted, rtol=1e-6)


@pytest.mark.parametrize(
    "unmasked", [["bmi"], "bmi", pd.Index(["bmi"]), [1], [False, True, False, False, False]]
)
def test_unmasked(data, frame, unmasked):
    model = clone(quick).set_params(unmasked=unmasked).fit(frame, data[1])
    assert model.inclusion_[1] == 1
    assert model.support_[1]
    assert not model.support_[3]


@pytest.mark.parametrize("solver", ["accelerated", "em", "eg", "hybrid"])
def test_solvers_by_name(data, solver):
    model = clone(quick).set_params(solver=solver, max_steps=3, tolerance=0.0)
    with pytest.warns(ConvergenceWarning, match="max_steps"):
        model.fit(*data)
    assert model.status_ is Status.MAX_STEPS
    assert model.n_iter_ == 3
    by_object = {"accelerated": bmjax.Accelerated(), "em": bmjax.EM(), "eg": bmjax.EG()}
    other = clone(model).set_params(solver=by_object.get(solver, bmjax.Hybrid()))
    with pytest.warns(ConvergenceWarning, match="max_steps"):
        other.fit(*data)
    np.testing.assert_array_equal(model.coef_, other.coef_)


def test_exact_fit_does_not_warn(data):
    X, _ = data
    model = BayesianMaskingRegressor().fit(X, X @ WEIGHTS)
    assert model.status_ is Status.EXACT_FIT
    np.testing.assert_allclose(model.coef_, WEIGHTS, atol=1e-6)


@pytest.mark.parametrize(
    ("parameters", "error", "match"),
    [
        ({"fit_intercept": "yes"}, TypeError, "intercept is 'yes'"),
        ({"standardize": 1}, TypeError, "standardize is 1"),
        ({"unmasked": [7]}, ValueError, r"unmasked is \[7\]"),
        ({"unmasked": [0.5]}, TypeError, "unmasked has dtype float64"),
        ({"unmasked": ["age", "x"]}, ValueError, r"unmasked names 'x'"),
        ({"solver": "newton"}, ValueError, "solver is 'newton'"),
        ({"solver": bmjax.EM}, TypeError, "solver is"),
        ({"noise_precision": -1}, ValueError, "noise_precision is -1"),
        ({"initial_inclusion": 2}, ValueError, "initial_inclusion is 2"),
        ({"starts": 0}, ValueError, "starts is 0"),
        ({"moves": -1}, ValueError, "moves is -1"),
        ({"criterion": "aic"}, ValueError, "criterion is 'aic'"),
        ({"prune_threshold": 2}, ValueError, "prune_threshold is 2"),
        ({"tolerance": -1}, ValueError, "tolerance is -1"),
        ({"max_steps": 1.5}, TypeError, "max_steps is 1.5"),
    ],
)
def test_bad_parameters_are_named(data, frame, parameters, error, match):
    with pytest.raises(error, match=match):
        BayesianMaskingRegressor(**parameters).fit(frame, data[1])


def test_bad_data_are_refused(data, frame):
    X, y = data
    with pytest.raises(ValueError, match="no column names"):
        BayesianMaskingRegressor(unmasked=["age"]).fit(X, y)
    with pytest.raises(ValueError, match="negative"):
        BayesianMaskingRegressor().fit(X, y, sample_weight=-np.ones(len(y)))
    with pytest.raises(ValueError, match="1 distinct rows"):
        BayesianMaskingRegressor().fit(np.ones((9, 2)), np.ones(9))
    with pytest.raises(NotFittedError):
        BayesianMaskingRegressor().get_support()


def test_constant_columns_and_more_columns_than_rows(data):
    X, y = data
    wide = np.concatenate([X[:12], np.full((12, 2), [1, 0]), X[12:24], X[24:36]], axis=1)
    model = clone(quick).fit(wide, y[:12])
    assert model.n_features_in_ == 17
    assert not model.support_[5:7].any()
    assert np.isfinite(model.predict(wide)).all()


def test_in_a_pipeline_and_a_search(data, frame):
    y = data[1]
    steps = make_pipeline(StandardScaler(), clone(quick))
    grid = {"bayesianmaskingregressor__tolerance": [1e-2, 1e-4]}
    search = GridSearchCV(steps, grid, cv=3).fit(frame, y)
    assert search.best_score_ > 0.9
    with parallel_config(backend="threading"):
        assert (cross_val_score(quick, frame, y, cv=3, n_jobs=2) > 0.9).all()
    assert make_pipeline(clone(quick), StandardScaler()).fit_transform(frame, y).shape == (60, 3)


def test_pickle(data, fitted):
    X, _ = data
    copy = pickle.loads(pickle.dumps(fitted))
    for got, want in zip(
        copy.predict(X, return_std=True), fitted.predict(X, return_std=True), strict=True
    ):
        np.testing.assert_array_equal(got, want)
    assert isinstance(copy.result_, bmjax.Result)
    assert all(isinstance(leaf, np.ndarray) for leaf in jax.tree.leaves(copy.result_))


def test_parameters_are_stored_as_given():
    rates = np.full(5, 0.5)
    model = BayesianMaskingRegressor(initial_inclusion=rates, solver=bmjax.EG(learning_rate=0.1))
    assert model.initial_inclusion is rates
    assert clone(model).solver == model.solver


def test_scikit_learn_is_asked_for_only_here():
    """In a process without scikit-learn."""
    code = "import sys; sys.modules['sklearn'] = None; import bmjax; import bmjax.sklearn"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    last = ran.stderr.strip().splitlines()[-1]
    assert last.startswith("ModuleNotFoundError")
    assert 'pip install "bmjax[sklearn]"' in last


@pytest.fixture
def shops():
    """Numbers and a category of four levels, one of which no row has, in a pandas frame."""
    rng = np.random.default_rng(3)
    place = pd.Categorical.from_codes(rng.integers(3, size=120), ["b", "a", "d", "none"])
    X = pd.DataFrame({"x": rng.normal(size=120), "place": place, "z": rng.normal(size=120)})
    y = 2 * X["x"] + np.array([0, 1.5, -1.0])[place.codes] + 0.5 * rng.normal(size=120)
    return X, y


@pytest.mark.parametrize("kind", [BayesianMaskingRegressor, BayesianMaskingClassifier])
def test_categories_of_pandas_are_groups(shops, kind):
    """As columns of zeros and ones with one label; levels in the order that the frame gives."""
    X, y = shops
    target = y > 0 if kind is BayesianMaskingClassifier else y
    model = kind(unmasked=["z"]).fit(X, target)
    codes = X["place"].cat.codes.to_numpy()
    own = codes[:, None] == [1, 2, 3]
    columns = np.column_stack([X["x"], own, X["z"]])
    hand = kind(unmasked=[4], groups=[None, "place", "place", "place", None]).fit(columns, target)
    np.testing.assert_array_equal(model.coef_, hand.coef_)
    assert model.result_.feature_names() == ("x", "place=a", "place=d", "place=none", "z")
    assert (model.coef_[1:3] != 0).all()
    assert model.n_features_in_ == 3
    assert model.get_feature_names_out().tolist() == ["x", "place", "z"]
    np.testing.assert_array_equal(model.predict(X[:9]), hand.predict(columns[:9]))
    plain = X[:9].assign(place=X["place"][:9].astype(object))  # words will do
    np.testing.assert_array_equal(model.predict(plain), hand.predict(columns[:9]))
    with pytest.raises(ValueError, match="'e', which is none of its levels"):
        model.predict(plain.assign(place="e"))


def test_categories_that_cannot_be_fitted(shops):
    X, y = shops
    with pytest.raises(ValueError, match="column 'place' of X has one level only"):
        BayesianMaskingRegressor().fit(X.assign(place=pd.Categorical(["a"] * 120)), y)
    with pytest.raises(ValueError, match="NaN"):
        BayesianMaskingRegressor().fit(X.assign(place=X["place"].where(X["x"] > 0)), y)
    with pytest.raises(ValueError, match="groups has 2 labels"):
        BayesianMaskingRegressor(groups=["a", "b"]).fit(X, y)
    with pytest.raises(ValueError, match="feature names"):
        BayesianMaskingRegressor().fit(X, y).predict(X.rename(columns={"z": "w"}))
    with pytest.raises(ValueError, match="X is ndarray; the fit was to a pandas frame"):
        BayesianMaskingRegressor().fit(X, y).predict(np.zeros((2, 3)))
