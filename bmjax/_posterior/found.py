"""The posterior of a dataset in the units of its sums, and its computation by chains."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from bmjax._model.status import Status
from bmjax._posterior.agreement import agreement
from bmjax._posterior.given import Squared
from bmjax._posterior.mixture import parts_of
from bmjax._posterior.prior import LEAST_SHARE, Evidence
from bmjax._posterior.sampling import BURN, STEPS, Plan, sampled
from bmjax._runtime import ladder
from bmjax._runtime.programs import PROGRAMS


class Held(NamedTuple):
    """Effects of the level and of the p features that are always in, in the user's units.

    Attributes:
        level: Posterior mean of the level of y with every feature at its centre.
        level_variance: Posterior variance of the level.
        coef: (p,) means of the effects, before the correction for other features.
        covariance: (p, p) covariance of these effects.
        cross: (p, u) covariance of these effects with those of the listed features.
    """

    level: float
    level_variance: float
    coef: np.ndarray
    covariance: np.ndarray
    cross: np.ndarray


class Found(NamedTuple):
    """The posterior of f features that may be in or out, u of which are in some listed support.

    Attributes:
        probability: (f,) probability of each feature.
        error: (f,) Monte Carlo standard errors of the probabilities.
        coef: (f,) mean of the effects.
        deviation: (f,) standard deviation of the effects.
        noise: Mean of the noise variance.
        size: Probability of each size of the support.
        features: (u,) the features in the listed supports.
        weight: (t,) probability of each listed support.
        inside: (t, u) whether each feature is in each listed support.
        mean: (t, u) mean of the effects given each listed support.
        spread: (t, u) standard deviation of the effects given each listed support.
        covariance: (u, u) covariance of the effects over all supports.
        log: (t,) logarithm of the posterior of each listed support, up to a constant.
        by_chain: (t, c) share of each listed support in the time of each chain, or None.
        held: Effects of the level and the features always in; None if the sums determine them.
        freedom: Degrees of freedom of the effects given a support; infinite if the noise is known.
        r_hat: R-hat of the log posterior, see `Posterior`.
        steps: Number of steps of each chain.
        status: The status of the posterior.
    """

    probability: np.ndarray
    error: np.ndarray
    coef: np.ndarray
    deviation: np.ndarray
    noise: float
    size: np.ndarray
    features: np.ndarray
    weight: np.ndarray
    inside: np.ndarray
    mean: np.ndarray
    spread: np.ndarray
    covariance: np.ndarray
    log: np.ndarray
    by_chain: np.ndarray | None
    held: Held | None
    freedom: float
    r_hat: float
    steps: int
    status: Status


def freedom_of(evidence: Evidence) -> float:
    """Degrees of freedom of the effects given a support."""
    return float("inf") if evidence.precision is not None else float(evidence.freedom)


def found_by_chains(
    squares: Squared, words: list[int], plan: Plan, count: int, report: Callable[[int], None]
) -> Found:
    """The posterior of a dataset by chains.

    Args:
        squares: The squared errors of the dataset, and the evidence that judges a support.
        words: The integers that seed the draws.
        plan: The number of chains and the rule that ends them.
        count: Largest number of supports to list.
        report: A function that is called with the number of steps made.
    """
    sums, evidence, _ = squares
    kept = sampled(squares, words, plan, report)
    rounds = len(kept.tallies)
    burn = -(-rounds // BURN)
    end = agreement(kept, burn)
    chosen, weight, by_chain, size = kept.supports(burn, count)
    features = np.unique(np.concatenate([np.zeros(0, int), *chosen]))
    if not len(features):
        features = np.zeros(1, int)
    width, most_in = len(features), max(map(len, chosen))
    wide = ladder.features(width)
    slots = np.full((count, ladder.features(most_in)), wide, np.int32)
    inside = np.zeros((len(chosen), width), bool)
    for row, own in enumerate(chosen):
        at = np.searchsorted(features, own)
        slots[row, : len(own)] = at
        inside[row, at] = True
    columns = np.pad(sums.columns[features], ((0, wide - width), (0, 0)))
    shares = np.pad(weight, (0, count - len(weight)))
    parts = PROGRAMS.call(
        parts_of, columns @ columns.T, columns @ sums.target, evidence, slots, shares, static={}
    )
    mean, spread = (np.asarray(a)[: len(chosen), :width] for a in (parts.mean, parts.deviation))
    average = weight @ mean
    second = np.asarray(parts.second)[:width, :width]
    covariance, noise = second - average[:, None] * average[None, :], float(parts.noise)
    coef, deviation = end.coef, np.sqrt(np.maximum(end.square - end.coef**2, 0))
    listed = average @ sums.columns[features]
    if _square(sums.target - coef @ sums.columns) > _square(sums.target - listed) + noise:
        # The mean of each effect over the states of the other features is the most precise one, but
        # if columns explain each other almost wholly, only effects averaged over the same supports
        # cancel as those of one support do.
        coef, deviation = np.zeros_like(coef), np.zeros_like(deviation)
        coef[features] = average
        deviation[features] = np.sqrt(np.maximum(np.diagonal(covariance), 0))
    exact = float(np.asarray(parts.share)[0]) <= 10 * LEAST_SHARE
    status = Status.CONVERGED if end.agreed(plan.tolerance) else Status.MAX_STEPS
    return Found(
        probability=end.probability,
        error=end.error,
        coef=coef,
        deviation=deviation,
        noise=noise,
        size=size,
        features=features,
        weight=weight,
        inside=inside,
        mean=mean,
        spread=spread,
        covariance=covariance,
        log=np.asarray(parts.log)[: len(chosen)],
        by_chain=by_chain,
        held=None,
        freedom=freedom_of(evidence),
        r_hat=end.r_hat,
        steps=rounds * STEPS,
        status=Status.EXACT_FIT if exact else status,
    )


def _square(residual: np.ndarray) -> float:
    return float(residual @ residual)
