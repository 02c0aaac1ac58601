"""Moves of one feature (drop, addition, exchange): the rise of the score, and the state after it.

The masks of the other features are held fixed, so sums over samples from one pass determine both
the best move and the M step after it.
"""

from typing import NamedTuple

from jaxtyping import Float, Int

from bmjax._model.bound import Masks, masking_cost
from bmjax._model.entropy import entropy
from bmjax._model.problem import Problem, State, Totals
from bmjax._model.sums import (
    MaskedSums,
    masked_sums,
    of_columns,
    precision_of,
    variance_along,
    weights_and_rates,
)
from bmjax._model.sweep import residual
from bmjax._model.working_set import arranged, gathered, summed
from bmjax._runtime.backend import Array, namespace, sigmoid, take
from bmjax._selection.criterion import Criterion, effects_of
from bmjax._selection.gram import Rows, Squares, residual_square, unit_scale
from bmjax._selection.group_slab import blocks_of
from bmjax._selection.neighbours import Charges, most_features, noise_of, ranked_move
from bmjax._selection.slab import Move, Slab, slab_at


class Surroundings(NamedTuple):
    """Sums over samples at the end of a fit, which determine the moves from it.

    Attributes:
        features: The feature in each slot, k in empty slots.
        anchor: The weights whose residual the sums use.
        sums: The sums of the masked features, by slot.
        with_all: The products of the masked features with all features, unmasked.
        slope: X'residual of all features, unmasked.
        squares: Sum of squares of each feature.
        entropy: Sum of the entropies of the masks, by slot.
        blocks: The products of the columns of each group, None without groups.
    """

    features: Int[Array, " m"]
    anchor: Float[Array, " m"]
    sums: MaskedSums
    with_all: Float[Array, "m k"]
    slope: Float[Array, " k"]
    squares: Float[Array, " k"]
    entropy: Float[Array, " m"]
    blocks: Float[Array, "g d d"] | None = None


def surroundings(problem: Problem, state: State, features: Int[Array, " m"]) -> Surroundings:
    """The sums at a state of a dataset in memory.

    Args:
        problem: The dataset.
        state: A state that is a fixed point of the M step.
        features: The features of the state, by slot.
    """
    part = gathered(problem, features)

    def of_samples(problem: Problem, part: Problem, state: State) -> Surroundings:
        left = residual(part, state)
        sums, masked = masked_sums(part, state, left)
        return Surroundings(
            features=namespace(state).zeros_like(features),
            anchor=namespace(state).zeros_like(state.weights),
            sums=sums,
            with_all=part.weighted(masked) @ problem.X.T,
            slope=problem.X @ problem.weighted(left),
            squares=problem.squares,
            entropy=part.total(entropy(state.mask_mean)),
            blocks=_blocks(problem),
        )

    total: Surroundings = summed(of_samples, problem, part, state)
    return total._replace(anchor=state.weights, features=features)


def _blocks(problem: Problem) -> Float[Array, "g d d"] | None:
    """The products of the columns of each group, None without groups."""
    if problem.groups is None or problem.groups.members is None:
        return None
    one = namespace(problem).ones(len(problem.X), problem.dtype)
    rows = Rows(problem.X, problem.y, problem.sample_weights, one)
    return blocks_of(rows, problem.groups.members)


def best_move(
    problem: Problem | Totals,
    rule: Criterion,
    state: State,
    around: Surroundings,
    rate: Float[Array, ""],
    rank: Int[Array, ""] | int = 0,
) -> tuple[State, Int[Array, " m"], Float[Array, ""]]:
    """The state after the best single move from a fitted state, and the rise of the score.

    A feature is dropped, added, or exchanged for another. The masks of the other features are held
    fixed, and weights and noise are re-estimated, so at a rate of 1 the rise is exact except for
    the further gain when the masks adapt.

    Args:
        problem: The dataset, its features by slot.
        rule: The charge of each feature.
        state: A state that is a fixed point of the M step.
        around: The sums at the state, and its features.
        rate: Mask means and inclusion rate of an added feature.
        rank: 0 for the best move, 1 for the second best and so on.

    Returns:
        The state after the move, with new weights and noise, its features, and the score's rise.
    """
    xp, kept = namespace(state), state.active
    slab = slab_of(problem, state, around)
    masks = Masks(state.inclusion, sigmoid(-state.log_odds), around.entropy)
    # The masking cost of the bound at inclusion 1 is log(n)/2, which the rule charges itself.
    cost = masking_cost(problem, state, masks) - 0.5 * problem.log_samples
    cost = xp.where(problem.maskable, xp.where(kept, cost, 0), -xp.inf)
    price = Charges(rule, effects_of(problem, state), cost, noise_of(problem))
    most = most_features(problem.num_rows, problem.num_features)
    move = ranked_move(slab, price, most, rank)
    return *_after(problem, state, around, move, rate), move.rise


def slab_of(problem: Problem | Totals, state: State, around: Surroundings) -> Slab:
    """The slab of a fitted state: its masked columns and their products with unmasked columns."""
    xp, k, sums = namespace(state), len(around.slope), around.sums
    kept, away = state.active, state.weights - around.anchor
    variance = sums.variance
    both = kept if variance.ndim == 1 else kept[:, None] & kept[None, :]
    variance = xp.where(both, variance, 0)
    at = Squares(sums.gram, around.anchor, sums.slope, sums.square, problem.num_samples)
    return slab_at(
        omega=sums.gram + of_columns(variance),
        gram=xp.where(kept[:, None], around.with_all, 0),
        features=xp.where(kept, around.features, k),
        weights=state.weights,
        slope=around.slope - away @ around.with_all,
        square=residual_square(at, state.weights) + variance_along(state.weights, variance),
        scale=unit_scale(around.squares),
    )


def _after(
    problem: Problem | Totals,
    state: State,
    around: Surroundings,
    move: Move,
    rate: Float[Array, ""],
) -> tuple[State, Int[Array, " m"]]:
    """The state after a move and the M step that follows, and its features."""
    xp, k, sums, n = namespace(state), len(around.slope), around.sums, problem.num_samples
    features = around.features
    slots = xp.arange(len(features), dtype=xp.int32)
    out, adds = slots == move.slot, move.feature < k
    if len(features) == k:
        place = slots == move.feature
    else:
        spare = slots == xp.argmin(state.active).astype(xp.int32)
        place = xp.where(xp.any(out), out, spare) & adds
        features = xp.where(place, move.feature, features)
    # First the residual without the dropped feature, then the sums with the added one.
    held = xp.where(state.active & ~out & ~place, around.anchor, 0)
    back = around.anchor - held
    products = xp.where(place, 0, take(around.with_all.T, move.feature))
    size = take(around.squares, move.feature)
    slope = take(around.slope, move.feature) + back @ take(around.with_all.T, move.feature)
    gram = xp.where(place[:, None], rate * products[None, :], sums.gram)
    gram = xp.where(place[None, :], rate * products[:, None], gram)
    after = MaskedSums(
        gram=xp.where(place[:, None] & place[None, :], rate**2 * size, gram),
        variance=xp.where(place, rate * (1 - rate) * size, sums.variance),
        slope=xp.where(place, rate * slope, sums.slope + sums.gram @ back),
        square=sums.square + back @ (2 * sums.slope + sums.gram @ back),
        kept=xp.where(place, rate * n, sums.kept),
        left_out=xp.where(place, (1 - rate) * n, sums.left_out),
    )
    mask_mean = xp.where(place[:, None], rate, xp.where(out[:, None], 0, state.mask_mean))
    before = state._replace(weights=held, mask_mean=mask_mean)
    moved = weights_and_rates(problem, before, after, (state.active & ~out) | place)
    square = residual_square(Squares(after.gram, held, after.slope, after.square, n), moved.weights)
    variance = (square + moved.weights**2 @ after.variance) / n
    moved = moved._replace(noise_precision=precision_of(problem, variance))
    return arranged(moved, features, k)
