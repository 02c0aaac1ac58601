"""Monte Carlo studies: the same numbers however they are cut up, and errors that say whose."""

from functools import partial
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bmjax import baselines, metrics, simulate
from bmjax._runtime.programs import PROGRAMS
from bmjax._study.methods import batched, on_host
from bmjax._study.monte_carlo import monte_carlo
from bmjax._study.study import Study
from bmjax._study.timing import timed

KEY = jax.random.key(3)
design = partial(simulate.uniform_design, k=4, n=20)


def correlation(X, y):
    """A user's own method: half of the features, those that go along with y."""
    score = jnp.abs(X.T @ y)
    return SimpleNamespace(coef=score, support=score > jnp.median(score))


def solved_on_host(X, y):
    assert isinstance(X, np.ndarray)
    return np.linalg.lstsq(X, y)[0] * [1, 1, 0, 1]


METHODS = {
    "least squares": baselines.least_squares,
    "own": correlation,
    "batch": batched(jax.vmap(baselines.least_squares)),
    "host": on_host(solved_on_host),
}


@pytest.fixture(scope="module")
def study():
    return monte_carlo(design, METHODS, KEY, 7, chunk=3)


@pytest.mark.parametrize("chunk", [1, None])
def test_chunks_do_not_matter(study, chunk):
    other = monte_carlo(design, METHODS, KEY, 7, chunk=chunk)
    np.testing.assert_array_equal(other.truth, study.truth)
    for name in METHODS:
        a, b = study.outcomes[name], other.outcomes[name]
        np.testing.assert_array_equal(a.support, b.support)
        # A batched product may add in another order.
        np.testing.assert_allclose(a.coef, b.coef, rtol=0, atol=1e-12 * (name == "batch"))


def test_side_by_side_on_an_accelerator(study, monkeypatch):
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    other = monte_carlo(design, {"own": correlation}, KEY, 7, chunk=3)
    np.testing.assert_allclose(other.truth, study.truth, rtol=1e-12)
    a, b = study.outcomes["own"], other.outcomes["own"]
    np.testing.assert_array_equal(a.support, b.support)
    np.testing.assert_allclose(a.coef, b.coef, rtol=1e-12)


def test_dataset_i_is_that_of_the_folded_key(study):
    data = jax.jit(lambda i: design(jax.random.fold_in(KEY, i)))(jnp.int32(5))
    np.testing.assert_array_equal(study.truth[5], data.coef)
    for name in ("least squares", "batch"):
        wanted = baselines.least_squares(data.X, data.y).coef
        np.testing.assert_allclose(study.outcomes[name].coef[5], wanted, rtol=0, atol=1e-12)


def test_more_repeats_begin_with_the_same_datasets(study):
    longer = monte_carlo(design, {"own": correlation}, KEY, 9)
    np.testing.assert_array_equal(longer.outcomes["own"].coef[:7], study.outcomes["own"].coef)


def test_what_is_kept(study):
    assert (study.outcomes["least squares"].status == 1).all()
    assert study.outcomes["own"].status is None
    assert study.outcomes["own"].support.dtype == bool
    assert (study.outcomes["host"].support == [True, True, False, True]).all()


def test_never_more_than_a_chunk_at_a_time():
    seen = []

    def record(X, y):
        seen.append(len(X))
        return X[:, 0]

    run(methods={"record": batched(record)}, repeats=7, chunk=3)
    run(methods={"record": batched(record)}, repeats=1500)  # chunks of one size by default
    assert seen == [3, 3, 1, 750, 750]


def test_means_and_paired_differences(study):
    error = np.asarray(metrics.squared_error(study.outcomes["host"].coef, study.truth))
    mean = study.mean("host", "squared_error")
    np.testing.assert_allclose(mean.mean, error.mean())
    np.testing.assert_allclose(mean.standard_error, error.std(ddof=1) / np.sqrt(7))

    def pruned(found, truth):
        return np.sum(~found.support, axis=1)

    difference = study.paired("own", "host", pruned)
    assert difference == (1, 0)  # two features against one, in every dataset


def test_table(study):
    table = study.table()
    assert list(table.index) == list(METHODS)
    assert table.loc["least squares", "recall of pruning"] == 0
    truth, kept = study.truth != 0, study.outcomes["host"].support
    assert table.loc["host", "false"] == (kept & ~truth).sum() / 7
    assert table.loc["host", "missed"] == (truth & ~kept).sum() / 7
    assert table.loc["least squares", "converged"] == 1
    assert np.isnan(table.loc["own", "converged"])
    assert (table["ms"] > 0).all()
    assert table.loc["own", "compile_s"] > 0
    assert table.loc["host", "compile_s"] == 0


def test_a_simulation_may_return_plain_arrays(study):
    def plain(key):
        data = design(key)
        return data.X, data.y, data.coef

    other = monte_carlo(plain, {"host": METHODS["host"]}, KEY, 7)
    np.testing.assert_array_equal(other.truth, study.truth)
    np.testing.assert_array_equal(other.outcomes["host"].coef, study.outcomes["host"].coef)
    for wrong, words in (
        (lambda key: 3, "returned int; it must return"),
        (lambda key: plain(key)[:2], "returned tuple of length 2"),
        (lambda key: (*plain(key)[:2], "ab"), "coef of simulate"),
    ):
        with pytest.raises(TypeError, match=words):
            monte_carlo(wrong, METHODS, KEY, 7)


def test_one_dataset_has_no_standard_error(study):
    own = study.outcomes["own"]
    first = own._replace(coef=own.coef[:1], support=own.support[:1])
    alone = Study(study.truth[:1], {"own": first})
    assert np.isnan(alone.mean("own", "f1").standard_error)


def test_compiling_is_timed_apart():
    f = jax.jit(lambda x: jnp.sin(x) + 1)
    first, again = (timed(lambda: f(1.0).block_until_ready())[1] for _ in range(2))
    assert first.compile > 0
    assert first.run >= 0
    assert again.compile == 0
    assert again.run > 0


def test_progress_shows_on_stderr_when_asked(capsys):
    monte_carlo(design, {"own": correlation}, KEY, 2, progress=True)
    out, err = capsys.readouterr()
    assert out == ""
    assert "own" in err
    assert "2/2" in err
    monte_carlo(design, {"own": correlation}, KEY, 2)
    assert capsys.readouterr().err == ""  # not a terminal


def run(**changes):
    arguments = dict(simulate=design, methods={"own": correlation}, key=KEY, repeats=2)
    return monte_carlo(**(arguments | changes))


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        (dict(methods=[correlation]), TypeError, "methods is list; give a dict"),
        (dict(methods={}), ValueError, "methods is empty"),
        (dict(methods={1: correlation}), TypeError, "methods has the name 1"),
        (dict(methods={"own": 3}), TypeError, "method 'own' is 3; it must be a function"),
        (dict(repeats=0), ValueError, "repeats is 0"),
        (dict(repeats=2.0), TypeError, "repeats is 2.0"),
        (dict(chunk=0), ValueError, "chunk is 0"),
        (dict(key="a"), TypeError, "key is 'a'; give one JAX random key"),
        (dict(key=jax.random.split(KEY)), TypeError, "give one JAX random key"),
        (dict(simulate=5), TypeError, "simulate is 5; it must be a function"),
        (dict(simulate=lambda key: (key, key)), TypeError, "simulate returned tuple"),
        (
            dict(simulate=lambda key: jax.vmap(design)(jax.random.split(key))),
            ValueError,
            r"simulate returned X \(2, 20, 4\).*wanted \(n, k\)",
        ),
        (
            dict(methods={"short": lambda X, y: X[0, :3]}),
            RuntimeError,
            r"method 'short' failed: ValueError: it returned coef of shape \(3,\); wanted \(4,\)",
        ),
        (
            dict(methods={"odd": on_host(lambda X, y: print)}),
            RuntimeError,
            "method 'odd' failed on dataset 0: ValueError: it returned <built-in",
        ),
        (
            dict(methods={"numpy": lambda X, y: np.asarray(X)[0]}),
            RuntimeError,
            "method 'numpy' failed.*wrap it with bmjax.on_host",
        ),
        (
            dict(methods={"one": batched(lambda X, y: baselines.least_squares(X[0], y[0]))}),
            RuntimeError,
            r"method 'one' failed: ValueError: it returned coef of shape \(4,\); wanted \(2, 4\)",
        ),
    ],
)
def test_errors(changes, error, message):
    with pytest.raises(error, match="(?s)" + message):
        run(**changes)


def test_a_failing_dataset_is_named():
    calls = []

    def fails_later(X, y):
        calls.append(0)
        if len(calls) == 3:
            raise ZeroDivisionError("no")
        return X[0]

    with pytest.raises(RuntimeError, match="method 'late' failed on dataset 2: ZeroDivisionError"):
        run(methods={"late": on_host(fails_later)}, repeats=5, chunk=2)


def test_wrappers_want_functions():
    with pytest.raises(TypeError, match="function is 3"):
        batched(3)
    with pytest.raises(TypeError, match="function is None"):
        on_host(None)


def test_unknown_names(study):
    with pytest.raises(ValueError, match="method is 'none'; there are least squares, own"):
        study.mean("none", "f1")
    with pytest.raises(ValueError, match="metric is 'f2'; give one of precision"):
        study.paired("own", "host", "f2")
    with pytest.raises(ValueError, match=r"metric returned shape \(\), wanted \(7,\)"):
        study.mean("own", lambda found, truth: 1.0)


def test_the_same_study_again_compiles_nothing():
    """Equal functions and shapes: neither the draws nor the estimates are traced anew."""
    traces = []

    def counted(X, y):
        traces.append(X.shape)
        return X.T @ y

    methods = {"products": counted}
    first = monte_carlo(design, methods, KEY, 4)
    made = len(PROGRAMS)
    traced = len(traces)
    again = monte_carlo(design, methods, jax.random.key(4), 4)
    assert len(PROGRAMS) == made
    assert len(traces) == traced + 1  # the shapes are tried once, nothing is compiled
    np.testing.assert_array_equal(first.truth, monte_carlo(design, methods, KEY, 4).truth)
    assert again.truth.shape == (4, 4)
