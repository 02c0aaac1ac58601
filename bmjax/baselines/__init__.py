"""The estimators that Bayesian masking is compared with, with the same interface as `bmjax.fit`.

Each takes (X, y), runs unchanged under `jax.jit` and `jax.vmap`, follows the floating-point type
of its input, and returns an `Estimate`, whose fields are named as those of `bmjax.Result`.
"""

from bmjax.baselines._ard import ard as ard
from bmjax.baselines._best_subset import best_subset_bic as best_subset_bic
from bmjax.baselines._estimate import CrossValidation as CrossValidation
from bmjax.baselines._estimate import Estimate as Estimate
from bmjax.baselines._lasso import lasso as lasso
from bmjax.baselines._lasso import lasso_cv as lasso_cv
from bmjax.baselines._least_squares import least_squares as least_squares

__all__ = [
    "CrossValidation",
    "Estimate",
    "ard",
    "best_subset_bic",
    "lasso",
    "lasso_cv",
    "least_squares",
]


def __dir__() -> list[str]:
    return __all__
