"""Bad input is refused in Python, before tracing, with a message that names it and the remedy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import bmjax

X = np.random.default_rng(0).normal(size=(20, 3))
Y = X[:, 0] + 0.1


def changed(array, place, value):
    array = array.copy()
    array[place] = value
    return array


BAD = [
    (X[:, 0], Y, {}, ValueError, r"X has shape \(20,\), wanted \(n samples, k features\).*X\[:, N"),
    (X[None], Y, {}, ValueError, r"X has shape \(1, 20, 3\).*jax\.vmap"),
    (X, Y[:-1], {}, ValueError, r"y has 19 entries but X has 20 rows"),
    (X, np.stack([Y, Y], 1), {}, ValueError, r"y has shape \(20, 2\), wanted \(20,\)"),
    (X, 1.0, {}, ValueError, r"y has shape \(\), wanted \(20,\)"),
    (X[:1], Y[:1], {}, ValueError, r"X has 1 row.*at least 2 samples"),
    (X[:, :0], Y, {}, ValueError, r"X has shape \(20, 0\): no column"),
    (
        changed(X, (4, 1), np.nan),
        Y,
        {},
        ValueError,
        r"X holds NaN.*1 of them \(first at \(4, 1\)\)",
    ),
    (changed(X, (4, 1), np.inf), Y, {}, ValueError, r"X holds NaN or infinite.*Drop or impute"),
    (X, changed(Y, 3, np.nan), {}, ValueError, r"y holds NaN.*first at \(3,\)"),
    (jnp.asarray(X).at[0, 0].set(jnp.nan), Y, {}, ValueError, r"X holds NaN"),
    (X.astype(complex), Y, {}, TypeError, r"X has dtype complex128; only real"),
    (X, Y.astype(str), {}, TypeError, r"y has dtype <U.*give numbers"),
    (X.astype(object), Y, {}, TypeError, r"X has dtype object"),
    ([[1.0, 2.0], [3.0]], [1.0, 2.0], {}, ValueError, r"X is not a rectangular array"),
    (X, Y, {"noise_precision": 0}, ValueError, r"noise_precision is 0; it must be above 0"),
    (X, Y, {"noise_precision": -1.0}, ValueError, r"noise_precision is -1.0; it must be above"),
    (X, Y, {"noise_precision": np.inf}, ValueError, r"noise_precision holds NaN or infinite"),
    (X, Y, {"noise_precision": [1.0]}, ValueError, r"noise_precision has shape \(1,\), wanted one"),
    (X, Y, {"noise_precision": "1"}, TypeError, r"noise_precision has dtype"),
    (
        X,
        Y,
        {"initial_weights": [1.0, 2.0]},
        ValueError,
        r"initial_weights has shape \(2,\).*\(3,\)",
    ),
    (X, Y, {"initial_weights": np.nan}, ValueError, r"initial_weights holds NaN"),
    (X, Y, {"initial_inclusion": 0}, ValueError, r"initial_inclusion is 0; an inclusion rate lies"),
    (X, Y, {"initial_inclusion": 1.5}, ValueError, r"initial_inclusion is 1.5"),
    (X, Y, {"initial_inclusion": [0.5, 0.5]}, ValueError, r"initial_inclusion has shape \(2,\)"),
    (X, Y, {"prune_threshold": -1e-9}, ValueError, r"prune_threshold is -1e-09.*at least 0"),
    (X, Y, {"prune_threshold": 2}, ValueError, r"prune_threshold is 2.*at most 1"),
    (X, Y, {"tolerance": -1}, ValueError, r"tolerance is -1; it must be at least 0"),
    (X, Y, {"max_steps": -1}, ValueError, r"max_steps is -1; it must be at least 0"),
    (X, Y, {"max_steps": 10.0}, TypeError, r"max_steps is 10.0; it must be a whole number"),
    (X, Y, {"max_steps": True}, TypeError, r"max_steps is True"),
    (X, Y, {"solver": "em"}, TypeError, r"solver is 'em'; give bmjax.Accelerated\(\)"),
    (X, Y, {"solver": bmjax.EM}, TypeError, r"solver is <class"),
]


@pytest.mark.parametrize(("X", "y", "options", "error", "message"), BAD)
def test_refused_with_a_message(X, y, options, error, message, monkeypatch):
    def traced(*args, **kwargs):
        raise AssertionError("the solver was reached")

    monkeypatch.setattr("bmjax._fit._fit", traced)
    with pytest.raises(error, match=message):
        bmjax.fit(X, y, **options)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: bmjax.EM(sweeps=0), ValueError, "sweeps is 0; it must be at least 1"),
        (lambda: bmjax.EM(sweeps=1.5), TypeError, "sweeps is 1.5; it must be a whole number"),
        (lambda: bmjax.EG(learning_rate=0), ValueError, "learning_rate is 0; it must be above 0"),
        (lambda: bmjax.EG(learning_rate="x"), TypeError, "learning_rate is 'x'"),
        (lambda: bmjax.EG(cap=0), ValueError, "cap is 0; it must be above 0"),
        (lambda: bmjax.EG(optimizer=3), TypeError, "optimizer is 3; give an optax"),
        (
            lambda: bmjax.EG(learning_rate=0.1, optimizer=__import__("optax").sgd(0.1)),
            ValueError,
            "both learning_rate and optimizer",
        ),
        (lambda: bmjax.Hybrid(switch=-1), ValueError, "switch is -1; it must be at least 0"),
    ],
)
def test_solver_options_are_refused(make, error, message):
    with pytest.raises(error, match=message):
        make()


def test_values_too_large_for_float32_are_named():
    with jax.enable_x64(False), pytest.raises(ValueError, match="too large for float32; rescale"):
        bmjax.fit(X * 1e200, Y)
