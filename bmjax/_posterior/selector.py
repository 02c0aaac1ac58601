"""The base of estimators by `bmjax.posterior`: parameters, the call, and fitted attributes."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from jax.typing import ArrayLike
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from bmjax._checks import validate
from bmjax._fitting.categories import encoding_of
from bmjax._fitting.estimator import LinearSelector, distinct_rows
from bmjax._model.status import Status
from bmjax._posterior.posterior import posterior
from bmjax._posterior.result import Posterior

_WORDS = {
    Status.MAX_STEPS: "The chains do not agree: raise max_steps or the tolerance.",
    Status.SEPARATED: (
        "A probable support tells the two classes apart without error: the prior alone bounds the "
        "effects, and probabilities are rough."
    ),
}


class PosteriorSelector(LinearSelector):
    """A linear model averaged over supports, the base of estimators of `bmjax.sklearn`."""

    probability_: NDArray[np.floating]
    posterior_: Posterior

    def __init__(  # noqa: PLR0913 - public options
        self,
        *,
        fit_intercept: bool = True,
        fdr: float = 0.1,
        unmasked: ArrayLike | Sequence[str] | None = None,
        enumerate_up_to: int = 15,
        chains: int = 16,
        tolerance: float = 0.01,
        max_steps: int = 20_000,
        random_state: int = 0,
    ) -> None:
        """Store the parameters unchanged; `fit` checks them."""
        self.fit_intercept = fit_intercept
        self.fdr = fdr
        self.unmasked = unmasked
        self.enumerate_up_to = enumerate_up_to
        self.chains = chains
        self.tolerance = tolerance
        self.max_steps = max_steps
        self.random_state = random_state

    def _encoded(self, X: Any) -> Any:
        """X unchanged; categories are refused, since a posterior is of single columns."""
        if encoding_of(X) is not None:
            raise ValueError(
                "X has a column of categories, of which a posterior would judge each level alone. "
                "Give 0/1 columns instead (pandas.get_dummies with drop_first=True), or use "
                "BayesianMaskingRegressor or BayesianMaskingClassifier, which keep all levels or "
                "none."
            )
        return super()._encoded(X)

    def _find(
        self,
        X: NDArray[np.floating],
        y: NDArray[np.floating],
        sample_weight: ArrayLike | None,
        **others: Any,
    ) -> None:
        """Find the posterior of checked data; `others` are options of `bmjax.posterior`."""
        seed = validate.count("random_state", self.random_state, low=0)
        # So a row with a weight and the row repeated give equal results, even equal draws.
        rows, counts = distinct_rows(X, y, sample_weight)
        with jax.enable_x64(True):  # JAX would take float64 for float32
            found = posterior(
                rows[:, :-1],
                rows[:, -1],
                jax.random.key(seed),
                sample_weights=counts,
                intercept=self.fit_intercept,
                unmasked=self._unmasked(),
                enumerate_up_to=self.enumerate_up_to,
                chains=self.chains,
                tolerance=self.tolerance,
                max_steps=self.max_steps,
                progress=False,
                **others,
            )
        found = found._replace(names=self._names())
        self.support_ = found.select(self.fdr)
        self.posterior_ = found = jax.tree.map(np.asarray, found)
        self.coef_ = found.coef
        self.intercept_ = found.intercept[()]
        self.probability_ = found.probability
        words = _WORDS.get(Status(int(found.status)))
        if words is not None:
            warnings.warn(words, ConvergenceWarning, stacklevel=3)

    def _predictor(self, X: NDArray[np.floating]) -> NDArray[np.floating]:
        """Intercept + X @ coef, in NumPy, since JAX would compile for every number of rows."""
        return self.intercept_ + X @ self.coef_
