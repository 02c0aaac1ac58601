"""What runs on a CPU runs on an accelerator too, where there is one."""

import jax
import numpy as np
import pytest

import bmjax
from tests.helpers import uniform_design

pytestmark = pytest.mark.skipif(
    jax.default_backend() == "cpu", reason="no accelerator here: only the CPU was tested"
)


@pytest.fixture(scope="module")
def designs():
    all_of_them = [uniform_design(seed, 6) for seed in range(20)]
    return tuple(np.stack([d[i] for d in all_of_them]) for i in (0, 1))


def on_cpu(call, *arguments, **options):
    with jax.default_device(jax.devices("cpu")[0]):
        return call(*arguments, **options)


@pytest.mark.parametrize("options", [{}, {"initial_inclusion": 0.5}], ids=["default", "one start"])
def test_fits(designs, options):
    X, y = designs
    batch = bmjax.fit_batch(X, y, **options)
    assert batch.coef.devices() == {jax.devices()[0]}
    for i in (0, 7, 19):
        alone, wanted = (call(X[i], y[i], **options) for call in (bmjax.fit, cpu_fit))
        for found in (alone.coef, batch.coef[i]):
            np.testing.assert_array_equal(found != 0, wanted.support)
            # Both are within 1e-3 of the fixed point.
            np.testing.assert_allclose(found, wanted.coef, atol=2e-3)


def cpu_fit(X, y, **options):
    return on_cpu(bmjax.fit, X, y, **options)


def test_study():
    study = bmjax.monte_carlo(
        bmjax.simulate.two_features, {"fit": bmjax.fit}, jax.random.key(0), 50
    )
    assert np.isfinite(study.outcomes["fit"].coef).all()
    assert (study.outcomes["fit"].status == bmjax.Status.CONVERGED).mean() > 0.9


def test_stream(designs):
    X, y = designs[0][0], designs[1][0]
    found = bmjax.fit_stream((X, y), block_rows=32)
    np.testing.assert_allclose(found.coef, cpu_fit(X, y).coef, atol=2e-3)
