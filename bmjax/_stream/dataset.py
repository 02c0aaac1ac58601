"""A dataset in blocks: the starts of its fits, the best of them, and its result."""

from __future__ import annotations

from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Bool, Float

from bmjax._model.linalg import solve_normal_equations
from bmjax._model.options import SPARSE_RATES, Options, Plan
from bmjax._model.problem import DUST, Totals
from bmjax._model.sums import precision_of
from bmjax._results.covariance import Products, uncertainty_of
from bmjax._results.parts import Uncertainty
from bmjax._results.result import Result
from bmjax._runtime.backend import Array
from bmjax._selection.best_subset import best_subset
from bmjax._selection.criterion import Criterion, criterion
from bmjax._selection.gram import Squares, residual_slope, residual_square
from bmjax._selection.in_memory import report
from bmjax._selection.multistart import End, best_fit
from bmjax._selection.rounds import Subset, blank, maximised, repeated, spent_on
from bmjax._selection.starts import Point, points_on
from bmjax._solvers.accelerated import Accelerated
from bmjax._stream.fitter import Streamed, totals_at
from bmjax._stream.passes import INFORMED, Passes


def best_streamed(
    passes: Passes,
    options: Options,
    solver: Accelerated,
    plan: Plan,
    with_uncertainty: bool,
) -> Result:
    """The result of the best of all starts and moves, in the units of the fit."""
    k, family = len(passes.largest) - 1, passes.family
    raw = passes.plain(np.zeros(k))
    totals = _totals(passes, options, raw)
    rule = criterion(plan.criterion, totals)
    if family is None:
        anchor = solve_normal_equations(raw.gram, raw.slope, np.ones(k, bool))
        sums, found = passes.plain(anchor), None
    else:
        none = blank(totals)
        sums = passes.near(none.weights, none.noise_precision)
        found = best_by_rounds(passes, totals, rule) if plan.sparse else None
    starts = _points(totals, options, plan, rule, sums, found)
    end, record = best_fit(Streamed(passes, totals, options, solver), plan, starts, k)
    certain = _uncertainty(passes, totals, raw.gram, sums, end) if with_uncertainty else None
    return report(end, record, certain)._replace(family=family)


class _Rows(NamedTuple):
    """The `Likelihood` of a stream."""

    passes: Passes
    totals: Totals

    def near(self, weights: Float[Array, " k"], noise: Float[Array, ""]) -> Squares:
        """As `Likelihood`."""
        return self.passes.near(weights, noise)

    def values(
        self, weights: Float[Array, "c k"], noise: Float[Array, ""]
    ) -> tuple[Float[Array, " c"], Bool[Array, " c"]]:
        """As `Likelihood`."""
        found = self.passes.values(weights, noise)
        return found.log_likelihood, found.mixed == 0

    def precision(self, variance: Float[Array, ""]) -> Float[Array, ""]:
        """As `Likelihood`."""
        return precision_of(self.totals, variance)


def best_by_rounds(passes: Passes, totals: Totals, rule: Criterion) -> Subset:
    """The best subset of a stream whose y is not Gaussian, by repeated searches."""
    data = _Rows(passes, totals)

    def find(best: Subset) -> tuple[Array, Array]:
        near = passes.near(best.weights, best.noise_precision)
        return best_subset(totals, rule, near)[::2]

    def refit(start: Subset, support: Bool[Array, " k"]) -> Subset:
        weights = np.where(support, start.weights, 0)
        end = maximised(data, weights, start.noise_precision, support)
        near = passes.near(end.weights, end.noise_precision)
        size = support.sum(dtype=np.int32)
        spent = spent_on(rule, near, end, support & totals.maskable, size)
        return Subset(support, end.weights, end.noise_precision, end.value - spent)

    return repeated(refit(blank(totals), ~totals.maskable), find, refit)[0]


def _totals(passes: Passes, options: Options, raw: Squares) -> Totals:
    """The totals of the dataset."""
    n, k = raw.samples, len(raw.anchor)
    unmasked = np.zeros(k, bool)
    if options.unmasked is not None:
        unmasked[: len(options.unmasked)] = options.unmasked
    if passes.intercept:
        unmasked[-1] = True
    return Totals(
        num_samples=n,
        num_rows=np.asarray(passes.rows, np.int32),
        mean_squares=np.diagonal(raw.gram) / n,
        target_square=raw.square / n,
        maskable=~unmasked,
        noise_precision=options.noise_precision,
        prune_threshold=options.prune_threshold,
        family=passes.family,
    )


def _points(
    totals: Totals,
    options: Options,
    plan: Plan,
    rule: Criterion,
    sums: Squares,
    found: Subset | None,
) -> Point:
    """The starts, those from the best subset first, as for `fit`."""
    n, k = totals.num_samples, len(sums.anchor)
    points = []
    if plan.sparse:
        rates = np.asarray(SPARSE_RATES[: plan.sparse])
        if found is None:
            support, weights, _ = best_subset(totals, rule, sums)
            square = residual_square(sums, weights) / n
        else:
            support, weights, square = found.support, found.weights, 1 / found.noise_precision
        points.append(points_on(totals, rates, support, weights, square))
    for row in options.rates:
        rates = np.ones(k)
        rates[: len(row)] = row
        rates = np.where(totals.maskable, rates, 1)
        weights = solve_normal_equations(sums.gram, sums.slope + sums.gram @ sums.anchor, rates > 0)
        square = residual_square(sums, weights) / n
        one = Point(rates, weights, precision_of(totals, square))
        points.append(jax.tree.map(lambda leaf: np.asarray(leaf)[None], one))
    return jax.tree.map(lambda *leaves: np.concatenate(leaves), *points)


def _uncertainty(
    passes: Passes, totals: Totals, gram: Float[Array, "k k"], sums: Squares, end: End
) -> Uncertainty:
    state, family = end.outcome.state, passes.family
    covariance = gram / totals.num_samples - np.outer(passes.mean, passes.mean)
    spread = np.sqrt(np.maximum(np.diagonal(covariance), 0))
    # The spread of a constant column is rounding.
    spread = np.where(spread > DUST * np.finfo(spread.dtype).eps * np.abs(passes.mean), spread, 0)
    unit = np.where(spread > 0, 1 / np.where(spread > 0, spread, 1), 0)
    correlation = np.clip(covariance * unit[:, None] * unit[None, :], -1, 1)
    coef, omega = np.where(state.active, state.coef, 0), end.extra.around.sums.omega
    if family is None:
        slope, square = residual_slope(sums, coef), residual_square(sums, coef)
        products = Products(omega, gram, slope, square, correlation)
        return uncertainty_of(totals, state, end.features, products)
    informed, near = passes.masked(state, INFORMED), passes.near(coef, state.noise_precision)
    omega = informed.sums.omega
    products = Products(omega, near.gram, near.slope, near.square, correlation)
    at = totals_at(totals, informed)
    at = at._replace(noise_precision=state.noise_precision * family.information)
    certain = uncertainty_of(at, state, end.features, products)
    likelihood = passes.values(coef[None, :], state.noise_precision).log_likelihood[0]
    share = family.explained(likelihood, passes.y_mean, totals.num_samples)
    if share is None:
        return certain
    return certain._replace(r_squared=share, relative_size=np.sqrt(totals.mean_squares))
