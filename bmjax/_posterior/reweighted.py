"""Reweighting of supports found by squared errors, by their evidence under the likelihood.

Supports are found by squared errors that approximate the likelihood near one point. Each is then
weighted by the ratio of its own evidence to that of the squared errors, as in importance sampling.
The estimates for each feature from all steps are corrected by the change that this makes among the
listed supports, so that the sampling error of these enters only as far as the two evidences differ.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from bmjax._model.status import Status
from bmjax._posterior.agreement import few_of
from bmjax._posterior.found import Found, Held, found_by_chains
from bmjax._posterior.given import Squared
from bmjax._posterior.laplace import Worth, worths
from bmjax._posterior.reference import Reference
from bmjax._posterior.sampling import Plan

_FEWEST, _MOST, _ROWS = 64, 4096, 2e7  # limits of the supports judged, and of their rows
_OF_CHAINS, _SHORTER = 0.7, 0.6  # shares of the allowed error, at first and then
_STEEPEST = 3.0  # largest tilt of the prior of sizes, in nats a feature
_NEGLIGIBLE = 1e-7  # total probability, after enumeration, of supports not worth a climb


class _Supports(NamedTuple):
    """Supports of at most m of u features, with their evidence by the likelihood.

    Attributes:
        inside: (t, u) whether each feature is in each support.
        slots: (t, m) numbers of the features of each support, u in empty slots.
        worth: Evidence and moments of each support, effects by slot.
        share: (t,) probability of each support, with a sum of one.
    """

    inside: np.ndarray
    slots: np.ndarray
    worth: Worth
    share: np.ndarray

    def by_feature(self, values: np.ndarray) -> np.ndarray:
        """Values (t, m) by slot as (t, u) by feature."""
        t, u = self.inside.shape
        whole = np.zeros((t, u + 1))
        np.put_along_axis(whole, self.slots, values, axis=1)
        return whole[:, :u]

    def total(self, values: np.ndarray) -> np.ndarray:
        """The mean of values (t, ..., m) by slot over the supports, as (..., u) by feature."""
        t, u = self.inside.shape
        weighted = np.moveaxis(values * self.share.reshape(t, *[1] * (values.ndim - 1)), -1, 1)
        whole = np.zeros((u + 1, *weighted.shape[2:]))
        np.add.at(whole, self.slots, weighted)
        return np.moveaxis(whole[:u], 0, -1)


def judged(rows: int) -> int:
    """The number of supports that are judged by the likelihood, given the number of rows."""
    return int(np.clip(_ROWS // rows, _FEWEST, _MOST))


def chains_reweighted(
    near: Reference, words: list[int], plan: Plan, count: int, report: Callable[[int], None]
) -> Found:
    """The posterior of a dataset by chains on squared errors, reweighted by the likelihood.

    Args:
        near: The squared errors, and the likelihood.
        words: The integers that seed the draws.
        plan: The number of chains and the rule that ends them.
        count: Largest number of supports to list.
        report: A function that is called with the number of steps made.
    """
    fewest = plan._replace(max_steps=0)
    pilot = found_by_chains(near.squared, words, fewest, count, report)
    _, worth = _judged(pilot, near)
    squares = _tilted(pilot, worth, near)
    ratio = _ratio(pilot, worth)
    by_both = _error(pilot, ratio, _probability(pilot, _truncated(ratio, pilot.weight)))
    share = np.max(pilot.error, initial=0) / max(np.max(by_both, initial=0), 1e-12)
    allowed = plan.tolerance * float(np.clip(share, 0.3, _OF_CHAINS))
    while True:
        own = plan._replace(tolerance=allowed)
        by_squares = found_by_chains(squares, words, own, max(count, judged(len(near.y))), report)
        found = reweighted(by_squares, near, count, plan.tolerance)
        worst = float(np.max(found.error, initial=0))
        if worst <= plan.tolerance or by_squares.status == Status.MAX_STEPS:
            return found
        allowed *= min(_SHORTER, plan.tolerance / worst)


def _tilted(found: Found, worth: Worth, near: Reference) -> Squared:
    """The squared errors with a prior of sizes tilted to bring them closer to the likelihood.

    Squared errors at one point overrate the fit of features beyond those that act.

    Args:
        found: The posterior by a few steps of chains on squared errors.
        worth: The evidence of its supports by the likelihood.
        near: The squared errors.
    """
    good = np.isfinite(worth.log)
    weight, away = found.weight[good], (worth.log - found.log)[good]
    size = found.inside.sum(axis=1)[good].astype(float)
    size -= weight @ size / weight.sum()
    slope = (weight * size) @ away / max((weight * size) @ size, 1e-12)
    evidence = near.squared.evidence
    steps = np.clip(slope, -_STEEPEST, _STEEPEST) * np.arange(len(evidence.log_size))
    tilt = evidence._replace(log_size=evidence.log_size + steps)
    return near.squared._replace(evidence=tilt)


def reweighted(found: Found, near: Reference, count: int, tolerance: float) -> Found:
    """The posterior found by squared errors, reweighted by the likelihood.

    Args:
        found: The posterior by squared errors, effects in units of the sums.
        near: The squared errors, and the likelihood.
        count: Largest number of supports to list.
        tolerance: Largest allowed Monte Carlo error of a probability.

    Returns:
        The posterior, effects in units of y per unit of a column of the sums.
    """
    every, unit = found.by_chain is None, near.squared.sums.y_scale
    if every:
        found = _first(found, max(count, judged(len(near.y))))
        left = found.weight.sum() - np.cumsum(found.weight)
        found = _first(found, int(np.argmax(left <= _NEGLIGIBLE)) + 1)
    slots, worth = _judged(found, near)
    ratio = _ratio(found, worth)
    times = ratio if every else _truncated(ratio, found.weight)
    after = found.weight * times
    here = _Supports(found.inside, slots, worth, after / after.sum())
    lead = len(near.nuisance)
    mean = here.by_feature(worth.mean[:, lead:])
    variance = np.diagonal(worth.covariance, axis1=1, axis2=2)[:, lead:]
    spread = np.sqrt(np.maximum(here.by_feature(variance), 0))
    probability = _probability(found, times)
    # The mean effect given that a feature acts, by squared errors if no listed support has it.
    relative = probability / np.maximum(found.probability, 1e-300)
    coef = found.coef * unit * relative
    square = (found.coef**2 + found.deviation**2) * unit**2 * relative
    present = after @ found.inside
    some = present > 0
    union, share = found.features[some], probability[found.features[some]] / present[some]
    average = (after @ mean)[some]
    scaled = average * (share - 1) / unit
    if np.sum((scaled @ near.squared.sums.columns[union]) ** 2) > found.noise:
        # Columns explain each other almost wholly; only effects of the same supports cancel.
        share = np.ones_like(share)
        coef, square = np.zeros_like(coef), np.zeros_like(square)
    coef[union] = average * share
    square[union] = (after @ (mean**2 + spread**2))[some] * share
    error = found.error if every else _error(found, ratio, probability)
    status = found.status
    if near.separated:
        status = Status.SEPARATED
    elif status == Status.CONVERGED and np.max(error, initial=0) > tolerance:
        status = Status.MAX_STEPS
    sizes = found.inside.sum(axis=1)
    size = found.size + np.bincount(sizes, after - found.weight, len(found.size))
    whole = found._replace(
        probability=probability,
        error=error,
        coef=coef,
        deviation=np.sqrt(np.maximum(square - coef**2, 0)),
        noise=float(here.share @ worth.noise),
        size=np.maximum(size, 0) / np.maximum(size, 0).sum(),
        weight=after,
        mean=mean,
        spread=spread,
        covariance=_covariance(here, lead),
        log=worth.log,
        held=_held(here, near),
        status=status,
    )
    order = np.argsort(-after, kind="stable")
    if every:
        return _first(_at(whole, order), count)
    places, weight = few_of(after[order], count)
    return _at(whole, order[places])._replace(weight=weight)


def _truncated(ratio: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """The ratios of sampled supports, truncated so that no single one dominates.

    Reference:
        Ionides, "Truncated importance sampling", Journal of Computational and Graphical Statistics
        2008: a ratio is at most the square root of their number times their mean.
    """
    few = np.minimum(ratio, np.sqrt(len(ratio)))
    return few * (weight.sum() / (weight @ few))


def _probability(found: Found, ratio: np.ndarray) -> np.ndarray:
    """The probability of each feature: its odds by squared errors times a ratio of mean ratios.

    Args:
        found: The posterior by squared errors.
        ratio: The ratio of evidences of each support; the odds are multiplied by its mean over the
            supports with the feature over that without.
    """
    weight, inside = found.weight, found.inside

    def mean_ratio(members: np.ndarray) -> np.ndarray:
        total = weight @ members
        return np.where(total > 0, (weight * ratio) @ members / np.maximum(total, 1e-300), 1)

    probability = np.array(found.probability)
    chance = probability[found.features]
    with_it, without = chance * mean_ratio(inside), (1 - chance) * mean_ratio(~inside)
    probability[found.features] = with_it / np.maximum(with_it + without, 1e-300)
    return probability


def _error(found: Found, ratio: np.ndarray, probability: np.ndarray) -> np.ndarray:
    """Monte Carlo errors of the probabilities, including those of the reweighting."""
    assert found.by_chain is not None
    away = found.inside - probability[found.features]
    changes = (found.by_chain * (ratio - 1)[:, None]).T @ away  # by chain
    error = np.array(found.error)
    variance = np.var(changes, axis=0, ddof=1) / len(changes)
    error[found.features] = np.sqrt(error[found.features] ** 2 + variance)
    return error


def _first(found: Found, count: int) -> Found:
    """The posterior with only the first of its supports."""
    return _at(found, np.arange(min(count, len(found.weight))))


def _at(found: Found, places: np.ndarray) -> Found:
    """The posterior with some of its supports."""
    of_each = ("weight", "inside", "mean", "spread", "log")
    return found._replace(**{name: getattr(found, name)[places] for name in of_each})


def _ratio(found: Found, worth: Worth) -> np.ndarray:
    """Ratios of evidence by the likelihood to that by squared errors, with a weighted mean of one.

    A support whose evidence is not finite gets the median.
    """
    log = worth.log - found.log
    good = np.isfinite(log)
    log = np.where(good, log, np.median(log[good]) if good.any() else 0)
    ratio = np.exp(log - np.max(log))
    return ratio * (found.weight.sum() / (found.weight @ ratio))


def _judged(found: Found, near: Reference) -> tuple[np.ndarray, Worth]:
    """The slots of each support, and its evidence and moments."""
    u, sizes = len(found.features), found.inside.sum(axis=1)
    m = int(sizes.max(initial=1))
    # The features of each support come first, in order; empty slots come last.
    slots = np.argsort(~found.inside, axis=1, kind="stable")[:, :m]
    effects = np.take_along_axis(found.mean, slots, axis=1)
    used = np.arange(m) < sizes[:, None]
    effects = np.where(used, effects * near.squared.sums.y_scale / np.exp(near.point.log_scale), 0)
    slots = np.where(used, slots, u)
    return slots, worths(near.design(found.features), slots, effects, near.point)


def _covariance(here: _Supports, lead: int) -> np.ndarray:
    """(u, u) covariance of the features' effects over all supports."""
    mean = here.worth.mean[:, lead:]
    square = here.worth.covariance[:, lead:, lead:] + mean[:, :, None] * mean[:, None, :]
    u = here.inside.shape[1]
    second = np.zeros((u + 1, u + 1))
    np.add.at(
        second, (here.slots[:, :, None], here.slots[:, None, :]), here.share[:, None, None] * square
    )
    average = here.total(mean)
    return second[:u, :u] - np.outer(average, average)


def _held(here: _Supports, near: Reference) -> Held:
    """The effects of the level and of the features always in."""
    lead, share = len(near.nuisance), here.share
    mean, covariance = here.worth.mean, here.worth.covariance
    average = share @ mean[:, :lead]
    away = mean[:, :lead] - average
    own = (
        np.einsum("t,tij->ij", share, covariance[:, :lead, :lead])
        + (share[:, None] * away).T @ away
    )
    cross = here.total(covariance[:, :lead, lead:] + away[:, :, None] * mean[:, None, lead:])
    level = lead - near.to_always.shape[1]
    way = near.to_always
    return Held(
        level=near.level + float(average[:level].sum()),
        level_variance=float(own[:level, :level].sum()),
        coef=way @ average[level:],
        covariance=way @ own[level:, level:] @ way.T,
        cross=way @ cross[level:],
    )
