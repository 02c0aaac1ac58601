"""A fit from passes over the rows: the sums, the steps and the optimum of the fit in memory."""

import weakref

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import bmjax
from bmjax import Status
from bmjax._model import sweep
from bmjax._model.options import Frame
from bmjax._model.problem import Totals
from bmjax._model.sums import masked_sums
from bmjax._selection.criterion import criterion
from bmjax._selection.moves import Surroundings, best_move, surroundings
from bmjax._stream.blocks import Blocks
from bmjax._stream.fitter import _m_step
from bmjax._stream.passes import Passes
from tests.helpers import normal_design, uniform_design

K, ROWS = 5, 64


def in_blocks(*arrays, cuts=(1, 90, 200)):
    return list(zip(*(np.split(array, cuts) for array in arrays), strict=True))


@pytest.fixture(scope="module")
def data():
    X, y, _ = uniform_design(4, K, n=300)
    return X, y


@pytest.fixture(scope="module")
def on_disk(data, tmp_path_factory):
    folder = tmp_path_factory.mktemp("rows")
    maps = []
    for name, array in zip("Xy", data, strict=True):
        np.save(folder / f"{name}.npy", array)
        maps.append(np.load(folder / f"{name}.npy", mmap_mode="r"))
    return tuple(maps)


def assert_same_optimum(streamed, alone):
    np.testing.assert_array_equal(streamed.support, alone.support)
    # Both are within 1e-3 of a fixed point, in units of the larger of effect and noise.
    np.testing.assert_allclose(streamed.coef, alone.coef, atol=1e-3)
    np.testing.assert_allclose(streamed.bound, alone.bound, atol=1e-2)
    np.testing.assert_allclose(streamed.intercept, alone.intercept, atol=5e-3)
    np.testing.assert_allclose(streamed.standard_errors, alone.standard_errors, rtol=1e-3)
    np.testing.assert_allclose(
        streamed.uncertainty.correlation, alone.uncertainty.correlation, atol=1e-9
    )
    np.testing.assert_array_equal(streamed.center, alone.center)
    assert streamed.status == alone.status == Status.CONVERGED
    assert jax.tree.structure(streamed) == jax.tree.structure(alone)
    for a, b in zip(jax.tree.leaves(streamed), jax.tree.leaves(alone), strict=True):
        assert a.shape == b.shape
        assert a.dtype == b.dtype


def test_the_optimum_of_fit_from_files_lists_and_functions(data, on_disk):
    X, y = data
    alone = bmjax.fit(X, y)
    streamed = bmjax.fit_stream(on_disk, block_rows=ROWS)
    assert_same_optimum(streamed, alone)
    for blocks in (in_blocks(X, y), lambda: iter(in_blocks(X, y[:, None]))):
        other = bmjax.fit_stream(blocks, block_rows=ROWS)
        np.testing.assert_allclose(other.coef, streamed.coef, atol=1e-9)


def test_intercept_weights_and_unmasked_features(data):
    X, y = data
    X, y = X + np.array([0, 10, 2000, 0, 0]), y + 7
    counts = np.random.default_rng(0).integers(0, 3, size=len(y)).astype(float)
    options = {"intercept": True, "unmasked": [3]}
    alone = bmjax.fit(X, y, sample_weights=counts, **options)
    streamed = bmjax.fit_stream(in_blocks(X, y, counts), block_rows=ROWS, **options)
    np.testing.assert_allclose(streamed.center, alone.center, rtol=1e-12)
    assert_same_optimum(streamed._replace(center=alone.center), alone)
    assert streamed.support[3]
    # A row that counts zero times may hold anything.
    y = np.where(counts > 0, y, np.nan)
    again = bmjax.fit_stream(in_blocks(X, y, counts), block_rows=ROWS, **options)
    np.testing.assert_array_equal(again.coef, streamed.coef)


def test_one_start_and_a_known_noise(data):
    X, y = data
    options = {"initial_inclusion": 0.3, "noise_precision": 4.0, "criterion": "paper"}
    alone = bmjax.fit(X, y, **options)
    streamed = bmjax.fit_stream((X, y), block_rows=ROWS, **options)
    assert streamed.noise_precision == 4
    assert_same_optimum(streamed, alone)


def some_fit(data):
    """The dataset in memory, its totals, and a state with masks at rest, by in-memory steps."""
    X, y = map(jnp.asarray, data)
    problem = bmjax.Problem(X.T, y, None, jnp.asarray(1e-16))
    totals = Totals(
        num_samples=jnp.asarray(float(len(y))),
        num_rows=jnp.int32(len(y)),
        mean_squares=problem.mean_squares,
        target_square=problem.target_square,
        maskable=problem.maskable,
        noise_precision=None,
        prune_threshold=problem.prune_threshold,
    )
    state = bmjax.initialise(problem, jnp.asarray([0.4, 0.7, 0.0, 1.0, 0.9]))
    for _ in range(60):
        state = bmjax.e_step(problem, state)
    return problem, totals, state


def test_sums_and_steps_are_those_in_memory(data):
    problem, totals, state = some_fit(data)
    problem, totals, state = jax.device_get((problem, totals, state))
    passed = Passes(Blocks(data, ROWS), Frame()).masked(state)
    left = sweep.residual(problem, state)
    sums, _ = masked_sums(problem, state, left)
    on = np.asarray(state.active)
    # The masks of the pass rest within 1e-4 of the noise level.
    close = {"rtol": 1e-4, "atol": 1e-3}
    np.testing.assert_allclose(passed.sums.omega[on][:, on], sums.omega[on][:, on], **close)
    np.testing.assert_allclose(passed.sums.slope[on], sums.slope[on], **close)
    np.testing.assert_allclose(passed.sums.square, left @ left, **close)
    np.testing.assert_allclose(passed.sums.kept[on], sums.kept[on], **close)
    # The feature that is pruned is there as it is.
    np.testing.assert_allclose(passed.sums.gram[2, 2], np.sum(problem.X[2] ** 2))
    np.testing.assert_allclose(passed.sums.slope[2], problem.X[2] @ left, **close)

    there = _m_step(totals, state, passed, state.active)
    here = bmjax.m_step(problem, state)
    np.testing.assert_allclose(there.state.weights, here.weights, atol=1e-4)
    np.testing.assert_allclose(there.state.inclusion, here.inclusion, atol=1e-5)
    np.testing.assert_allclose(there.state.noise_precision, here.noise_precision, rtol=1e-5)
    np.testing.assert_allclose(there.bound, bmjax.lower_bound(problem, here), atol=1e-3)

    features = np.arange(K, dtype=np.int32)
    around = Surroundings(
        features,
        state.weights,
        passed.sums,
        passed.sums.gram,
        passed.sums.slope,
        np.diagonal(passed.sums.gram),
        passed.entropy,
    )
    in_memory = surroundings(problem, here, features)
    rule = criterion("learned", problem)
    for rank in (0, 1, 2):
        rate = np.asarray(0.5)
        moved, _, rise = best_move(totals, rule, there.state, around, rate, rank)
        wanted, _, wanted_rise = best_move(problem, rule, here, in_memory, rate, rank)
        np.testing.assert_allclose(rise, wanted_rise, atol=1e-3)
        np.testing.assert_array_equal(moved.active, wanted.active)
        np.testing.assert_allclose(moved.weights, wanted.weights, atol=1e-3)
        np.testing.assert_allclose(moved.inclusion, wanted.inclusion, atol=1e-4)


def test_no_square_cancels_where_the_noise_is_small():
    X, y = normal_design(0, 300, [1.0, -2.0, 0, 0, 0.5], noise=1e-6)
    streamed = bmjax.fit_stream((X, y), block_rows=ROWS)
    np.testing.assert_array_equal(streamed.support, [1, 1, 0, 0, 1])
    np.testing.assert_allclose(streamed.noise_precision, 1e12, rtol=0.3)


def test_type_and_setting_of_the_caller(data):
    X, y = (array.astype(np.float32) for array in data)
    with jax.enable_x64(False):
        streamed = bmjax.fit_stream((X, y), block_rows=ROWS)
        assert streamed.coef.dtype == streamed.starts.score.dtype == jnp.float32
        assert not jax.config.jax_enable_x64
    np.testing.assert_allclose(streamed.coef, bmjax.fit(*data).coef, atol=1e-3)


def test_few_blocks_are_held_at_a_time(data):
    X, y = data
    alive, most = [], 0

    def blocks():
        nonlocal most
        for begin in range(0, 300, 5):
            rows = X[begin : begin + 5].copy()
            alive.append(weakref.ref(rows))
            most = max(most, sum(ref() is not None for ref in alive))
            yield rows, y[begin : begin + 5]

    bmjax.fit_stream(blocks, block_rows=5, max_steps=6)
    assert len(alive) >= 9 * 60
    assert most <= 12  # at most one a core and some at either end, not 60


def test_max_steps(data):
    for most in (0, 2, 4):
        streamed = bmjax.fit_stream(data, block_rows=ROWS, max_steps=most)
        assert streamed.num_steps <= most
        assert streamed.status == Status.MAX_STEPS
        assert jnp.isfinite(streamed.coef).all()


@pytest.mark.parametrize(
    ("blocks", "error", "message"),
    [
        ((block for block in [(1, 2)]), TypeError, "generator, which can be read only once"),
        (3, TypeError, "blocks is 3; give"),
        ([], ValueError, "blocks holds no block"),
        (lambda: iter(()), ValueError, "blocks holds no block"),
        ([(np.ones((9, 2)), np.ones(9)), np.ones(9)], TypeError, "block 1 is ndarray"),
        ([(np.ones((9, 2)), np.ones(8))], ValueError, "block 0: y has 8 entries but X has 9"),
        (
            [(np.ones((9, 2)), np.ones(9)), (np.ones((9, 3)), np.ones(9))],
            ValueError,
            "block 1 holds 3 features; the first held 2",
        ),
        (
            [(np.ones((9, 2)), np.ones(9)), (np.ones((9, 2)), np.full(9, np.nan))],
            ValueError,
            "block 1: y holds NaN or infinite values: 9 of them",
        ),
        ([(np.ones((9, 2)).astype(str), np.ones(9))], TypeError, "block 0: X has dtype"),
        ((np.ones((9, 2)), np.ones(8)), ValueError, r"arrays of \[8, 9\] rows"),
        ((np.ones((9, 9)), np.ones(9)), ValueError, "9 rows for 9 features"),
        (
            [(np.ones((9, 2)), np.ones(9), -np.ones(9))],
            ValueError,
            "block 0: sample_weights holds negative",
        ),
    ],
)
def test_bad_blocks(blocks, error, message):
    with pytest.raises(error, match=message):
        bmjax.fit_stream(blocks)


def test_bad_options(data):
    with pytest.raises(ValueError, match="block_rows is 0"):
        bmjax.fit_stream(data, block_rows=0)
    with pytest.raises(ValueError, match="criterion is 'aic'"):
        bmjax.fit_stream(data, criterion="aic")
