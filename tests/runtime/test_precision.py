"""Products of float32 are asked for in float32, which a CPU alone would not show."""

import jax
import jax.extend
import jax.numpy as jnp
import numpy as np
import pytest

import bmjax
from bmjax import baselines, shrinkage, simulate
from bmjax._model.gradient_rule import Parameters, paper_optimizer
from tests.helpers import normal_design, some_state

HIGHEST = (jax.lax.Precision.HIGHEST,) * 2


def products(jaxpr):
    """The precision of every matrix product in a traced function, also of those it calls."""
    for equation in jaxpr.eqns:
        if equation.primitive.name == "dot_general":
            yield equation.params["precision"]
        for inner in jax.extend.core.jaxprs_in_params(equation.params):
            yield from products(inner)


def precisions(function, *arguments):
    return set(products(jax.make_jaxpr(function)(*arguments).jaxpr))


@pytest.fixture
def data():
    X, y = normal_design(0, 12, [1.0, 0, -1])
    return jnp.asarray(X, jnp.float32), jnp.asarray(y, jnp.float32)


def fit_derivative(X, y):
    return jax.jacobian(lambda y: bmjax.fit(X, y).coef)(y)


@pytest.mark.parametrize(
    "function",
    [
        bmjax.fit,
        lambda X, y: bmjax.fit(X, y, intercept=True, initial_inclusion=0.5, solver=bmjax.EG()),
        fit_derivative,
        lambda X, y: bmjax.fit(X, y).predict(X),
        baselines.least_squares,
        lambda X, y: baselines.least_squares(X.T, X[0]),
        lambda X, y: baselines.lasso(X, y, 0.1),
        lambda X, y: baselines.lasso_cv(X, y, folds=3),
        baselines.ard,
        baselines.best_subset_bic,
        lambda X, y: shrinkage.least_squares(X[:, 0], y),
    ],
)
def test_calls(function, data):
    assert precisions(function, *data) == {HIGHEST}


@pytest.mark.parametrize(
    "design", [simulate.uniform_design, simulate.ar1_design, simulate.wide_design]
)
def test_designs(design):
    options = {"dtype": jnp.float32} | ({} if design is simulate.uniform_design else {"n": 20})
    assert precisions(lambda key: design(key, k=30, **options), jax.random.key(0)) == {HIGHEST}


def test_steps():
    problem, state = some_state(0, dtype=np.float32)
    optimizer = paper_optimizer(jnp.asarray(30.0, jnp.float32))

    def g_step(problem, state):
        begun = optimizer.init(Parameters(state.weights, state.inclusion))
        return bmjax.g_step(problem, state, optimizer, begun)

    for step in (bmjax.e_step, bmjax.m_step, g_step, bmjax.lower_bound):
        assert precisions(step, problem, state) == {HIGHEST}
    slope = jax.grad(bmjax.lower_bound, argnums=1, allow_int=True)
    assert precisions(slope, problem, state) == {HIGHEST}
    start = jnp.full(5, 0.5, jnp.float32)
    assert precisions(lambda p: bmjax.initialise(p, start), problem) == {HIGHEST}


def test_under_vmap(data):
    X, y = data
    assert precisions(jax.vmap(bmjax.fit), X[None], y[None]) == {HIGHEST}


def test_what_the_user_has_set_stays(data):
    with jax.default_matmul_precision("tensorfloat32"):
        assert precisions(bmjax.fit, *data) == {(jax.lax.Precision.HIGH,) * 2}
    assert jax.config.jax_default_matmul_precision is None
