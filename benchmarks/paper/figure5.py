"""Figure 5: precision, recall and F1 of pruning with 10 to 100 features."""

from functools import partial

import jax
import numpy as np
import pandas as pd
from matplotlib.figure import Figure as Picture

import bmjax
from benchmarks.paper.figure import Claim, Figure, Table, style, yes
from bmjax import baselines, simulate
from bmjax._study.methods import batched
from bmjax._study.monte_carlo import monte_carlo
from bmjax._study.study import METRICS, Outcomes, Study

METHODS = {
    "BM": batched(partial(bmjax.fit_batch, initial_inclusion=0.5)),
    "BM (default)": batched(bmjax.fit_batch),
    "ARD": baselines.ard,
    "Lasso": lambda X, y: baselines.lasso_cv(X, y, folds=10),
}
SIZES = (10, 30, 50, 100)


def wrongly_pruned(found: Outcomes, truth: np.ndarray) -> np.ndarray:
    """Relevant features pruned, in each dataset."""
    return np.sum(~found.support & (truth != 0), axis=1)


def measure(quick: bool) -> Table:
    """Fit 100 datasets for each k with n = 20 k by every method."""
    key = jax.random.key(5)
    return pd.concat(
        summary(monte_carlo(partial(simulate.uniform_design, k=k), METHODS, key, repeats), {"k": k})
        for k, repeats in ([(10, 20)] if quick else [(k, 100) for k in SIZES])
    )


def summary(study: Study, labels: dict[str, object], champions: tuple[str, ...] = ("BM",)) -> Table:
    """One row per method: means, and the paired lead of each champion over it in F1."""
    rows = []
    for name, found in study.outcomes.items():
        row = {**labels, "method": name, "datasets": len(study.truth)}
        for metric in METRICS:
            row[metric], row[f"{metric} se"] = study.mean(name, metric)
        for champion in champions:
            margin = f"{champion} f1 minus this"
            row[margin], row[f"{margin} se"] = study.paired(champion, name, "f1")
        row["wrongly pruned"] = wrongly_pruned(found, study.truth).mean()
        row["wrongly pruned sd"] = wrongly_pruned(found, study.truth).std(ddof=1)
        rows.append(row)
    return pd.DataFrame(rows)


def claims(table: Table) -> list[Claim]:
    """The order of the three methods at every k."""
    by = table.set_index(["k", "method"])
    sizes = list(dict.fromkeys(table["k"]))

    def at_all(column: str, method: str) -> str:
        return " / ".join(f"{by.loc[(k, method), column]:.3f}" for k in sizes)

    def beats(method: str) -> tuple[str, bool]:
        difference = [by.loc[(k, method), "BM f1 minus this"] for k in sizes]
        error = [by.loc[(k, method), "BM f1 minus this se"] for k in sizes]
        text = ", ".join(f"{d:.3f} +- {e:.3f}" for d, e in zip(difference, error, strict=True))
        return text, all(d > 2 * e for d, e in zip(difference, error, strict=True))

    def highest(column: str) -> bool:
        rivals = ("ARD", "Lasso")
        return all(
            by.loc[(k, "BM"), column] > by.loc[(k, r), column] for k in sizes for r in rivals
        )

    of_k = "k = " + " / ".join(str(k) for k in sizes)
    over_lasso, over_ard = beats("Lasso"), beats("ARD")
    over_default = beats("BM (default)")
    found = [
        Claim(
            "BM attains the highest F1 at every k",
            f"{of_k}: BM {at_all('f1', 'BM')}; ARD {at_all('f1', 'ARD')}; Lasso "
            f"{at_all('f1', 'Lasso')}",
            yes(highest("f1")),
        ),
        Claim("BM above Lasso in F1 (paired difference)", over_lasso[0], yes(over_lasso[1])),
        Claim("BM above ARD in F1 (paired difference)", over_ard[0], yes(over_ard[1])),
        Claim(
            "BM achieves the highest recall",
            f"BM {at_all('recall', 'BM')}; ARD {at_all('recall', 'ARD')}; Lasso "
            f"{at_all('recall', 'Lasso')}",
            yes(highest("recall")),
        ),
        Claim(
            "BM displays slightly lower precision than the others",
            f"BM {at_all('precision', 'BM')}; ARD {at_all('precision', 'ARD')}; Lasso "
            f"{at_all('precision', 'Lasso')}",
            yes(
                all(
                    by.loc[(k, "BM"), "precision"]
                    < max(by.loc[(k, r), "precision"] for r in ("ARD", "Lasso"))
                    for k in sizes
                )
            ),
        ),
    ]
    if 50 in sizes:
        wrong = by.loc[(50, "BM"), "wrongly pruned"]
        spread = by.loc[(50, "BM"), "wrongly pruned sd"]
        found.append(
            Claim(
                "k = 50: 1.8 +- 1.3 (EM) to 2.0 +- 1.3 (hybrid) features wrongly pruned",
                f"{wrong:.2f} +- {spread:.2f} (by the accelerated solver)",
                "yes"
                if abs(wrong - 1.9) < 0.5
                else "within one sd"
                if abs(wrong - 1.9) < 1.3
                else "no",
            )
        )
    found.append(
        Claim(
            "(not in the paper) BM with the default start",
            f"F1 {at_all('f1', 'BM (default)')}; BM from 0.5 minus this: {over_default[0]}",
            "",
        )
    )
    return found


def draw(table: Table) -> Picture:
    """Three panels over k, with standard errors."""
    figure = Picture(figsize=(11, 4.2), layout="constrained")
    panels = figure.subplots(1, 3)
    sizes = list(dict.fromkeys(table["k"]))
    for axes, metric in zip(panels, ("precision", "recall", "f1"), strict=True):
        for method in METHODS:
            rows = table[table["method"] == method]
            axes.errorbar(rows["k"], rows[metric], rows[f"{metric} se"], capsize=3, **style(method))
        axes.set_xscale("log")
        axes.set_xticks(sizes, [str(k) for k in sizes])
        axes.minorticks_off()
        axes.set_xlabel("features k (n = 20 k)")
        axes.set_ylabel({"f1": "F1"}.get(metric, metric) + " of pruning (mean, standard error)")
        axes.set_ylim(0.3, 1.02)
        axes.grid(alpha=0.3)
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=4)
    return figure


FIGURE = Figure("Figure 5: precision, recall and F1 of pruning", measure, draw, claims)
