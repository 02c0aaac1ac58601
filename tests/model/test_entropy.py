"""The entropy of the masks, against the formula with SciPy's log1p, and its sums for a solver."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import entr, xlog1py

import bmjax
from bmjax._model.entropy import by_polynomials, entropy, entropy_sums


def masks():
    rng = np.random.default_rng(0)
    small = 10.0 ** rng.uniform(-300, 0, 500)
    near_one = 1 - 10.0 ** rng.uniform(-16, 0, 500)
    edges = [0.0, 1.0, 0.5, 0.25, np.nextafter(0.5, 0), np.nextafter(0.5, 1), 2.0**-1022]
    return np.concatenate([small, near_one, rng.uniform(size=500), edges])


def exact(p):
    p = np.minimum(p, 1 - p)
    return entr(p) - xlog1py(1 - p, -p)


def test_by_polynomials_it_is_exact_at_any_rate():
    """In relative terms too, within twenty roundings, and zero where a mask is certain."""
    with jax.enable_x64(True):
        found = by_polynomials(jnp.asarray(masks()))
        np.testing.assert_allclose(found, exact(masks()), rtol=20 * np.finfo(float).eps)
        assert by_polynomials(jnp.asarray([0.0, 1.0])).tolist() == [0, 0]


@pytest.mark.parametrize("namespace", [np, jnp])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_plain_formula_is_exact_to_rounding(dtype, namespace):
    """That of a mask; an entropy below this rounding is not resolved."""
    with jax.enable_x64(dtype == np.float64):
        p, eps = masks().astype(dtype), float(np.finfo(dtype).eps)
        found = entropy(namespace.asarray(p))
        assert found.dtype == dtype
        np.testing.assert_allclose(found, exact(p.astype(float)), rtol=20 * eps, atol=2 * eps)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_sums_leave_out_pruned_features(weighted, dtype):
    """In each of several lanes too, which may keep different features."""
    with jax.enable_x64(dtype == np.float64):
        rng = np.random.default_rng(1)
        counts = rng.integers(0, 3, 40).astype(dtype) if weighted else None
        problem = bmjax.Problem(
            jnp.ones((6, 40), dtype), jnp.ones(40, dtype), None, jnp.asarray(0.0, dtype), counts
        )
        start = bmjax.initialise(problem, jnp.full(6, 0.5, dtype))
        mask = rng.uniform(size=(6, 40)).astype(dtype)
        kept = np.asarray([[True, False, True, True, False, False], [False] * 5 + [True]])
        states = [start._replace(mask_mean=jnp.asarray(mask), active=jnp.asarray(a)) for a in kept]
        total = exact(mask.astype(float)) @ (np.ones(40) if counts is None else counts)
        for active, state in zip(kept, states, strict=True):
            found = entropy_sums(problem, state)
            np.testing.assert_allclose(found, np.where(active, total, 0), rtol=1e-5)
        lanes = jax.tree.map(lambda *leaves: jnp.stack(leaves), *states)
        several = jax.vmap(lambda state: entropy_sums(problem, state))(lanes)
        np.testing.assert_allclose(several[0][kept[0]], total[kept[0]], rtol=1e-5)
        np.testing.assert_allclose(several[1][kept[1]], total[kept[1]], rtol=1e-5)
