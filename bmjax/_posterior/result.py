"""`Posterior`, the result of `posterior`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple, overload

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float, Int

from bmjax._checks import validate
from bmjax._model.status import Status
from bmjax._posterior.intervals import quantiles
from bmjax._posterior.mixture import Mixture
from bmjax._posterior.reading import (
    PosteriorSummary,
    checked_level,
    credible_sets,
    on_host,
    selected,
)
from bmjax._results.names import Names, feature_names
from bmjax._results.prediction import centred_predictor
from bmjax._runtime.backend import Array
from bmjax._runtime.precision import full_precision

jax.tree_util.register_static(Names)  # so that the leaves of a posterior with names are arrays only


class Posterior(NamedTuple):
    """The posterior over supports: the probability and the average effect of each feature.

    After a call with several datasets every field has a leading axis.

    Attributes:
        probability: Probability that each feature acts; 1 for one that is always in.
        probability_error: Monte Carlo standard error of the probability; 0 without chains.
        coef: Mean effect of each feature on y over the whole posterior, in units of y per unit of
            the feature. **Predict with this one.**
        standard_errors: Standard deviation of each effect, including the mass at zero.
        intercept: Mean of y where every feature is zero; 0 if it is not fitted.
        center: Mean of each column if an intercept is fitted, else 0.
        level_variance: Variance of the level of y at the centre.
        noise_variance: Mean of the noise variance, in squared units of y.
        size: Probability of 0, 1, 2, ... features, not counting those that are always in.
        mixture: The listed supports, and the effects given each.
        unmasked: Whether each feature is always in.
        r_hat: R-hat of the log posterior, which compares the spread between chains to that within:
            near 1 if they have mixed.
        num_steps: Number of steps of each chain; 0 if all supports were evaluated.
        status: The code of `Status` with which it ended.
        family: The distribution of y given its predictor, `Logistic()` or `Student(degrees)` with
            the degrees of freedom learned; None for a Gaussian y.
        names: Names of the features and of y, None if the data had none.

    Example:
        >>> import bmjax
        >>> X, y, names = bmjax.datasets.load_diabetes()
        >>> posterior = bmjax.posterior(X, y, intercept=True)
        >>> posterior.probability.shape, posterior.coef.shape
        ((10,), (10,))
    """

    probability: Float[Array, "*b k"]
    probability_error: Float[Array, "*b k"]
    coef: Float[Array, "*b k"]
    standard_errors: Float[Array, "*b k"]
    intercept: Float[Array, "*b"]
    center: Float[Array, "*b k"]
    level_variance: Float[Array, "*b"]
    noise_variance: Float[Array, "*b"]
    size: Float[Array, "*b sizes"]
    mixture: Mixture
    unmasked: Bool[Array, "*b k"]
    r_hat: Float[Array, "*b"]
    num_steps: Int[Array, "*b"]
    status: Int[Array, "*b"]
    family: Any = None
    names: Names | None = None

    def __repr__(self) -> str:
        """A summary in one line."""
        *batch, k = np.shape(self.coef)
        if batch:
            return f"Posterior({batch[0]} datasets, {k} features)"
        likely = int(np.sum(np.asarray(self.probability) > 0.5))
        status = Status(int(self.status)).name
        return f"Posterior({k} features, {likely} of them more probable than not, {status})"

    def _repr_html_(self) -> str | None:
        """The summary as an HTML table, for notebooks."""
        return self.summary()._repr_html_() if np.ndim(self.coef) == 1 else None

    @property
    def converged(self) -> Bool[Array, "*b"]:
        """Whether all supports were evaluated, or the chains agree (`Status.CONVERGED`)."""
        return self.status == Status.CONVERGED

    @property
    def supports(self) -> Bool[np.ndarray, "*b t k"]:
        """The most probable supports, as booleans, with the probabilities `support_probability`."""
        k = np.shape(self.coef)[-1]
        inside = np.asarray(self.mixture.inside)
        features = np.asarray(self.mixture.features)
        found = np.zeros((*inside.shape[:-1], k + 1), bool)
        at = np.broadcast_to(features[..., None, :], inside.shape)
        np.put_along_axis(found, at, inside, axis=-1)
        return found[..., :k]

    @property
    def support_probability(self) -> Float[Array, "*b t"]:
        """The probability of each of `supports`."""
        return self.mixture.probability

    def interval(self, level: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
        """Intervals of the effects over the whole posterior, including the mass at zero.

        They reach from the (1 - level)/2 to the (1 + level)/2 quantile. An end is exactly zero if
        it falls on the mass at zero, as do both for a feature of probability below (1 - level)/2.

        Args:
            level: Probability that the interval holds the effect, between 0 and 1.

        Returns:
            The lower and the upper ends, (k,) each, or (b, k), NumPy arrays of float64.

        Raises:
            TypeError: If level is not a number.
            ValueError: If level is out of range.

        Example:
            >>> lower, upper = bmjax.posterior(X, y, intercept=True).interval(0.9)
        """
        level = checked_level(level)
        ends = (1 - level) / 2, (1 + level) / 2
        lower, upper = np.zeros(np.shape(self.coef)), np.zeros(np.shape(self.coef))
        for place in np.ndindex(*np.shape(self.coef)[:-1]):
            one = on_host(self, place)
            lower[place], upper[place] = (quantiles(at, one) for at in ends)
        return lower, upper

    @overload
    def predict(self, X: Any, return_std: Literal[False] = False) -> jax.Array: ...

    @overload
    def predict(self, X: Any, return_std: Literal[True]) -> tuple[jax.Array, jax.Array]: ...

    @full_precision
    def predict(self, X: Any, return_std: bool = False) -> jax.Array | tuple[jax.Array, jax.Array]:
        """The mean of y at new samples over the whole posterior, intercept + X @ coef.

        For a logistic posterior, the probability that y is 1: the mean over the uncertainty of the
        predictor, by MacKay's approximation ("The evidence framework applied to classification
        networks", 1992).

        Args:
            X: (m, k) new samples; after several datasets (b, m, k), or (m, k) for all of them. The
                columns of a frame are matched by name if the posterior has names.
            return_std: Whether to return the standard deviation of y there as well: that of the
                noise, the level and the effects, including the uncertainty of the support.

        Returns:
            (m,) predictions, or (b, m); with `return_std` also their standard deviations.

        Raises:
            TypeError: If X is not an array of real numbers.
            ValueError: If X does not have one column for each feature, or a value is not finite.

        Example:
            >>> mean, std = bmjax.posterior(X, y, intercept=True).predict(X, return_std=True)
        """
        away, mean = centred_predictor(self, X)
        wanted = validate.flag("return_std", return_std)
        if not wanted and (self.family is None or self.family.has_units):
            return mean
        features = jnp.asarray(self.mixture.features)
        at = jnp.minimum(features, away.shape[-1] - 1)[..., None, :]
        chosen = jnp.take_along_axis(
            away, jnp.broadcast_to(at, (*away.shape[:-1], at.shape[-1])), -1
        )
        spread = jnp.einsum("...nu,...uv,...nv->...n", chosen, self.mixture.covariance, chosen)
        variance = self.level_variance[..., None] + jnp.maximum(spread, 0)
        family: Any = self.family
        if family is not None and not family.has_units:
            chance = family.mean(mean, variance)
            return (chance, jnp.sqrt(chance * (1 - chance))) if wanted else chance
        noise = self.noise_variance * (1 if family is None else family.spread)
        return mean, jnp.sqrt(noise[..., None] + variance)

    def select(self, fdr: float = 0.1) -> Bool[np.ndarray, "*b k"]:
        """The largest set of features of which at most a share of `fdr` is expected not to act.

        Features are selected in the order of their probabilities, as long as the mean of 1 -
        probability is at most `fdr`. Features that are always in are selected and do not count.

        Args:
            fdr: The share, at least 0 and below 1.

        Returns:
            (k,) or (b, k) booleans.

        Raises:
            TypeError: If fdr is not a number.
            ValueError: If fdr is out of range.

        Reference:
            Müller, Parmigiani, Robert and Rousseau, JASA 2004.

        Example:
            >>> bmjax.posterior(X, y).select(fdr=0.05)
        """
        share = float(validate.number("fdr", fdr, float, low=0, high=1, open_low=False))
        return selected(np.asarray(self.probability, float), np.asarray(self.unmasked), share)

    def credible_sets(self, level: float = 0.95) -> list[tuple[tuple[int, ...], float]]:
        """Sets of correlated features, in each of which at least one acts with a given probability.

        If columns are nearly the same, no single one may be probable although one of them must act.
        A set starts with the most probable feature that is in no set yet. Of the features whose
        correlation with it is .5 or more in absolute value, it then takes those that most raise the
        probability that any of the set acts, until that is at least `level`. Sets that do not reach
        `level` are not reported. The idea is that of SuSiE (Wang et al., 2020), but computed from
        the supports themselves.

        Args:
            level: Probability that at least one feature of a set acts, between 0 and 1.

        Returns:
            Each set, as the numbers of its features, the most probable first, and the probability
            that any of them acts.

        Raises:
            TypeError: If level is not a number.
            ValueError: If level is out of range, or this is the posterior of several datasets.

        Example:
            >>> for members, probability in bmjax.posterior(X, y).credible_sets(0.9):
            ...     print(members, probability)
        """
        self._one("credible_sets")
        return credible_sets(on_host(self, ()), checked_level(level))

    def raise_for_status(self) -> None:
        """Raise if the chains of a dataset do not agree or its data are not finite.

        Raises:
            RuntimeError: If the chains of some dataset do not agree, or the data are not finite.
        """
        codes = np.ravel(np.asarray(self.status))
        bad = [s for s in (Status.MAX_STEPS, Status.NON_FINITE) if s in codes]
        if bad:
            where = {s.name: np.flatnonzero(codes == s)[:10].tolist() for s in bad}
            raise RuntimeError(
                f"posterior ended with {where}, numbers of datasets: raise max_steps, or look at "
                "values that are missing or infinite."
            )

    def summary(self, names: Sequence[str] | None = None) -> PosteriorSummary:
        """The posterior as a table to print, with the most probable supports.

        Args:
            names: Names of the k features. Default: those of the data, else x0, x1, ...

        Returns:
            The summary; `print` it, or take its `to_pandas()`.

        Raises:
            ValueError: If there are not k names, or this is the posterior of several datasets.

        Example:
            >>> print(bmjax.posterior(X, y, intercept=True).summary())
        """
        self._one("summary")
        one = on_host(self, ())
        lower, upper = self.interval(0.95)
        names = feature_names(names, len(one.coef), self.names)
        return PosteriorSummary.of(one, names, lower, upper)

    def to_pandas(self, names: Sequence[str] | None = None) -> Any:
        """The features as a `pandas.DataFrame`; see `summary`.

        Raises:
            ModuleNotFoundError: If pandas is not installed.
            ValueError: If there are not k names, or this is the posterior of several datasets.
        """
        return self.summary(names).to_pandas()

    def _one(self, name: str) -> None:
        if np.ndim(self.coef) != 1:
            raise ValueError(
                f"{name} is of one dataset, this is of {np.shape(self.coef)[0]}: take one, such as "
                "jax.tree.map(lambda leaf: leaf[0], result)."
            )
