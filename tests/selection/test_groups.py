"""The search for groups of columns and moves from a fit, against least squares and brute force."""

import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import bmjax
from bmjax._model.groups import groups_of
from bmjax._selection.criterion import criterion, score
from bmjax._selection.gram import anchored, unit_columns
from bmjax._selection.group_moves import best_group_move
from bmjax._selection.group_slab import Layout, blocks_of, squares_after, with_columns, without
from bmjax._selection.group_subset import best_groups
from bmjax._selection.moves import surroundings
from bmjax._selection.slab import refreshed
from bmjax._selection.subset import whole_slab
from tests.helpers import learned_charge
from tests.model.test_groups import grouped_state

LABELS = ["a", "b", None, "a", "c", "b", "c", "c", "b"]


def design(seed, n=40, labels=LABELS, dtype=np.float64, strong=("a",)):
    """Correlated columns; the last of group b is a combination of others."""
    rng = np.random.default_rng(seed)
    k = len(labels)
    X = rng.normal(size=(n, k)) + 0.7 * rng.normal(size=(n, 1))
    X[:, 8] = X[:, 1] - 2 * X[:, 0]
    y = X @ [label in strong for label in labels] + rng.normal(size=n)
    groups = groups_of(labels)
    assert groups is not None
    assert groups.members is not None
    problem = bmjax.Problem(
        X.T.astype(dtype).copy(), y.astype(dtype), None, np.asarray(1e-9, dtype), groups=groups
    )
    columns = [row[row < k] for row in groups.members]
    return problem, columns


def square_on(problem, columns):
    X, y = np.asarray(problem.X, float).T[:, columns], np.asarray(problem.y, float)
    return np.sum((y - X @ np.linalg.lstsq(X, y, rcond=1e-5)[0]) ** 2)


def together(columns, chosen):
    return np.concatenate([np.zeros(0, int), *(columns[g] for g in chosen)])


@pytest.mark.parametrize("kept", [(), (0,), (0, 1), (1, 2, 3)])
@pytest.mark.parametrize("where", ["host", "program"])
def test_moves_of_a_group_are_least_squares(kept, where, dtype):
    """Every drop, addition and exchange; group b leans on group a, and c has three columns."""
    problem, columns = design(0, dtype=dtype)
    members = problem.groups.members
    X, y = problem.X, problem.y
    if where == "program":
        X, y, members = map(jnp.asarray, (X, y, members))
    source = unit_columns(anchored(X, y))[0]
    slab = whole_slab(source, y[: len(X)] > np.inf)
    layout = Layout(members, blocks_of(source, members))
    step = jax.jit(with_columns) if where == "program" else with_columns
    after = jax.jit(squares_after) if where == "program" else squares_after
    slab = refreshed(source, slab)
    for group in kept:
        slab = step(source, slab, members[group], members[group] < 9)
    got, groups = after(slab, layout), range(len(columns))
    tolerance = {"rtol": 1e-9 if dtype == jnp.float64 else 2e-3}
    want = square_on(problem, together(columns, kept))
    np.testing.assert_allclose(slab.square, want, **tolerance)
    inside = np.asarray(slab.features)
    inside = inside[inside < 9]  # but for the column that is a combination of others
    for i, j in itertools.product(groups, groups):
        rest = inside[~np.isin(inside, columns[i])]
        if i in kept:
            np.testing.assert_allclose(got.drop[i], square_on(problem, rest), **tolerance)
        if j in kept:
            assert got.add[j] == got.swap[i, j] == np.inf
            continue
        want = square_on(problem, together(columns, [*kept, j]))
        np.testing.assert_allclose(got.add[j], want, **tolerance)
        if i in kept:
            want = square_on(problem, np.concatenate([rest, columns[j]]))
            np.testing.assert_allclose(got.swap[i, j], want, **tolerance)


@pytest.mark.parametrize("where", ["host", "program"])
@pytest.mark.parametrize("group", range(4))
def test_a_slab_without_a_group_is_the_slab_of_the_others(group, where):
    """Everything in it, also without a column that has no slot or a group that is not in."""
    problem, _ = design(2)
    members = problem.groups.members
    source = unit_columns(anchored(problem.X, problem.y))[0]
    kept = np.isin(np.arange(9), [0, 1, 3, 4, 5, 6])  # of b and c a column is missing
    slab = refreshed(source, whole_slab(source, kept))
    step = jax.jit(without) if where == "program" else without
    got = step(jax.tree.map(jnp.asarray, slab) if where == "program" else slab, members[group])
    want = refreshed(source, whole_slab(source, kept & ~np.isin(np.arange(9), members[group])))
    for name, value, right in zip(want._fields, got, want, strict=True):
        np.testing.assert_allclose(value, right, atol=1e-10, err_msg=name)


def score_by_hand(problem, columns, chosen):
    """The score of least squares on some groups, up to a constant: likelihood less charges."""
    X, y = np.asarray(problem.X, float).T, np.asarray(problem.y, float)
    n, own = len(y), together(columns, chosen)
    coef = np.zeros(X.shape[1])
    coef[own] = np.linalg.lstsq(X[:, own], y, rcond=None)[0]
    variance = np.mean((y - X @ coef) ** 2)
    sizes = np.asarray([len(columns[g]) for g in chosen])
    strengths = np.asarray([np.mean((X[:, columns[g]] @ coef[columns[g]]) ** 2) for g in chosen])
    count = len(columns)
    spent = learned_charge(n, strengths / variance, sizes) if chosen else 0
    share = max(1 - math.log(n) / (8 * math.log(count)), 0)
    most = min(len(chosen), count // 2)
    return -0.5 * n * math.log(variance) - spent - share * math.log(math.comb(count, most))


@pytest.mark.parametrize("chosen", [(), (0,), (1, 2), (0, 1, 3)])
def test_a_finished_fit_is_charged_group_by_group(chosen):
    """Of least squares on some groups, the score differs from that of none as by hand."""
    problem, columns = design(4, labels=["a", "b", "b", "c", "c", "c", "d", "e", "e"])
    rule, none = criterion("learned", problem), score_by_hand(problem, columns, ())
    got = []
    for own in ((), chosen):
        active = np.isin(np.arange(9), together(columns, own))
        masks = np.broadcast_to(active[:, None] * 1.0, problem.X.shape)
        still = bmjax.State(masks, active * 1.0, active * 1.0, np.float64(1), active)
        state = bmjax.m_step(problem, still)
        got.append(score(rule, problem, state, bmjax.lower_bound(problem, state)))
    want = score_by_hand(problem, columns, chosen) - none
    np.testing.assert_allclose(got[1] - got[0], want, rtol=1e-9)


@pytest.mark.parametrize("shape", ["tall", "wide"])
@pytest.mark.parametrize("seed", range(8))
def test_the_best_groups_are_those_of_brute_force(seed, shape):
    """The best of all subsets, whose columns are at most half of the rows where these are few.

    Of one dataset the best differs in three groups, so only those one move away are compared.
    """
    labels = [*LABELS, "d", "d", "e", "f", "f", "f"]
    n = 60 if shape == "tall" else 12
    problem, columns = design(seed, n, labels, strong=("a", "d") if shape == "tall" else ("a",))
    slots, tall = len(labels), shape == "tall"
    most = slots if tall else n // 2
    rule = criterion("learned", problem)
    support, weights, _ = best_groups(problem, rule, tall, slots)
    groups = range(len(columns))
    subsets = itertools.chain.from_iterable(
        itertools.combinations(groups, size) for size in range(len(columns) + 1)
    )
    scores = {
        chosen: score_by_hand(problem, columns, chosen)
        for chosen in subsets
        if len(together(columns, chosen)) <= most
    }
    found = tuple(g for g in groups if support[columns[g]].any())
    assert all(support[columns[g]].all() for g in found)
    if (shape, seed) == ("wide", 2):
        moved = [(set(chosen) - set(found), set(found) - set(chosen)) for chosen in scores]
        near = [len(added) <= 1 and len(dropped) <= 1 for added, dropped in moved]
        scores = {chosen: scores[chosen] for chosen, one in zip(scores, near, strict=True) if one}
    np.testing.assert_allclose(scores[found], max(scores.values()), atol=1e-9)
    left = np.sum((problem.y - weights @ problem.X) ** 2)
    np.testing.assert_allclose(left, square_on(problem, together(columns, found)), rtol=1e-8)


def test_a_search_without_room_says_so():
    labels = ["a"] * 3 + ["b"] * 3 + [None] * 3 + list(range(6))
    problem, _ = design(1, 12, labels, strong=("a",))
    rule = criterion("held", problem)
    assert best_groups(problem, rule, False, 4)[2]
    assert not best_groups(problem, rule, False, 15)[2]


def interior_state(seed, *, dependent):
    """A fit of two groups of four, masks inside (0, 1) or all one, and its problem."""
    labels = ["a", "b", "a", None, "b", "a", "c", "c"]
    problem, state = grouped_state(seed, n=30, labels=labels)
    active = np.asarray([label in ("a", "c") for label in labels])
    mask, log_odds = state.mask_mean, state.log_odds
    if dependent:  # a column of a kept group that is a combination of others of it
        problem = problem._replace(X=problem.X.at[5].set(problem.X[0] + problem.X[2]))
        mask, log_odds = jnp.ones_like(mask), jnp.full_like(log_odds, jnp.inf)
    mask = jnp.where(active[:, None], mask, 0)
    state = state._replace(active=jnp.asarray(active), mask_mean=mask, log_odds=log_odds)
    return problem, bmjax.m_step(problem, state)


@pytest.mark.parametrize(
    ("rule_name", "dependent"), [("held", False), ("paper", False), ("held", True)]
)
def test_the_best_move_of_a_fit_is_that_of_brute_force(rule_name, dependent):
    """Every move made by hand and scored in full, and in order of rank."""
    problem, state = interior_state(0, dependent=dependent)
    rule = criterion(rule_name, problem)
    here = score(rule, problem, state, bmjax.lower_bound(problem, state))
    members = np.asarray(problem.groups.members)
    rows = [np.isin(np.arange(8), own) for own in members]
    kept = [bool(state.active[own[0]]) for own in members]
    on = np.asarray(state.active)
    after = [on & ~row if there else on | row for row, there in zip(rows, kept, strict=True)]
    after += [
        (on & ~rows[i]) | rows[j]
        for i, j in itertools.product(range(4), range(4))
        if kept[i] and not kept[j]
    ]
    scored = jax.jit(lambda s: score(rule, problem, s, bmjax.lower_bound(problem, s)) - here)
    step = jax.jit(lambda s: bmjax.m_step(problem, s))
    rises = []
    for active in after:
        mask = np.where((active & ~on)[:, None], 1.0, state.mask_mean) * active[:, None]
        moved = state._replace(active=jnp.asarray(active), mask_mean=jnp.asarray(mask))
        rises.append(float(scored(step(moved))))
    around = surroundings(problem, state, jnp.arange(8, dtype=jnp.int32))
    move = jax.jit(lambda rate, rank: best_group_move(problem, rule, state, around, rate, rank))
    for rank, want in enumerate(sorted(rises, reverse=True)):
        moved, _, rise = move(jnp.asarray(1.0), rank)
        np.testing.assert_allclose(rise, want, atol=1e-9)
        np.testing.assert_allclose(scored(moved), want, atol=1e-9)
        # Also where an added group is masked at some rate: the state is that of an M step.
        moved, _, _ = move(jnp.asarray(0.5), rank)
        names = ["log_odds", "noise_precision"] + ["weights"] * (not dependent)  # or not unique
        for name in names:
            got, wanted = getattr(moved, name), getattr(step(moved), name)
            np.testing.assert_allclose(got, wanted, rtol=1e-8, atol=1e-12, err_msg=name)
