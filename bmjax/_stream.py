"""`fit_stream`: a dataset too large for memory, fitted from the sums that passes over it leave.

The M step, the extrapolation, the verdict and the moves to a better optimum are those of `fit`.
They run here on the host, since they see only k and k x k numbers.
"""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Bool, Float, Int

from bmjax import _lane, _stopping, _validate
from bmjax._accelerated import Accelerated, AcceleratedCarry, Candidate
from bmjax._blocks import Blocks
from bmjax._bound import Masks, bound_of, bound_slack
from bmjax._criterion import Criterion, criterion
from bmjax._frame import DUST, leave
from bmjax._initial import Point, best_subset, points_on, precision_of, state_of
from bmjax._optimum import (
    ADDED_RATES,
    LEAST_RISE,
    SPARSE_RATES,
    WORTH_A_TRY,
    Plan,
    blank_starts,
    choose_move,
    recorded,
    report,
    score_of,
)
from bmjax._options import checked
from bmjax._passes import MaskedSums, Passes
from bmjax._result import Result, Uncertainty
from bmjax._squares import Squares, residual_square, unit_scale
from bmjax._steps import (
    log_odds_of,
    solve_normal_equations,
    survivors,
)
from bmjax._subset import slab_at
from bmjax._types import State, Status, Totals
from bmjax._uncertainty import uncertainty_of


class _Step(NamedTuple):
    """An EM iteration.

    Attributes:
        state: The state after it.
        bound: Its bound.
        masks: What the bound needs to know of the masks.
    """

    state: State
    bound: Float[Array, ""]
    masks: Masks


@jax.jit
def _m_step(totals: Totals, before: State, sums: MaskedSums, active: Bool[Array, " k"]) -> _Step:
    """The M step over some features, at the masks that a pass has found with a state's parameters.

    The sums are around the weights before, which are close: no square cancels.
    """
    n, old = totals.num_samples, before.weights
    omega = sums.gram + jnp.diag(sums.variance)
    held = jnp.where(active, old, 0)
    target = sums.slope + sums.gram @ (old - held) - sums.variance * held
    weights = jnp.where(active, held + solve_normal_equations(omega, target, active), 0)
    around = Squares(sums.gram, old, sums.slope, sums.square, n)
    sum_squares = residual_square(around, weights) + weights**2 @ sums.variance
    masks = Masks(sums.kept / n, sums.left_out / n, sums.entropy)
    log_odds = jnp.where(active, log_odds_of(masks.kept, masks.left_out), -jnp.inf)
    precision = totals.noise_precision
    if precision is None:
        precision = 1 / jnp.maximum(sum_squares / n, totals.noise_floor)
    state = before._replace(
        weights=weights, log_odds=log_odds, noise_precision=precision, active=active
    )
    return _Step(state, bound_of(totals, state, sum_squares, masks), masks)


@jax.jit
def _survivors(totals: Totals, state: State, sums: MaskedSums) -> Bool[Array, " k"]:
    return survivors(totals, state, sums.kept / totals.num_samples)


@partial(jax.jit, static_argnames="solver")
def _beyond(solver: Accelerated, carry: AcceleratedCarry, first: State, second: State) -> State:
    return solver.beyond(carry, first, second)


class _Lane(NamedTuple):
    """A fit on its way.

    Attributes:
        carry: What the solver carries.
        monitor: What the stopping rule remembers.
        num_steps: Cycles made.
        status: The verdict so far.
    """

    carry: AcceleratedCarry
    monitor: _stopping.Monitor
    num_steps: Int[Array, ""]
    status: Int[Array, ""]


@partial(jax.jit, static_argnames="solver")
def _advance(
    solver: Accelerated,
    totals: Totals,
    tolerance: Float[Array, ""],
    most_steps: Int[Array, ""],
    lane: _Lane,
    cycle: tuple[_Step, _Step, _Step],
) -> _Lane:
    """The lane after a cycle of three EM iterations."""
    first, second, third = cycle
    before = lane.carry
    carry = solver.judge(
        totals,
        before,
        first.state,
        Candidate(second.state, before.residual, lambda: second.bound),
        Candidate(third.state, before.residual, lambda: third.bound),
    )
    num_steps = lane.num_steps + 1
    monitor, converged = _stopping.observe(
        totals, lane.monitor, before.state, carry.state, num_steps, tolerance
    )
    converged &= solver.settled(totals, carry, tolerance) | ~jnp.any(carry.state.active)
    status = _lane.verdict(carry.state, converged, solver.stalled(carry), num_steps >= most_steps)
    return _Lane(carry, monitor, num_steps, status)


class _End(NamedTuple):
    """A finished fit.

    Attributes:
        outcome: What came of it.
        sums: Over the samples there, around `anchor`.
        anchor: The weights that the masks were found with.
        masks: What the bound needs to know of the masks.
    """

    outcome: _lane.Outcome
    sums: MaskedSums
    anchor: Float[Array, " k"]
    masks: Masks


def _one_fit(
    passes: Passes,
    totals: Totals,
    options: _lane.Options,
    solver: Accelerated,
    state: State,
    allowed: int,
) -> _End:
    """From a start to the end next to it, in so many iterations at most.

    One more pass finds the sums there, for the moves.
    """

    def em(state: State) -> _Step:
        sums = passes.masked(state)
        return _m_step(totals, state, sums, _survivors(totals, state, sums))

    most_steps = jnp.asarray(allowed // solver.iterations, jnp.int32)
    lane = _begun(solver, passes, totals, state, most_steps)
    while lane.status == Status.RUNNING:
        first = em(lane.carry.state)
        second = em(first.state)
        third = em(_beyond(solver, lane.carry, first.state, second.state))
        lane = _advance(
            solver,
            totals,
            options.tolerance,
            most_steps,
            lane,
            (first, second, third),
        )
    state, used = lane.carry.state, lane.num_steps * solver.iterations
    while True:  # each time round prunes a feature
        sums = passes.masked(state)
        active = _survivors(totals, state, sums)
        if bool((active == state.active).all()):
            break
        state = state._replace(active=active, weights=jnp.where(active, state.weights, 0))
    end = _m_step(totals, state, sums, active)
    outcome = _lane.ended(totals, end.state, end.bound, used, lane.status)
    return _End(outcome, sums, state.weights, end.masks)


def _begun(
    solver: Accelerated, passes: Passes, totals: Totals, state: State, most_steps: Int[Array, ""]
) -> _Lane:
    """A fit before its first cycle."""
    carry = solver.carry_at(state, jnp.zeros(0))
    sizes = jnp.sqrt(jnp.append(totals.mean_squares, totals.target_square))
    largest = jnp.asarray(passes.largest)
    nothing, no = ~jnp.any(state.active), jnp.asarray(False)
    status = _lane.verdict(state, nothing, no, most_steps < 1)
    status = jnp.where(_lane.squares_lost(sizes, largest), Status.NON_FINITE, status)
    monitor = _stopping.start(totals, state)
    return _Lane(carry, monitor, jnp.zeros((), jnp.int32), status.astype(jnp.int32))


@partial(jax.jit, static_argnames="rule_name")
def _moved(
    rule_name: str, totals: Totals, end: _End, rate: Float[Array, ""], rank: Int[Array, ""]
) -> tuple[State, Float[Array, ""]]:
    """The state after a move from a finished fit, and by how much the score rises."""
    rule, state = criterion(rule_name, totals), end.outcome.state
    sums, n, k = end.sums, totals.num_samples, len(totals.mean_squares)
    active, whole = state.active, jnp.diagonal(sums.gram)
    variance = jnp.where(active, sums.variance, 0)
    features = jnp.arange(k, dtype=jnp.int32)
    # The sums are around the weights that the masks were found with.
    away = state.weights - end.anchor
    around = Squares(sums.gram, end.anchor, sums.slope, sums.square, n)
    slab = slab_at(
        omega=sums.gram + jnp.diag(variance),
        gram=jnp.where(active[:, None], sums.gram, 0),
        features=jnp.where(active, features, k),
        weights=state.weights,
        slope=sums.slope - sums.gram @ away,
        square=residual_square(around, state.weights) + state.weights**2 @ variance,
        scale=unit_scale(whole),
    )
    move = choose_move(totals, rule, state, slab, end.masks, rank)
    after = (active & (features != move.slot)) | (features == move.feature)
    new = after & ~active
    size = jnp.where(new, rate, 1)
    sums = sums._replace(
        gram=sums.gram * size[:, None] * size[None, :],
        variance=jnp.where(new, rate * (1 - rate) * whole, sums.variance),
        slope=sums.slope * size,
        kept=jnp.where(new, rate * n, sums.kept),
        left_out=jnp.where(new, (1 - rate) * n, sums.left_out),
    )
    before = state._replace(weights=end.anchor)
    return _m_step(totals, before, sums, after).state, move.rise


_recorded = jax.jit(recorded)


def _best(
    passes: Passes,
    options: _lane.Options,
    solver: Accelerated,
    plan: Plan,
    with_uncertainty: bool,
) -> Result:
    """The best of all starts and moves, in the units that the fit is made in."""
    k = len(passes.largest) - 1
    raw = passes.plain(jnp.zeros(k))
    totals = _totals(passes, options, raw)
    anchor = solve_normal_equations(raw.gram, raw.slope, jnp.ones(k, bool))
    sums = passes.plain(anchor)
    rule = criterion(plan.criterion, totals)
    can_explain = (totals.mean_squares > 0) & (totals.target_square > 0)
    starts = [
        state_of(point, can_explain, totals.maskable, 0)
        for point in _points(totals, options, plan, rule, sums)
    ]
    features, record = jnp.arange(k, dtype=jnp.int32), blank_starts(plan.fits, k, jnp.float64)
    best, highest, failures, used, max_steps = None, -np.inf, 0, 0, int(options.max_steps)
    number = 0
    while True:
        if number < plan.starts:
            state = starts[number]
        else:
            assert best is not None
            rank, rate = divmod(failures, len(ADDED_RATES))
            state, rise = _moved(
                plan.criterion, totals, best, jnp.asarray(ADDED_RATES[rate]), jnp.int32(rank)
            )
            record = record._replace(next_rise=rise)
            if not rise > WORTH_A_TRY or number == plan.fits:
                break
        # A search that was cut short says so, even if its best fit had converged.
        if best is not None and used + solver.iterations > max_steps:
            status = jnp.int32(Status.MAX_STEPS)
            best = best._replace(outcome=best.outcome._replace(status=status))
            break
        end = _one_fit(passes, totals, options, solver, state, max_steps - used)
        there = end.outcome
        used += int(there.num_steps)
        value = float(score_of(rule, totals, there))
        slack = float(bound_slack(totals, jnp.asarray(highest)))
        improved = best is None or value > highest + max(LEAST_RISE, slack)
        failures = 0 if improved or number < plan.starts else failures + 1
        if improved:
            best, highest = end, value
        chosen = jnp.int32(number) if improved else record.best
        record = _recorded(record, jnp.int32(number), there, features, jnp.asarray(value), chosen)
        number += 1
        if number == plan.starts and plan.moves == 0:
            break
    assert best is not None  # there is at least one start
    certain = _uncertainty(passes, totals, raw.gram, sums, best) if with_uncertainty else None
    return report(best.outcome, features, record, certain)


def _totals(passes: Passes, options: _lane.Options, raw: Squares) -> Totals:
    """What the dataset comes to as a whole."""
    n, k = raw.samples, len(raw.anchor)
    unmasked = jnp.zeros(k, bool)
    if options.unmasked is not None:
        unmasked = unmasked.at[: len(options.unmasked)].set(options.unmasked)
    if passes.intercept:
        unmasked = unmasked.at[-1].set(True)
    return Totals(
        num_samples=n,
        num_rows=jnp.asarray(passes.rows, jnp.int32),
        mean_squares=jnp.diagonal(raw.gram) / n,
        target_square=raw.square / n,
        maskable=~unmasked,
        noise_precision=options.noise_precision,
        prune_threshold=options.prune_threshold,
    )


def _points(
    totals: Totals, options: _lane.Options, plan: Plan, rule: Criterion, sums: Squares
) -> list[Point]:
    """Where the starts are, those from the best subset first, as for `fit`."""
    n, k = totals.num_samples, len(sums.anchor)
    points = []
    if plan.sparse:
        rates = jnp.asarray(SPARSE_RATES[: plan.sparse])
        support, weights = best_subset(totals, rule, sums)
        square = residual_square(sums, weights) / n
        both = points_on(totals, rates, support, weights, square)
        points = [jax.tree.map(lambda leaf, i=i: leaf[i], both) for i in range(plan.sparse)]
    for row in options.rates:
        rates = jnp.ones(k).at[: len(row)].set(row)
        rates = jnp.where(totals.maskable, rates, 1)
        weights = solve_normal_equations(sums.gram, sums.slope + sums.gram @ sums.anchor, rates > 0)
        square = residual_square(sums, weights) / n
        points.append(Point(rates, weights, precision_of(totals, square)))
    return points


def _uncertainty(
    passes: Passes, totals: Totals, gram: Float[Array, "k k"], sums: Squares, best: _End
) -> Uncertainty:
    state = best.outcome.state
    covariance = gram / totals.num_samples - jnp.outer(passes.mean, passes.mean)
    spread = jnp.sqrt(jnp.maximum(jnp.diagonal(covariance), 0))
    # What is left of a constant column is rounding.
    spread = jnp.where(
        spread > DUST * jnp.finfo(spread.dtype).eps * jnp.abs(passes.mean), spread, 0
    )
    unit = jnp.where(spread > 0, 1 / jnp.where(spread > 0, spread, 1), 0)
    return uncertainty_of(
        totals,
        state,
        jnp.arange(len(gram), dtype=jnp.int32),
        omega=best.sums.gram + jnp.diag(best.sums.variance),
        gram=gram,
        left=lambda: residual_square(sums, jnp.where(state.active, state.coef, 0)),
        correlation=jnp.clip(covariance * unit[:, None] * unit[None, :], -1, 1),
    )


def fit_stream(
    blocks: Any,
    *,
    intercept: bool = False,
    unmasked: ArrayLike | None = None,
    noise_precision: ArrayLike | None = None,
    initial_inclusion: ArrayLike | None = None,
    starts: ArrayLike | None = None,
    moves: int | None = None,
    criterion: str = "learned",
    prune_threshold: ArrayLike | None = None,
    tolerance: ArrayLike = 1e-3,
    max_steps: int = 20_000,
    uncertainty: bool = True,
    block_rows: int | None = None,
) -> Result:
    """Fit a dataset that does not fit into memory, as `fit` fits one that does.

    Rows are read block by block, once for every iteration, and nothing that grows with their
    number is kept. The optimum is the one that `fit` finds, unless the masks of a sample have more
    than one resting place: here they come from the inclusion rates each time, there from where
    they were. Always by the default solver, and in float64 whatever the type of the rows and JAX's
    setting: of sums over so many samples float32 has little left. On a CPU all cores work, a block
    each.

    Args:
        blocks: The rows. A tuple of arrays on disk, (X, y) or (X, y, sample_weights), such as
            `numpy.memmap` or HDF5 datasets, which are read in slices; or blocks of rows as such
            tuples: a list, any other iterable that can be read again and again, or a function
            that returns an iterator over them, the same rows each time. All of k features;
            blocks may differ in length. There have to be more rows than features.
        intercept: As for `fit`.
        unmasked: As for `fit`.
        noise_precision: As for `fit`.
        initial_inclusion: As for `fit`.
        starts: As for `fit`.
        moves: As for `fit`.
        criterion: As for `fit`.
        prune_threshold: As for `fit`.
        tolerance: As for `fit`.
        max_steps: Most iterations, over all starts and moves. Each is a pass over the rows; three
            more come before the first, and one after every fit.
        uncertainty: As for `fit`.
        block_rows: Rows worked on at a time, by each core. Default: 1 MiB of them, as float64.

    Returns:
        The fitted model, as from `fit`.

    Raises:
        TypeError: If an argument has the wrong type, or the blocks can be read only once.
        ValueError: If a block does not fit to the others or holds a value that is not finite (the
            message says which block), there are no more rows than features, or an option is out
            of range.
    """
    if block_rows is not None:
        block_rows = _validate.count("block_rows", block_rows, low=1)
    source = Blocks(blocks, block_rows)
    wanted = _validate.flag("uncertainty", uncertainty)
    with jax.enable_x64(True):
        options, solver, plan, frame = checked(
            source.k,
            jnp.dtype("float64"),
            intercept=intercept,
            unmasked=unmasked,
            standardize=False,
            solver=None,
            noise_precision=noise_precision,
            initial_weights=None,
            initial_inclusion=initial_inclusion,
            starts=starts,
            moves=moves,
            criterion=criterion,
            prune_threshold=prune_threshold,
            tolerance=tolerance,
            max_steps=max_steps,
        )
        passes = Passes(source, frame)
        assert isinstance(solver, Accelerated)
        result = _best(passes, options, solver, plan, wanted)
        result = leave(frame, passes.units, result)
        result = jax.tree.map(np.asarray, result)
    return jax.tree.map(jnp.asarray, result)  # in the type that the caller's JAX has
