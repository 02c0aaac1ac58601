"""Outcomes that are not Gaussian: each as the Gaussian problem that touches its likelihood.

The log likelihood of a sample, as a function of its predictor eta, has a parabola below it that
touches it at a point:

    log p(y | eta) >= base - lambda weight (target - eta)^2 / 2 + log(lambda / 2 pi) / 2.

So the bound of the Gaussian model, with a weight and a target for each row, is a bound for every
family here; where it touches is best chosen by the second moment of eta (or of y - eta) under the
masks, in closed form. The rows are multiplied by the root of their weight, and all steps serve as
they are: E step, M step and pruning raise the bound, and touching anew cannot lower it.

Two parabolas are needed. `touching` lies below the likelihood, so fits climb by it. `local` has the
curvature of the likelihood itself and may cross it: it foresees what a change of the support will
bring, which the other one, being wide enough for all eta, underrates.

The distributions themselves are in `distributions`. Counts are not among them: a Poisson likelihood
falls faster than any parabola as eta grows, so it has none below it.
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
        weight: How much the sample counts in squared errors.
        target: Where the parabola is highest.
        base: What the log likelihood has beside that of a Gaussian, summed over samples.
    """

    weight: Float[Array, " n"]
    target: Float[Array, " n"]
    base: Float[Array, ""] | None


class Family(Protocol):
    """A distribution of y given its predictor. A pytree; its class is compiled in.

    Attributes:
        name: As users spell it.
        has_units: Whether y may be moved and scaled, as what is measured may, and has noise.
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
            variance: Its variance.
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
        """The log likelihood of predictors that are known."""
        ...

    def log_density(self, y: Array, mean: Array, noise: Array | float) -> Array:
        """The same of each sample, y and predictor of any one shape."""
        ...

    def derivatives(self, y: Array, mean: Array) -> tuple[Array, Array, Array]:
        """The first three of the log density in the predictor, where the noise precision is one."""
        ...

    def separated(self, problem: Problem, mean: Float[Array, " n"]) -> Bool[Array, ""]:
        """Whether the predictors show that the likelihood has no maximum."""
        ...

    def fits(self, problem: Problem) -> Bool[Array, ""]:
        """Whether y holds what this distribution can bring forth."""
        ...

    def settled_at(
        self, problem: Problem, mean: Float[Array, " n"], variance: Float[Array, " n"], noise: Array
    ) -> Family:
        """The family with what it learns of the data filled in."""
        ...

    def least_width(self, target_square: Float[Array, ""]) -> ArrayLike:
        """The width of a prior on weights in units of the information of a sample, as `criterion`.

        Args:
            target_square: Mean square of y.
        """
        ...

    @property
    def information(self) -> ArrayLike:
        """What the effects' information has beside that of the squared errors, on average."""
        ...

    def explained(
        self, log_likelihood: Float[Array, ""], mean: Float[Array, ""], samples: Float[Array, ""]
    ) -> Float[Array, ""] | None:
        """The share of the deviance that is explained; None where that of y's variance says it.

        Args:
            log_likelihood: The log likelihood of the predictors.
            mean: Mean of y.
            samples: Number of samples.
        """
        ...


def predictor(problem: Problem, state: State) -> tuple[Float[Array, " n"], Float[Array, " n"]]:
    """Mean and variance of each sample's predictor, sum of z x weight, under the masks."""
    xp = namespace(state)
    weights = xp.where(state.active, state.weights, 0)
    masked = problem.X * state.mask_mean
    if problem.groups is not None:
        effects = problem.groups.summed(problem.X * weights[:, None])
        spread = state.mask_mean - state.mask_mean**2
        return weights @ masked, xp.sum(effects**2 * spread, axis=0)
    return weights @ masked, weights**2 @ (masked * (problem.X - masked))


def mean_predictor(problem: Problem, state: State) -> Float[Array, " n"]:
    """Mean of each sample's predictor by the inclusion rates: X @ coef, masks summed out."""
    return namespace(state).where(state.active, state.coef, 0) @ problem.X


def touching(problem: Problem, state: State) -> Problem:
    """The Gaussian problem below the likelihood that touches it where the bound is highest.

    A Gaussian problem is what it is.

    Args:
        problem: The dataset.
        state: Where to touch it.
    """
    family = problem.family
    if family is None:
        return problem
    mean, variance = predictor(problem, state)
    return by_rows(problem, family.touching(problem, mean, variance, state.noise_precision))


def local(problem: Problem, features: Int[Array, " m"], state: State) -> Problem:
    """The Gaussian problem with slope and curvature of the likelihood at a state.

    Args:
        problem: The dataset, with all its features.
        features: Those that the state is about, by slot.
        state: Where.
    """
    family = problem.family
    if family is None:
        return problem
    mean, variance = predictor(gathered(problem, features), state)
    return by_rows(problem, family.local(problem, mean, variance, state.noise_precision))


def informed(problem: Problem, features: Int[Array, " m"], state: State) -> Problem:
    """The Gaussian problem whose covariance of the effects is that of the family.

    Its squared errors are those of the likelihood around the mean predictor, masks summed out.

    Args:
        problem: The dataset, with all its features.
        features: Those that the state is about, by slot.
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
    """The problem whose squared errors are those of the parabolas: rows times root weights."""
    root = namespace(parabola.weight).sqrt(parabola.weight)
    return problem._replace(
        X=problem.X * root[None, :],
        y=parabola.target * root,
        family=None,
        log_base=parabola.base,
    )
