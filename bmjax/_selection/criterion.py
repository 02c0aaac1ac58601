"""The criterion that ranks the finished fits of a dataset, by the charge of each kept feature.

The bound G is the objective that an algorithm maximises; it need not rank the finished fits. With
the pruning of the paper, the number of parameters falls with each pruned feature, so a feature kept
with inclusion 1 is charged log n in all, half of it for its weight and half for its rate. There are
three rules:

`"paper"`
    G itself, equation (10): log(n)/2 + log(n pi)/2 a feature. Right for strong signals, over-prunes
    weak ones.
`"held"`
    log(n pi)/2 a feature, which is BIC at inclusion 1. The rate of a pruned feature is a parameter
    too, whose value is zero: under Jeffreys' prior on every rate all are charged alike, pruned or
    not, so rates do not matter for the ranking.
`"learned"`
    As `"held"`, with two charges that BIC leaves out because they do not grow with n. The first is
    for the spread of the weights: BIC gives them the prior of unit information, tau = 1 in units of
    noise variance over mean square of the feature; here tau is learned and at least 1, which
    charges log(tau)/2 more. The second is for the number of features searched: gamma log C(k, K)
    for K kept features of k, with C held at its largest beyond K = k/2, so that keeping more
    features never lowers the charge. gamma = 1 - log n / (4 log k), but at least 0, is halfway
    between 1 and the least value for which the extended BIC is consistent when k grows as a power
    of n (Chen and Chen, Biometrika, 2008).

If one of two outcomes is rare, a sample has less information on an effect, and a prior of unit
information would be the wider the rarer it is. So the lower limit of tau is 4 p (1 - p), with p the
share of ones, which gives log-odds the prior of unit information at equal shares, and makes n tau
count some four samples for each of the rarer outcome; n in gamma is multiplied by this limit too
(Volinsky and Raftery, "Bayesian information criterion for censored survival models", Biometrics,
2000, count events likewise).

With groups of columns, features are counted by group. A group of d columns is charged log(n)/2 for
each of its weights; "paper" charges log(n)/2 more for its one rate. "learned" charges each weight
log(n tau / d)/2: the contribution of a whole group to y is given the spread tau of a single
feature's, where tau is the mean over the kept groups of the mean square of a group's contribution
in units of the noise. So the charge does not depend on how the columns are coded, and for the means
of a category it counts the samples of a level, not all n, as the weight of a level is learned from
its own samples only (Berger, Bayarri and Pericchi, "The effective sample size", Econometric
Reviews, 2014).
"""

from typing import NamedTuple

from jaxtyping import Bool, Float, Int

from bmjax._model.problem import Problem, State, Totals
from bmjax._model.steps import exact_fit
from bmjax._runtime.backend import Array, namespace

CRITERIA = ("learned", "held", "paper")


class Criterion(NamedTuple):
    """A rule for a dataset, as charges in nats.

    Attributes:
        each: The charge of a feature at inclusion 1, before the width of the weights.
        learns_width: Whether that width is learned.
        by_size: The charge of the size of a support of 0, 1, ..., m features, with unmasked ones.
        further: The charge of each further weight of a group, before the width of the weights.
        least: The least width that is learned.
    """

    each: float | Float[Array, ""]
    learns_width: bool
    by_size: Float[Array, " sizes"]
    further: float | Float[Array, ""] = 0.0
    least: float | Float[Array, ""] = 1.0

    def charge(self, width: Float[Array, ""]) -> Float[Array, ""]:
        """The charge of a feature at inclusion 1, given the learned width of the weights."""
        return self.each + 0.5 * namespace(width).log(width)

    def charges(self, width: Float[Array, ""], columns: Int[Array, " g"]) -> Float[Array, " g"]:
        """The charge of each group at inclusion 1, given its number of columns and the width."""
        xp, columns = namespace(width), columns.astype(width.dtype)
        if self.learns_width:
            width = width / xp.maximum(columns, 1)
        weight = xp.maximum(self.further + 0.5 * xp.log(width), 0)
        return self.each - self.further + columns * weight

    def width(self, strength: Float[Array, " m"], chosen: Bool[Array, " m"]) -> Float[Array, ""]:
        """The learned spread tau of the weights, at least that of unit information.

        Args:
            strength: weights^2 * mean(x^2) * noise_precision of each feature.
            chosen: Whether each feature is kept and may be masked.
        """
        xp = namespace(strength)
        if not self.learns_width:
            return xp.ones((), strength.dtype)
        least = xp.asarray(self.least, strength.dtype)
        size = xp.maximum(xp.sum(chosen, dtype=strength.dtype), 1)
        return xp.maximum(least, xp.sum(xp.where(chosen, strength, 0)) / size)


def criterion(name: str, problem: Problem | Totals, most: int | None = None) -> Criterion:
    """The rule of a given name for a dataset; see the module's docstring.

    Args:
        name: The name of the rule.
        problem: The dataset.
        most: The largest size of a support that will be charged. Default: all columns.
    """
    xp = namespace(problem)
    half, maskable = 0.5 * problem.log_samples, problem.maskable
    dtype = problem.dtype
    if most is None:
        most = len(maskable)
    if name == "paper":
        return Criterion(2 * half, False, xp.zeros(most + 1, dtype), half)
    if name == "held":
        return Criterion(half, False, xp.zeros(most + 1, dtype), half)
    unmasked, features = ~maskable, problem.num_features
    if problem.groups is not None and problem.groups.members is not None:
        unmasked = unmasked & problem.groups.first
        features = xp.asarray(len(problem.groups.members), xp.int32)
    unmasked = xp.sum(unmasked, dtype=xp.int32)
    choices = (features - unmasked).astype(dtype)
    least = xp.ones((), dtype)
    if problem.family is not None:
        least = xp.asarray(problem.family.least_width(problem.target_square), dtype)
    share = 1 - 0.5 * (half + 0.5 * xp.log(least)) / xp.log(xp.maximum(choices, 2))
    share = xp.where(choices > 1, xp.maximum(share, 0), 0).astype(dtype)
    # log C(k, K), term by term, up to K = k/2; the size includes unmasked features.
    sizes = xp.arange(most, dtype=dtype)
    terms = xp.log(xp.maximum(choices - sizes, 1) / (sizes + 1))
    terms = xp.where(sizes < choices // 2, terms, 0)
    log_choices = xp.concatenate([xp.zeros(1, dtype), xp.cumsum(terms)])
    size = xp.arange(most + 1, dtype=xp.int32) - unmasked
    by_size = share * log_choices[xp.maximum(size, 0)]
    return Criterion(half, True, by_size, half, least)


def charge_at(rule: Criterion, problem: Problem | Totals, state: State) -> Float[Array, ""]:
    """The charge of a feature at inclusion 1, given the width of the weights of a state."""
    return rule.charge(width_at(rule, problem, state))


def width_at(rule: Criterion, problem: Problem | Totals, state: State) -> Float[Array, ""]:
    """The learned width of the weights of a state."""
    chosen = state.active & problem.maskable
    if isinstance(problem, Problem) and problem.groups is not None:
        chosen = chosen & problem.groups.first
        effects = problem.groups.summed(problem.X * state.weights[:, None])
        strength = problem.mean(effects**2) * state.noise_precision
    else:
        strength = state.weights**2 * problem.mean_squares * state.noise_precision
    return rule.width(strength, chosen)


def score(
    rule: Criterion, problem: Problem | Totals, state: State, bound: Float[Array, ""]
) -> Float[Array, ""]:
    """The score of a finished fit, in nats; -inf for a fit that cannot be ranked.

    Args:
        rule: The charge of each feature.
        problem: The dataset.
        state: The fitted state.
        bound: The lower bound at the state, which charges log(n pi)/2 + log(n)/2 a feature.
    """
    xp = namespace(state)
    size = xp.sum(state.active, dtype=xp.int32)
    chosen = xp.sum(state.active & problem.maskable, dtype=bound.dtype)
    if isinstance(problem, Problem) and problem.groups is not None:
        # The bound has charged (d + 1) log(n) / 2 for a group of d columns.
        kept = state.active & problem.maskable & problem.groups.first
        paid = 0.5 * (chosen + xp.sum(kept, dtype=bound.dtype)) * problem.log_samples
        value = bound + paid - price_of_groups(rule, problem, state)
    else:
        extra = charge_at(rule, problem, state) - problem.log_samples
        value = bound - chosen * extra - rule.by_size[size]
    # An exact fit with more features than half the samples is uninformative.
    idle = exact_fit(problem, state) & (2 * size > problem.num_rows)
    return xp.where(xp.isfinite(value) & ~idle, value, -xp.inf)


def price_of_groups(rule: Criterion, problem: Problem, state: State) -> Float[Array, ""]:
    """The charge of the groups of columns that a state keeps, at inclusion 1."""
    xp, groups = namespace(state), problem.groups
    assert groups is not None
    kept = state.active & groups.first
    charges = rule.charges(width_at(rule, problem, state), groups.size)
    each = xp.sum(xp.where(kept & problem.maskable, charges, 0))
    size = xp.minimum(xp.sum(kept, dtype=xp.int32), len(rule.by_size) - 1)
    return each + rule.by_size[size]
