"""A fit in ever fewer slots is the fit in all of them, which a fit with a history is."""

import numpy as np
import optax
import pytest

import bmjax
from bmjax._solvers import narrowing

n, k = 200, 70
rng = np.random.default_rng(3)
X = rng.normal(size=(n, k))
y = X[:, :4] @ [2.0, -1.5, 1.0, 0.8] + 0.5 * rng.normal(size=n)

CASES = {
    "accelerated": {"sample_weights": rng.integers(0, 3, n)},
    "em": {"solver": bmjax.EM()},
    "gradient": {"solver": bmjax.EG(optimizer=optax.sgd(1e-4, momentum=0.5), safeguard=False)},
    "hybrid": {
        "solver": bmjax.Hybrid(switch=100),
        "unmasked": [5, 60],
        "intercept": True,
    },
    "logistic": {"family": "logistic"},
}


@pytest.fixture
def sizes(monkeypatch):
    """The numbers of slots that fits have worked on."""
    seen = []
    call = narrowing.PROGRAMS.call

    def noted(function, part, *others, static):
        seen.append(len(part.X))
        return call(function, part, *others, static=static)

    monkeypatch.setattr(narrowing, "WIDE", 16)
    monkeypatch.setattr(narrowing.PROGRAMS, "call", noted)
    return seen


@pytest.mark.parametrize("name", CASES)
def test_fewer_slots_change_nothing(name, sizes):
    options = {"initial_inclusion": 0.5, "max_steps": 300, "prune_threshold": 0.45, **CASES[name]}
    target = (y + rng.normal(size=n) > 0).astype(float) if name == "logistic" else y
    whole = bmjax.fit(X, target, history=True, **options)
    assert len(sizes) == 1
    fit = bmjax.fit(X, target, **options)
    assert sizes[-1] < sizes[0]
    assert (fit.status, fit.num_steps) == (whole.status, whole.num_steps)
    np.testing.assert_array_equal(fit.support, whole.support)
    # Sums over fewer columns round otherwise, and extrapolation makes more of it.
    for field in ("coef", "weights", "inclusion", "bound", "standard_errors"):
        np.testing.assert_allclose(getattr(fit, field), getattr(whole, field), atol=1e-7)
    rows = [np.nan_to_num(r.starts.inclusion) for r in (fit, whole)]
    np.testing.assert_allclose(*rows, atol=1e-7)
