"""Figure 2: two features, the first irrelevant: which method prunes it, and the other's effect."""

from functools import partial

import jax
import numpy as np
import pandas as pd
from matplotlib.figure import Figure as Picture

import bmjax
from benchmarks.paper.figure import Claim, Figure, Table, yes
from bmjax import baselines, simulate
from bmjax._study.methods import batched
from bmjax._study.monte_carlo import monte_carlo

PRECISION = 200.0  # known, as in the paper
METHODS = {
    "BM": batched(
        partial(
            bmjax.fit_batch, solver=bmjax.EM(), noise_precision=PRECISION, initial_inclusion=0.5
        )
    ),
    "ARD": lambda X, y: baselines.ard(X, y, PRECISION),
    "Lasso": lambda X, y: baselines.lasso_cv(X, y, folds=2),
}


def measure(quick: bool) -> Table:
    """500 datasets of 2 x 20 samples, FAB-EM from inclusion 0.5."""
    key = jax.random.key(2)
    study = monte_carlo(simulate.two_features, METHODS, key, 100 if quick else 500)
    return pd.concat(
        pd.DataFrame(
            {
                "method": name,
                "coef 2": found.coef[:, 1],
                "pruned 1": ~found.support[:, 0],
                "pruned 2": ~found.support[:, 1],
            }
        )
        for name, found in study.outcomes.items()
    )


def wilson(successes: int, trials: int, z: float = 1.96) -> tuple[float, float]:
    """The Wilson interval of a frequency, 95 % by default."""
    p = successes / trials
    centre = (p + z**2 / (2 * trials)) / (1 + z**2 / trials)
    half = z / (1 + z**2 / trials) * np.sqrt(p * (1 - p) / trials + z**2 / (4 * trials**2))
    return float(centre - half), float(centre + half)


def claims(table: Table) -> list[Claim]:
    """Sparsity and shrinkage of each method."""
    frequency, interval, median, low, high = {}, {}, {}, {}, {}
    for name, rows in table.groupby("method"):
        frequency[name] = rows["pruned 1"].mean()
        interval[name] = wilson(int(rows["pruned 1"].sum()), len(rows))
        when_pruned = rows.loc[rows["pruned 1"], "coef 2"]
        median[name], low[name], high[name] = when_pruned.quantile([0.5, 0.25, 0.75])
    listed = "; ".join(
        f"{name} {frequency[name]:.3f} ({interval[name][0]:.3f} to {interval[name][1]:.3f})"
        for name in METHODS
    )
    return [
        Claim(
            "BM prunes the irrelevant feature most often, then ARD, then Lasso",
            listed,
            yes(frequency["BM"] > frequency["ARD"] > frequency["Lasso"]),
        ),
        Claim(
            "error bars (95 %) of BM and Lasso are apart",
            f"BM from {interval['BM'][0]:.3f}, Lasso up to {interval['Lasso'][1]:.3f}",
            yes(interval["BM"][0] > interval["Lasso"][1]),
        ),
        Claim(
            "the relevant feature was not pruned in any of the methods",
            f"{int(table['pruned 2'].sum())} times in {len(table)} fits",
            yes(not table["pruned 2"].any()),
        ),
        Claim(
            "BM and ARD show no visible shrinkage",
            f"median effect {median['BM']:.4f} and {median['ARD']:.4f} where pruned, truth 1",
            yes(abs(median["BM"] - 1) < 0.005 and abs(median["ARD"] - 1) < 0.005),
        ),
        Claim(
            "Lasso displays shrinkage bias",
            f"median {median['Lasso']:.4f}, quartiles {low['Lasso']:.3f} to {high['Lasso']:.3f}",
            yes(median["Lasso"] < 0.995),
        ),
    ]


def draw(table: Table) -> Picture:
    """Draw box plots of the second effect, and the frequency of pruning the first."""
    figure = Picture(figsize=(8, 3.8), layout="constrained")
    boxes, bars = figure.subplots(1, 2)
    names = list(METHODS)
    rows = {name: table[table["method"] == name] for name in names}
    effects = [rows[name].loc[rows[name]["pruned 1"], "coef 2"] for name in names]
    boxes.boxplot(effects, tick_labels=names, medianprops=dict(color="black", linewidth=2))
    boxes.axhline(1, color="0.5", linestyle="--", zorder=0, label="truth")
    boxes.set_ylabel("estimate of the relevant effect\n(datasets with the other feature pruned)")
    boxes.legend(loc="lower left")
    frequency = np.array([rows[name]["pruned 1"].mean() for name in names])
    ends = np.array([wilson(int(rows[n]["pruned 1"].sum()), len(rows[n])) for n in names]).T
    reach = np.abs(ends - frequency)
    bars.bar(names, frequency, yerr=reach, capsize=6, color="0.8", edgecolor="black")
    bars.set_ylabel("irrelevant feature pruned, share of datasets\n(95 % Wilson interval)")
    bars.set_ylim(0, 1)
    for axes in (boxes, bars):
        axes.set_xlabel("method")
        axes.grid(axis="y", alpha=0.3)
        axes.set_axisbelow(True)
    return figure


FIGURE = Figure("Figure 2: two features, one of them irrelevant", measure, draw, claims)
