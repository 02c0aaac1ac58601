"""Families of y that are not Gaussian, fitted by a Gaussian problem that touches their likelihood.

The log likelihood of a sample, as a function of its predictor eta, has a parabola below it that
touches it at a point:

    log p(y | eta) >= base - lambda weight (target - eta)^2 / 2 + log(lambda / 2 pi) / 2.

So the bound of the Gaussian model, with a weight and a target for each row, is a bound for every
family here; the best point of contact follows from the second moment of eta (or of y - eta) under
the masks, in closed form. The rows are multiplied by the root of their weight, and all steps apply
unchanged, pruning included: E step and M step raise the bound, and moving the point of contact
cannot lower it.

Two parabolas are needed. `touching` lies below the likelihood, so fits climb by it. `local` has the
curvature of the likelihood itself and may cross it: it predicts the gain of a change of the
support, which `touching`, being a bound for all eta, underestimates.

The distributions themselves are in `distributions`. Counts are not among them: a Poisson likelihood
falls faster than any parabola as eta grows, so it has no parabola below it.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

from jax.typing import ArrayLike
from jaxtyping import Bool, Float, Int

from bmjax._model.problem import Problem, State
from bmjax._model.working_set import gathered
from bmjax._runtime.backend import Array, namespace


class Parabola(NamedTuple):
    """A parabola in the predictor of each sample.

    Attributes:
        weight: Weight of each sample in the squared errors.
        target: Predictor at which each parabola is highest.
        base: The log likelihood minus that of the Gaussian problem, summed over samples; or None.
    """

    weight: Float[Array, " n"]
    target: Float[Array, " n"]
    base: Float[Array, ""] | None


class Family(Protocol):
    """A distribution of y given its predictor. A pytree, whose class is compiled in.

    Attributes:
        name: The name that users give.
        has_units: Whether y is a measurement with noise, which may be shifted and scaled.
    """

    name: str
    has_units: bool

    def touching(
        self, problem: Problem, mean: Float[Array, " n"], variance: Float[Array, " n"], noise: Array
    ) -> Parabola:
        """The parabolas below the likelihood that touch it where the bound is highest.

        Args:
            problem: The dataset.
            mean: Mean of each predictor under the masks.
            variance: Variance of each predictor under the masks.
            noise: The noise precision.
        """
        ...

    def local(
        self, problem: Problem, mean: Float[Array, " n"], variance: Float[Array, " n"], noise: Array
    ) -> Parabola:
        """The parabolas with the slope and the curvature of the likelihood."""
        ...

    def log_likelihood(
        self, problem: Problem, mean: Float[Array, " n"], noise: Array
    ) -> Float[Array, ""]:
        """The log likelihood at given predictors."""
        ...

    def log_density(self, y: Array, mean: Array, noise: Array | float) -> Array:
        """The log likelihood of each sample, for y and predictors of one shape."""
        ...

    def derivatives(self, y: Array, mean: Array) -> tuple[Array, Array, Array]:
        """The first three derivatives of the log density in the predictor, at noise precision 1."""
        ...

    def separated(self, problem: Problem, mean: Float[Array, " n"]) -> Bool[Array, ""]:
        """Whether the predictors show that the likelihood has no maximum."""
        ...

    def fits(self, problem: Problem) -> Bool[Array, ""]:
        """Whether all values of y are possible under this distribution."""
        ...

    def settled_at(
        self, problem: Problem, mean: Float[Array, " n"], variance: Float[Array, " n"], noise: Array
    ) -> Family:
        """The family with the parameters that it learns from the data."""
        ...

    def unit_strength(self, target_square: Float[Array, ""]) -> ArrayLike:
        """The strength of an effect whose prior has unit information, per sample's information.

        Args:
            target_square: Mean square of y.
        """
        ...

    @property
    def information(self) -> ArrayLike:
        """The factor from the information of the squared errors to that of the effects."""
        ...

    def explained(
        self, log_likelihood: Float[Array, ""], mean: Float[Array, ""], samples: Float[Array, ""]
    ) -> Float[Array, ""] | None:
        """The share of the deviance explained; None to use the share of the variance of y.

        Args:
            log_likelihood: The log likelihood of the predictors.
            mean: Mean of y.
            samples: Number of samples.
        """
        ...


def predictor(problem: Problem, state: State) -> tuple[Float[Array, " n"], Float[Array, " n"]]:
    """Mean and variance of each sample's predictor, the sum of z x weight, under the masks."""
    xp = namespace(state)
    weights = xp.where(state.active, state.weights, 0)
    masked = problem.X * state.mask_mean
    if problem.groups is not None:
        effects = problem.groups.summed(problem.X * weights[:, None])
        spread = state.mask_mean - state.mask_mean**2
        return weights @ masked, xp.sum(effects**2 * spread, axis=0)
    return weights @ masked, weights**2 @ (masked * (problem.X - masked))


def mean_predictor(problem: Problem, state: State) -> Float[Array, " n"]:
    """Mean of each sample's predictor with the masks summed out: X @ coef."""
    return namespace(state).where(state.active, state.coef, 0) @ problem.X


def touching(problem: Problem, state: State) -> Problem:
    """The Gaussian problem below the likelihood that touches it where the bound is highest.

    A Gaussian problem is returned unchanged.

    Args:
        problem: The dataset.
        state: The state at which to touch it.
    """
    family = problem.family
    if family is None:
        return problem
    mean, variance = predictor(problem, state)
    return by_rows(problem, family.touching(problem, mean, variance, state.noise_precision))


def local(problem: Problem, features: Int[Array, " m"], state: State) -> Problem:
    """The Gaussian problem with the slope and curvature of the likelihood at a state.

    Args:
        problem: The dataset, with all its features.
        features: The features of the state, by slot.
        state: The state.
    """
    family = problem.family
    if family is None:
        return problem
    mean, variance = predictor(gathered(problem, features), state)
    return by_rows(problem, family.local(problem, mean, variance, state.noise_precision))


def informed(problem: Problem, features: Int[Array, " m"], state: State) -> Problem:
    """The Gaussian problem with the family's covariance of the effects.

    Its squared errors approximate the likelihood at the mean predictor, with the masks summed out.

    Args:
        problem: The dataset, with all its features.
        features: The features of the state, by slot.
        state: A fitted state.
    """
    if problem.family is None:
        return problem
    mean, noise = mean_predictor(gathered(problem, features), state), state.noise_precision
    still = namespace(mean).zeros_like(mean)
    family = problem.family.settled_at(problem, mean, still, noise)
    near = by_rows(problem, family.local(problem, mean, still, noise))
    return near._replace(noise_precision=noise * family.information)


def by_rows(problem: Problem, parabola: Parabola) -> Problem:
    """The problem whose squared errors are the parabolas: rows times the roots of their weights."""
    root = namespace(parabola.weight).sqrt(parabola.weight)
    return problem._replace(
        X=problem.X * root[None, :],
        y=parabola.target * root,
        family=None,
        log_base=parabola.base,
    )
