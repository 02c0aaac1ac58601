"""Moves of one group of columns (drop, addition, exchange), as in `moves` for one feature.

Several columns leave and several enter in one move, and those of a group have one mask.
"""

from typing import NamedTuple

from jaxtyping import Bool, Float, Int

from bmjax._model.bound import Masks, masking_cost
from bmjax._model.groups import NO_COLUMN
from bmjax._model.linalg import solve_normal_equations
from bmjax._model.problem import Problem, State
from bmjax._model.sums import MaskedSums, precision_of, variance_along, weights_and_rates
from bmjax._model.working_set import arranged
from bmjax._runtime.backend import Array, namespace, put, sigmoid, take
from bmjax._selection.criterion import Criterion, Effects, effects_of
from bmjax._selection.gram import Squares, residual_square, unit_scale
from bmjax._selection.group_slab import GroupMove, Layout, independent, ranked_move, squares_after
from bmjax._selection.moves import Surroundings, slab_of
from bmjax._selection.neighbours import Charges, most_features, noise_of


def best_group_move(
    problem: Problem,
    rule: Criterion,
    state: State,
    around: Surroundings,
    rate: Float[Array, ""],
    rank: Int[Array, ""] | int = 0,
) -> tuple[State, Int[Array, " m"], Float[Array, ""]]:
    """The state after the best single move of a group from a fitted state; as in `best_move`."""
    xp, groups = namespace(state), problem.groups
    assert groups is not None
    assert groups.members is not None
    assert around.blocks is not None
    scale = take(unit_scale(around.squares), groups.members)
    layout = Layout(groups.members, around.blocks * scale[:, :, None] * scale[:, None, :])
    masks = Masks(state.inclusion, sigmoid(-state.log_odds), around.entropy)
    # The masking cost of the bound for a group of d columns at inclusion 1 is d log(n)/2.
    paid = 0.5 * groups.size.astype(state.weights.dtype) * problem.log_samples
    cost = xp.where(problem.maskable, masking_cost(problem, state, masks) - paid, -xp.inf)
    at = xp.where(state.active & groups.first, groups.number, NO_COLUMN)
    nothing = xp.zeros(len(layout.sizes), cost.dtype)
    kept = Effects(*(put(nothing, at, term) for term in effects_of(problem, state)))
    slab = slab_of(problem, _independent(problem, state, around.sums), around)
    price = Charges(rule, kept, put(nothing, at, cost), noise_of(problem))
    most, after = most_features(problem.num_rows, problem.num_features), squares_after(slab, layout)
    move = ranked_move(slab, layout, after, price, most, rank)
    return *_after(problem, state, around, move, rate), move.rise


def _independent(problem: Problem, state: State, sums: MaskedSums) -> State:
    """The state without columns that are combinations of others; its residual is unchanged.

    A fit may keep whole groups with a column for every level of a category, but the inverse of
    their products would be rounding error.
    """
    xp = namespace(state)
    omega = sums.omega
    scale = unit_scale(xp.where(state.active, xp.diagonal(omega), 0))
    unit = omega * scale[:, None] * scale[None, :]
    needed_first = xp.argsort(problem.maskable, stable=True).astype(xp.int32)
    active = independent(unit, needed_first, scale > 0)
    weights = xp.where(state.active, state.weights, 0)
    return state._replace(
        active=active, weights=solve_normal_equations(omega, omega @ weights, active)
    )


class _Places(NamedTuple):
    """The slots of the columns of an added group.

    Attributes:
        features: The column in each slot after the move.
        out: Whether each slot is emptied.
        place: Whether each slot is filled.
        which: The position in the added group of the column that fills the slot.
    """

    features: Int[Array, " m"]
    out: Bool[Array, " m"]
    place: Bool[Array, " m"]
    which: Int[Array, " m"]


def _places(
    problem: Problem, state: State, features: Int[Array, " m"], move: GroupMove, k: int
) -> _Places:
    groups = problem.groups
    assert groups is not None
    assert groups.members is not None
    xp, nobody = namespace(state), len(groups.members)
    out = state.active & (groups.number == move.out)
    into = xp.where(move.into < nobody, take(groups.members, move.into), NO_COLUMN)
    if len(features) == k:
        here = features[:, None] == into[None, :]
        return _Places(features, out, xp.any(here, axis=1), xp.argmax(here, axis=1))
    free = ~state.active | out
    which = xp.cumsum(free, dtype=xp.int32) - 1
    column = take(into, which)
    place = free & (which < len(into)) & (column < NO_COLUMN)
    return _Places(xp.where(place, column, features), out, place, xp.where(place, which, 0))


def _after(
    problem: Problem, state: State, around: Surroundings, move: GroupMove, rate: Float[Array, ""]
) -> tuple[State, Int[Array, " m"]]:
    """The state after a move and the M step that follows, and its columns."""
    xp, k, sums, n = namespace(state), len(around.slope), around.sums, problem.num_samples
    features, out, place, which = _places(problem, state, around.features, move, k)
    # First the residual without the dropped group, then the sums with the added one.
    held = xp.where(state.active & ~out & ~place, around.anchor, 0)
    back = around.anchor - held
    added = xp.where(place, features, NO_COLUMN)
    products = xp.where(place[:, None], 0, take(around.with_all.T, added).T)
    slope = take(around.slope, added) + take(around.with_all.T, added) @ back
    assert around.blocks is not None
    own = take(around.blocks, move.into)[which][:, which]
    rows, columns = place[:, None], place[None, :]
    gram = xp.where(rows, rate * products.T, xp.where(columns, rate * products, sums.gram))
    after = MaskedSums(
        gram=xp.where(rows & columns, rate**2 * own, gram),
        variance=xp.where(
            rows & columns, rate * (1 - rate) * own, xp.where(rows | columns, 0, sums.variance)
        ),
        slope=xp.where(place, rate * slope, sums.slope + sums.gram @ back),
        square=sums.square + back @ (2 * sums.slope + sums.gram @ back),
        kept=xp.where(place, rate * n, sums.kept),
        left_out=xp.where(place, (1 - rate) * n, sums.left_out),
    )
    mask_mean = xp.where(rows, rate, xp.where(out[:, None], 0, state.mask_mean))
    before = state._replace(weights=held, mask_mean=mask_mean)
    moved = weights_and_rates(problem, before, after, (state.active & ~out) | place)
    square = residual_square(Squares(after.gram, held, after.slope, after.square, n), moved.weights)
    variance = (square + variance_along(moved.weights, after.variance)) / n
    moved = moved._replace(noise_precision=precision_of(problem, variance))
    return arranged(moved, features, k)
