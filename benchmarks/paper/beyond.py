"""Beyond the paper: rivals and designs that it left out, and the influence of the start of BM."""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Picture

import bmjax
from benchmarks import estimators
from benchmarks.paper import figure5
from benchmarks.paper.figure import Claim, Figure, Table, style
from bmjax import baselines, simulate
from bmjax._study.methods import batched, on_host
from bmjax._study.monte_carlo import monte_carlo

DESIGNS: dict[str, tuple[Callable[[jax.Array], simulate.Dataset], int]] = {
    "paper, k = 10": (partial(simulate.uniform_design, k=10), 200),
    "paper, k = 30": (partial(simulate.uniform_design, k=30), 100),
    "paper, k = 50": (partial(simulate.uniform_design, k=50), 50),
    "sparse": (partial(simulate.sparse_design, k=30), 100),
    "AR(1)": (partial(simulate.ar1_design, k=30), 100),
    "blocks": (partial(simulate.block_design, k=30), 100),
    "heavy-tailed": (partial(simulate.heavy_tailed_design, k=30), 100),
    "wide": (partial(simulate.wide_design, k=60), 100),
}
QUICK = {name: (DESIGNS[name][0], 10) for name in ("paper, k = 10",)}
THRESHOLDS = (1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1e3, 3e3, 1e4, 1e5)
RATES = (0.02, 0.05, 0.1, 0.2, 0.5, 0.8, 0.95)
CURVE = "scikit-learn ARD, threshold "
HINDSIGHT = "ARD (threshold in hindsight)"  # a user could not choose it, so it is not a rival
CHAMPIONS = ("BM", "BM (default)")

BM = {
    "BM": batched(partial(bmjax.fit_batch, initial_inclusion=0.5)),
    "BM (default)": batched(bmjax.fit_batch),
}
SUBSET = {"best subset": baselines.best_subset_bic}
RIVALS = {
    **SUBSET,
    "abess": on_host(estimators.abess),
    "Lasso": lambda X, y: baselines.lasso_cv(X, y, folds=10),
    **{
        f"{CURVE}{threshold:g}": on_host(partial(estimators.ard, threshold=threshold))
        for threshold in THRESHOLDS
    },
}


def measure_rivals(quick: bool) -> Table:
    """Every method on every design; ARD has exact zeros if least squares leaves a residual."""

    def methods(design: str) -> dict[str, Any]:
        exact = {} if design == "wide" else {"ARD": baselines.ard}
        return {**BM, **exact, **RIVALS}

    return _over_designs(methods, quick, jax.random.key(6))


def measure_starts(quick: bool) -> Table:
    """BM from each initial inclusion on every design, with the default and best subset."""
    starts = {
        f"BM from {rate:g}": batched(partial(bmjax.fit_batch, initial_inclusion=rate))
        for rate in RATES
    }
    return _over_designs(lambda design: {**starts, **BM, **SUBSET}, quick, jax.random.key(7))


def _over_designs(methods: Callable[[str], dict[str, Any]], quick: bool, key: jax.Array) -> Table:
    parts = []
    for design, (draw_one, repeats) in (QUICK if quick else DESIGNS).items():
        study = monte_carlo(draw_one, methods(design), key, repeats)
        parts.append(figure5.summary(study, {"design": design}, CHAMPIONS))
    return pd.concat(parts)


def claims_of_rivals(table: Table) -> list[Claim]:
    """For each design, the F1 of all, and BM against the best rival on the same datasets."""
    found = []
    for design, rows in table.groupby("design", sort=False):
        rows = _with_best_threshold(rows)
        listed = ", ".join(f"{name} {f1:.3f}" for name, f1 in rows["f1"].items())
        rival = rows["f1"].drop([*CHAMPIONS, HINDSIGHT]).idxmax()
        verdicts = [_margin(champion, rows.loc[rival], str(rival)) for champion in CHAMPIONS]
        found.append(Claim(f"(not in the paper) {design}", listed, "; ".join(verdicts)))
    return found


def claims_of_starts(table: Table) -> list[Claim]:
    """For each design, the best start, and the loss of 0.5 and the default against it."""
    found = []
    for design, rows in table.groupby("design", sort=False):
        by = rows.set_index("method")
        starts = by.loc[[f"BM from {rate:g}" for rate in RATES]]
        listed = ", ".join(
            f"{rate:g} {f1:.3f}" for rate, f1 in zip(RATES, starts["f1"], strict=True)
        )
        default = by.loc["BM (default)", "f1"]
        best = starts["f1"].idxmax()
        found.append(
            Claim(
                f"(not in the paper) {design}",
                f"F1 by initial inclusion: {listed}; default {default:.3f}; best subset "
                f"{by.loc['best subset', 'f1']:.3f}",
                _margin("BM (default)", by.loc[best], str(best)),
            )
        )
    return found


def _margin(champion: str, row: Any, rival: str) -> str:
    difference, error = row[f"{champion} f1 minus this"], row[f"{champion} f1 minus this se"]
    if abs(difference) <= 2 * error or difference == 0:
        return f"{champion} level with {rival} ({difference:+.3f} +- {error:.3f})"
    word = "above" if difference > 0 else "below"
    return f"{champion} {word} {rival} ({difference:+.3f} +- {error:.3f})"


def _with_best_threshold(rows: Table) -> Table:
    """Methods by name, of the curve only scikit-learn's default and the best by the truth."""
    by = rows.set_index("method")
    curve = by[by.index.str.startswith(CURVE)]
    chosen = pd.DataFrame(
        [curve.loc[f"{CURVE}{1e4:g}"], curve.loc[curve["f1"].idxmax()]],
        index=["ARD (default threshold)", HINDSIGHT],
    )
    return pd.concat([by.drop(curve.index), chosen])


def draw_rivals(table: Table) -> Picture:
    """F1 of each method on each design, and the curve of scikit-learn's ARD."""
    figure = Picture(figsize=(13, 5), layout="constrained")
    dots, curves = figure.subplots(1, 2, width_ratios=(3, 2))
    designs = list(dict.fromkeys(table["design"]))
    parts = {d: _with_best_threshold(table[table["design"] == d]) for d in designs}
    names = list(parts[designs[0]].index)
    for number, name in enumerate(names):
        offset = 0.09 * (number - (len(names) - 1) / 2)
        have = [d for d in designs if name in parts[d].index]
        place = [designs.index(d) + offset for d in have]
        f1 = [parts[d].loc[name, "f1"] for d in have]
        error = [parts[d].loc[name, "f1 se"] for d in have]
        dots.errorbar(place, f1, error, capsize=2, **(style(name) | {"linestyle": "none"}))
    for place in range(1, len(designs)):
        dots.axvline(place - 0.5, color="0.85", linewidth=1)
    dots.set_xticks(range(len(designs)), [d.replace(", ", ",\n") for d in designs])
    dots.set_xlabel("design (n = 20 k; wide: n = k / 2)")
    figure.legend(*dots.get_legend_handles_labels(), loc="outside lower left", ncols=5)
    markers = "osD^vPX*"
    for design, marker in zip(designs, markers, strict=False):
        rows = table[(table["design"] == design) & table["method"].str.startswith(CURVE)]
        shade = str(0.6 * designs.index(design) / len(designs))
        line = ("-", "--", ":", "-.")[designs.index(design) % 4]
        curves.plot(
            rows["method"].str.removeprefix(CURVE).astype(float),
            rows["f1"],
            color=shade,
            linestyle=line,
            marker=marker,
            markersize=5,
            label=design,
        )
    curves.axvline(1e4, color="0.7", linewidth=1)
    curves.set_xscale("log")
    curves.set_xlabel("threshold of scikit-learn's ARD (line: its default)")
    curves.set_ylim(-0.02, 1.02)
    curves.legend(loc="lower left", fontsize="small")
    for axes in (dots, curves):
        axes.set_ylabel("F1 of pruning")
        axes.grid(axis="y", alpha=0.3)
    return figure


def draw_starts(table: Table) -> Picture:
    """One panel for each design."""
    figure = Picture(figsize=(13, 6.4), layout="constrained")
    panels = figure.subplots(2, 4, sharex=True).ravel()
    for axes, (design, rows) in zip(panels, table.groupby("design", sort=False), strict=False):
        _starts(axes, rows.set_index("method"))
        axes.set_title(str(design))
    for axes in panels[4:]:
        axes.set_xlabel("initial inclusion")
    for axes in panels[::4]:
        axes.set_ylabel("F1 of pruning")
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    return figure


def _starts(axes: Axes, by: Table) -> None:
    starts = by.loc[[f"BM from {rate:g}" for rate in RATES]]
    axes.errorbar(RATES, starts["f1"], starts["f1 se"], capsize=2, **style("BM"))
    for name, look in (("BM (default)", "--"), ("best subset", ":")):
        axes.axhline(by.loc[name, "f1"], color="0.3", linestyle=look, label=name)
    axes.set_xscale("log")
    names = [f"{rate:g}" if rate != 0.8 else "" for rate in RATES]  # no room for both
    axes.set_xticks(RATES, names, fontsize="small")
    axes.minorticks_off()
    axes.grid(alpha=0.3)


FIGURES = {
    "rivals": Figure(
        "Rivals and designs that the paper left out: F1 of pruning",
        measure_rivals,
        draw_rivals,
        claims_of_rivals,
    ),
    "starts": Figure(
        "F1 of pruning by the initial inclusion of BM",
        measure_starts,
        draw_starts,
        claims_of_starts,
    ),
}
