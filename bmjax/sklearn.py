"""Bayesian masking as a scikit-learn estimator: a regressor that also selects features.

Needs the `sklearn` extra, and is imported only by its name: `import bmjax.sklearn`.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, Self

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from numpy.typing import NDArray

import bmjax
from bmjax import Result, Status
from bmjax._fitting.ragged import filled, rung
from bmjax._results.names import Names, numbers_of
from bmjax._solvers.paper import Solver

__all__ = ["BayesianMaskingRegressor", "SupportPosteriorRegressor"]


def __dir__() -> list[str]:
    return __all__


try:
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.utils.validation import validate_data as validate_data  # from version 1.6 on
except ImportError as error:
    raise ModuleNotFoundError(
        'bmjax.sklearn needs scikit-learn 1.6 or newer: pip install "bmjax[sklearn]"'
    ) from error

# scikit-learn is known to be there by now.
from bmjax._fitting.estimator import LinearSelector, distinct_rows  # noqa: E402
from bmjax._posterior.estimator import (  # noqa: E402
    SupportPosteriorRegressor as SupportPosteriorRegressor,
)

_SOLVERS: dict[str, type[Solver]] = {
    "accelerated": bmjax.Accelerated,
    "em": bmjax.EM,
    "eg": bmjax.EG,
    "hybrid": bmjax.Hybrid,
}
# An exact fit is an end like another: noiseless data are expected to come to it.
_UNFINISHED = (Status.MAX_STEPS, Status.STALLED, Status.NON_FINITE)


class BayesianMaskingRegressor(LinearSelector):
    """Sparse linear regression that selects features without shrinking those it keeps.

    `bmjax.fit` with scikit-learn's manners; see there for what the parameters do. As a transformer
    it passes on the features kept. Everything is computed in the type of X, float32 or float64
    (all other types), whatever the setting `jax_enable_x64`.

    Args:
        fit_intercept: Whether to fit the level of y, a feature of ones that is never masked.
        standardize: Whether to divide every column and y by its root mean square before the fit.
            Results are in the user's units either way.
        unmasked: Features that are never masked and never pruned: (k,) booleans, their numbers,
            or their names if X has string column names.
        solver: A solver of `bmjax`, or `"accelerated"` (the default), `"em"`, `"eg"`, `"hybrid"`.
        noise_precision: One over the noise variance where it is known.
        initial_inclusion: Inclusion rate(s) to start from, a number or (k,): one fit.
        starts: How many starts, or their rates, (s,) or (s, k). Default: 2.
        moves: Most moves tried after the starts. Default: 5, or 0 with `initial_inclusion`.
        criterion: What ranks finished fits: `"learned"`, `"held"` or `"paper"`.
        prune_threshold: A feature whose mean mask falls below this is pruned. Default: the
            machine epsilon.
        tolerance: Predicted distance to the fixed point that counts as converged.
        max_steps: Most iterations, over all starts and moves.

    Attributes:
        coef_: (k,) effect of each feature on the mean of y, exactly zero where pruned.
        intercept_: Mean of y where every feature is zero; 0 if it is not fitted.
        inclusion_: (k,) rate at which each feature is left in, in [0, 1].
        weights_: (k,) effect where the feature is not masked.
        support_: (k,) booleans, the features kept.
        noise_precision_: One over the noise variance.
        bound_: Lower bound of FIC, in nats.
        n_iter_: Iterations run, over all starts and moves.
        status_: How the fit ended, a `bmjax.Status`.
        result_: All of the `bmjax.Result`, in NumPy arrays.
        n_features_in_: Number of features k.
        feature_names_in_: (k,) names of the columns, if X has such.

    Example:
        >>> from bmjax.datasets import load_diabetes
        >>> from bmjax.sklearn import BayesianMaskingRegressor
        >>> X, y, names = load_diabetes()
        >>> model = BayesianMaskingRegressor().fit(X, y)
        >>> round(model.score(X, y), 2), model.transform(X).shape
        (0.51, (442, 5))
    """

    coef_: NDArray[np.floating]
    intercept_: float
    inclusion_: NDArray[np.floating]
    weights_: NDArray[np.floating]
    support_: NDArray[np.bool_]
    noise_precision_: float
    bound_: float
    n_iter_: int
    status_: Status
    result_: Result
    n_features_in_: int
    feature_names_in_: NDArray[np.object_]

    def __init__(  # noqa: PLR0913 - public options
        self,
        *,
        fit_intercept: bool = True,
        standardize: bool = False,
        unmasked: ArrayLike | Sequence[str] | None = None,
        solver: Solver | str | None = None,
        noise_precision: float | None = None,
        initial_inclusion: ArrayLike | None = None,
        starts: ArrayLike | None = None,
        moves: int | None = None,
        criterion: str = "learned",
        prune_threshold: float | None = None,
        tolerance: float = 1e-3,
        max_steps: int = 20_000,
    ) -> None:
        """Store the parameters as they are; `fit` checks them."""
        self.fit_intercept = fit_intercept
        self.standardize = standardize
        self.unmasked = unmasked
        self.solver = solver
        self.noise_precision = noise_precision
        self.initial_inclusion = initial_inclusion
        self.starts = starts
        self.moves = moves
        self.criterion = criterion
        self.prune_threshold = prune_threshold
        self.tolerance = tolerance
        self.max_steps = max_steps

    def fit(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> Self:
        """Fit the model.

        Args:
            X: (n, k) features, an array or a data frame.
            y: (n,) target.
            sample_weight: (n,) how often each row counts: with 0 it is absent, and an integer is
                the same as the row repeated.

        Returns:
            Itself.

        Raises:
            TypeError: If a parameter has the wrong type.
            ValueError: If a shape does not fit, a value is not finite, or a parameter is out of
                range.
        """
        X, y = self._training_data(X, y)
        with jax.enable_x64(True):  # JAX would take float64 for float32
            X, y, counts = _packed(X, y, sample_weight)
            result = bmjax.fit(
                X,
                y,
                sample_weights=counts,
                intercept=self.fit_intercept,
                unmasked=self._unmasked(),
                standardize=self.standardize,
                solver=self._solver(),
                noise_precision=self.noise_precision,
                initial_inclusion=self.initial_inclusion,
                starts=self.starts,
                moves=self.moves,
                criterion=self.criterion,
                prune_threshold=self.prune_threshold,
                tolerance=self.tolerance,
                max_steps=self.max_steps,
            )
        if hasattr(self, "feature_names_in_"):
            result = result._replace(names=Names(tuple(self.feature_names_in_)))
        self.result_ = result = jax.tree.map(np.asarray, result)
        self.coef_ = result.coef
        self.intercept_ = result.intercept[()]
        self.inclusion_ = result.inclusion
        self.weights_ = result.weights
        self.support_ = result.support
        self.noise_precision_ = result.noise_precision[()]
        self.bound_ = result.bound[()]
        self.n_iter_ = int(result.num_steps)
        self.status_ = Status(int(result.status))
        if self.status_ in _UNFINISHED:
            warnings.warn(self.status_.message, ConvergenceWarning, stacklevel=2)
        return self

    def predict(
        self, X: Any, return_std: bool = False
    ) -> NDArray[np.floating] | tuple[NDArray[np.floating], NDArray[np.floating]]:
        """The mean of y at new samples, in the type of the fit.

        Args:
            X: (m, k) new samples.
            return_std: Whether to return the standard deviation of y there as well; see
                `bmjax.Result.predict`.

        Returns:
            (m,) predictions; with `return_std` a pair of such.

        Raises:
            sklearn.exceptions.NotFittedError: Before `fit`.
            ValueError: If X has not the columns of the fit.
        """
        X = self._new_samples(X)
        # In NumPy, since JAX would compile for every number of rows.
        center = self.result_.center
        mean = (self.intercept_ + center @ self.coef_) + (X - center) @ self.coef_
        if not return_std:
            return mean
        with jax.enable_x64(True):
            result: Result = jax.tree.map(jnp.asarray, self.result_)
            return mean, np.asarray(result.predict(X, return_std=True)[1])

    def _solver(self) -> Any:
        if not isinstance(self.solver, str):
            return self.solver
        if self.solver not in _SOLVERS:
            raise ValueError(
                f"solver is {self.solver!r}; give a solver of bmjax or one of "
                f"{', '.join(_SOLVERS)}."
            )
        return _SOLVERS[self.solver]()

    def _unmasked(self) -> Any:
        """The parameter `unmasked`, names of features replaced by their numbers."""
        if self.unmasked is None:
            return None
        names = None
        if hasattr(self, "feature_names_in_"):
            names = Names(tuple(self.feature_names_in_))
        return numbers_of("unmasked", self.unmasked, names)


def _packed(
    X: NDArray[np.floating], y: NDArray[np.floating], sample_weight: ArrayLike | None
) -> tuple[NDArray[np.floating], NDArray[np.floating], NDArray[Any]]:
    """The `distinct_rows` as (m, k), (m,) and their counts (m,), filled up with absent rows.

    With the number of rows a round one, the folds of a cross-validation and samples of a bootstrap
    share one compilation.
    """
    rows, counts = distinct_rows(X, y, sample_weight)
    m = rung(len(rows))
    rows, counts = filled(rows, m), filled(counts, m)
    return rows[:, :-1], rows[:, -1], counts
