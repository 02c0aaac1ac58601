"""Figure 3: how the irrelevant one of two features is removed, by EM and by gradient steps.

Starts lie on the paper's diagonal of (weight, inclusion) of the irrelevant feature, with the other
feature at its true values. A run is done when the inclusion is below 1e-3.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
from jax import lax
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Picture

import bmjax
from benchmarks.paper.figure import Claim, Figure, Table, yes
from bmjax import simulate
from bmjax._model.gradient_rule import Parameters, paper_optimizer

PRECISION = 200.0
DONE = 1e-3
NEAR = 0.05  # a weight this small is near the singular line
SLOWED = 50  # steps there that count as being slowed
MOST = 5000
RATES = {"EM": None, "EG plain": 2e-4, "EG": 2e-6}  # the paper's
NAMES = {"EM": "FAB-EM", "EG plain": "FAB-EG, plain gradient", "EG": "FAB-EG, reparametrised"}
STARTS = np.stack([0.1 + 0.04 * np.arange(10), 0.95 - 0.04 * np.arange(10)], axis=1)

Walk = tuple[bmjax.State, Any]


def problem() -> bmjax.Problem:
    """A problem of 100 samples with known noise precision; nothing is pruned before the end."""
    data = jax.jit(partial(simulate.two_features, pairs=50))(jax.random.key(3))
    return bmjax.Problem(data.X.T, data.y, jnp.asarray(PRECISION), jnp.asarray(0.0))


def begin(data: bmjax.Problem, start: jax.Array) -> bmjax.State:
    """The state at (weight, inclusion) of the first feature, the second at the truth."""
    weight, inclusion = start
    rates = jnp.stack([inclusion, jnp.ones_like(inclusion)])
    return bmjax.initialise(data, rates, jnp.stack([weight, jnp.ones_like(weight)]))


def stepper(
    data: bmjax.Problem, algorithm: str, rate: jax.Array | float | None
) -> tuple[Callable[[bmjax.State], Any], Callable[[Walk], Walk]]:
    """How an algorithm begins and steps: E step, then M or G step at a constant rate."""
    if algorithm == "EM":
        return lambda state: (), lambda walk: (bmjax.m_step(data, bmjax.e_step(data, walk[0])), ())
    assert rate is not None
    chain = paper_optimizer(lambda count: rate, reparametrize=algorithm == "EG", cap=None)

    def init(state: bmjax.State) -> Any:
        return chain.init(Parameters(state.weights, state.inclusion))

    def step(walk: Walk) -> Walk:
        return bmjax.g_step(data, bmjax.e_step(data, walk[0]), chain, walk[1])

    return init, step


def trajectory(data: bmjax.Problem, algorithm: str, start: jax.Array, steps: int) -> jax.Array:
    """(steps + 1, 2) weight and inclusion of the first feature, the start included."""
    init, step = stepper(data, algorithm, RATES[algorithm])
    state = begin(data, start)

    def advance(walk: Walk, _: None) -> tuple[Walk, jax.Array]:
        walk = step(walk)
        return walk, jnp.stack([walk[0].weights[0], walk[0].inclusion[0]])

    _, course = lax.scan(advance, (state, init(state)), length=steps)
    return jnp.concatenate([start[None], course])


def steps_needed(
    data: bmjax.Problem, algorithm: str, start: jax.Array, rate: jax.Array
) -> jax.Array:
    """Steps until the inclusion is below `DONE`; `MOST` where it does not get there."""
    init, step = stepper(data, algorithm, rate)
    state = begin(data, start)

    def going(carry: tuple[Walk, jax.Array]) -> jax.Array:
        (state, _), count = carry
        return (state.inclusion[0] >= DONE) & (count < MOST) & state.finite

    (state, _), count = lax.while_loop(
        going, lambda carry: (step(carry[0]), carry[1] + 1), ((state, init(state)), jnp.int32(0))
    )
    return jnp.where(state.inclusion[0] < DONE, count, MOST)


def measure(quick: bool) -> Table:
    """The trajectories, and the steps needed on two grids: starts x rates, weights x inclusions."""
    data = problem()
    walked = [_walked(data, algorithm) for algorithm in RATES]
    side = 7 if quick else 20
    # Starts on the diagonal and beyond both its ends.
    weights = np.geomspace(0.02, 0.8, side)
    diagonal = np.stack([weights, np.clip(1.05 - weights, 0.05, 0.99)], axis=1)
    rates = RATES["EG"] * np.geomspace(0.1, 1000, 9 if quick else 25)
    by_rate = _grid(data, diagonal, rates).assign(panel="starts and rates")
    square = np.stack(np.meshgrid(weights, np.linspace(0.05, 0.99, side)), axis=-1).reshape(-1, 2)
    by_start = _grid(data, square, np.array([RATES["EG"]])).assign(panel="starts")
    return pd.concat([*walked, by_rate, by_start])


def _walked(data: bmjax.Problem, algorithm: str) -> Table:
    walk = jax.jit(jax.vmap(lambda start: trajectory(data, algorithm, start, 1000)))
    rows = []
    for number, course in enumerate(np.asarray(walk(jnp.asarray(STARTS)))):
        done = course[:, 1] < DONE
        steps = int(np.argmax(done)) if done.any() else len(course) - 1
        near = np.abs(course[:steps, 0]) < NEAR
        # Every step while it moves fast, every tenth step later, and the last one.
        kept = [i for i in range(steps + 1) if i <= 20 or i % 10 == 0 or i == steps]
        part = pd.DataFrame(course[kept], columns=["weight", "inclusion"])
        rows.append(
            part.assign(
                panel="trajectory",
                algorithm=algorithm,
                start=number,
                step=kept,
                steps=steps,
                reached=bool(done.any()),
                near=int(near.sum()),
                closest=np.abs(course[: steps + 1, 0]).min(),
            )
        )
    return pd.concat(rows)


def _grid(data: bmjax.Problem, starts: np.ndarray, rates: np.ndarray) -> Table:
    def over(algorithm: str, rates: np.ndarray) -> np.ndarray:
        needed = jax.vmap(partial(steps_needed, data, algorithm), in_axes=(0, None))
        many = jax.jit(jax.vmap(needed, in_axes=(None, 0)))
        return np.asarray(many(jnp.asarray(starts), jnp.asarray(rates)))

    by_em = over("EM", np.ones(1))[0]
    return pd.concat(
        pd.DataFrame(starts, columns=["weight", "inclusion"]).assign(
            rate=rate, steps=by_eg, em_steps=by_em
        )
        for rate, by_eg in zip(rates, over("EG", rates), strict=True)
    )


def claims(table: Table) -> list[Claim]:
    """Steps from each of the ten starts, and the methods that are slowed near weight zero."""
    walked = table[table["panel"] == "trajectory"]
    by = walked.groupby(["algorithm", "start"]).first()
    steps = {name: by.loc[name, "steps"].to_numpy() for name in RATES}
    slowed = {name: int((by.loc[name, "near"] >= SLOWED).sum()) for name in RATES}
    longest = {name: int(by.loc[name, "near"].max()) for name in RATES}
    reached = {name: int(by.loc[name, "reached"].sum()) for name in RATES}

    def listed(name: str) -> str:
        return f"steps {', '.join(f'{count:.0f}' for count in steps[name])}"

    fewer = int((steps["EG"] < steps["EM"]).sum())
    plain = int((steps["EG"] < steps["EG plain"]).sum())
    starts = table[table["panel"] == "starts"]
    rates = table[table["panel"] == "starts and rates"]
    share = (starts["steps"] < starts["em_steps"]).mean()
    faster = rates.assign(faster=rates["steps"] < rates["em_steps"]).groupby("rate")["faster"]
    everywhere = faster.mean()
    best = everywhere.idxmax()
    return [
        Claim(
            "FAB-EM: trapped around weight 0",
            f"{slowed['EM']} of 10 starts spend {SLOWED} steps or more at |weight| < {NEAR:g}, "
            f"those of smallest weight; {listed('EM')}",
            yes(slowed["EM"] == 10) if slowed["EM"] in (0, 10) else f"{slowed['EM']} of 10 starts",
        ),
        Claim(
            "FAB-EG without reparametrisation: trapping mitigated but it still occurs",
            f"{slowed['EG plain']} of 10 slowed so, {reached['EG plain']} done within 1000 steps; "
            f"longest stay there {longest['EG plain']} steps, EM's {longest['EM']}; "
            f"{listed('EG plain')}",
            f"occurs: {yes(slowed['EG plain'] > 0)}; mitigated in starts: "
            f"{yes(slowed['EG plain'] < slowed['EM'])}, in the longest stay: "
            f"{yes(longest['EG plain'] < longest['EM'])}",
        ),
        Claim(
            "FAB-EG with it approaches inclusion 0 from all ten starts",
            f"{reached['EG']} of 10; {listed('EG')}",
            yes(reached["EG"] == 10),
        ),
        Claim(
            "... and is not trapped near weight 0",
            f"{slowed['EG']} of 10 slowed; smallest |weight| on the way "
            f"{by.loc['EG', 'closest'].min():.3f}",
            yes(slowed["EG"] == 0),
        ),
        Claim(
            "... with fewer iterations regardless of the start",
            f"fewer than plain EG from {plain} of 10 starts, than EM from {fewer} of 10: EM is "
            "slow only from small weights. Over the plane of starts at the paper's rate, fewer "
            f"than EM from {100 * share:.0f} % of them. Along the diagonal the rate that beats "
            f"EM most often, {best:.1e}, does so from {100 * everywhere[best]:.0f} %",
            yes(fewer == 10) if fewer in (0, 10) else f"from {fewer} of 10 starts",
        ),
    ]


def draw(table: Table) -> Picture:
    """Draw the paper's three panels above, and steps by start and the two grids below."""
    figure = Picture(figsize=(13, 8), layout="constrained")
    upper, lower = figure.subplots(2, 3)
    walked = table[table["panel"] == "trajectory"]
    for axes, algorithm in zip(upper, RATES, strict=True):
        _plane(axes, walked[walked["algorithm"] == algorithm])
        axes.set_title(NAMES[algorithm])
    _steps(lower[0], walked)
    rates = table[table["panel"] == "starts and rates"].astype({"rate": float})
    _ratio(figure, lower[1], rates, "rate", "learning rate")
    lower[1].set_yscale("log")
    lower[1].axhline(RATES["EG"], color="black", linestyle=":", linewidth=1)
    lower[1].set_title("diagonal starts; dotted: the paper's rate", fontsize="medium")
    _ratio(figure, lower[2], table[table["panel"] == "starts"], "inclusion", "initial inclusion")
    lower[2].plot(*STARTS.T, ".", color="black", markersize=4)
    lower[2].set_title("the paper's rate; dots: its starts", fontsize="medium")
    return figure


def _plane(axes: Axes, walked: Table) -> None:
    for _, path in walked.groupby("start"):
        axes.plot(path["weight"], path["inclusion"], "-", color="0.35", linewidth=1)
        axes.plot(path["weight"], path["inclusion"], ".", color="black", markersize=2.5)
        axes.plot(path["weight"].iloc[0], path["inclusion"].iloc[0], "o", mfc="white", mec="black")
    axes.axvline(0, color="0.7", linewidth=1)
    axes.set_xlim(-0.17, 0.55)
    axes.set_ylim(-0.02, 1)
    axes.set_xlabel("weight of the irrelevant feature")
    axes.set_ylabel("its inclusion")


def _steps(axes: Axes, walked: Table) -> None:
    looks = {"EM": "o-", "EG plain": "^:", "EG": "s--"}
    for algorithm, rows in walked.groupby("algorithm", sort=False):
        by = rows.groupby("start").first()
        axes.semilogy(
            STARTS[by.index.astype(int), 0],
            by["steps"],
            looks[str(algorithm)],
            color="black",
            markerfacecolor="white",
            label=NAMES[str(algorithm)],
        )
    axes.set_xlabel("initial weight, along the paper's starts")
    axes.set_ylabel(f"steps until inclusion < {DONE:g}")
    axes.set_title("steps by start")
    axes.grid(alpha=0.3)
    axes.set_ylim(bottom=3)
    axes.set_yticks([5, 20, 50, 100, 200, 500], ["5", "20", "50", "100", "200", "500"])
    axes.minorticks_off()
    axes.legend(loc="lower left", fontsize="small")


def _ratio(figure: Picture, axes: Axes, rows: Table, along: str, label: str) -> None:
    """Steps of EG over steps of EM, equal on the black line; crosses where EG does not arrive."""
    wide = rows.assign(ratio=rows["steps"] / rows["em_steps"])
    wide = wide.pivot_table(index=along, columns="weight", values="ratio")
    logs = np.log10(wide)
    colours = axes.pcolormesh(
        wide.columns, wide.index, logs, cmap="gray", vmin=-2, vmax=2, shading="nearest"
    )
    axes.contour(wide.columns, wide.index, logs, levels=[0], colors="black", linewidths=2)
    lost = rows[rows["steps"] >= MOST]
    axes.plot(lost["weight"], lost[along], "x", color="black", markersize=4)
    axes.set_xscale("log")
    axes.set_xticks([0.02, 0.05, 0.1, 0.2, 0.5], ["0.02", "0.05", "0.1", "0.2", "0.5"])
    axes.minorticks_off()
    axes.set_xlabel("initial weight")
    axes.set_ylabel(label)
    bar = figure.colorbar(colours, ax=axes, ticks=[-2, -1, 0, 1, 2])
    bar.ax.set_yticklabels(["0.01", "0.1", "1", "10", "100"])
    bar.set_label("steps of EG / steps of EM")


FIGURE = Figure("Figure 3: trajectories of EM and EG", measure, draw, claims)
