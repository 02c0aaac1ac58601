"""One picture for each section where a picture shows more than the table."""

import pandas as pd
from matplotlib.figure import Figure


def _estimators(table: pd.DataFrame) -> Figure:
    figure = Figure(figsize=(10, 4), layout="constrained")
    (time, quality) = figure.subplots(1, 2)
    names = [c.removesuffix(" ms") for c in table if c.endswith(" ms")]
    for name, style in zip(names, ("o-k", "v-", "s--", "^:", "d-."), strict=True):
        time.loglog(table["k"], table[f"{name} ms"], style, label=name)
        quality.semilogx(table["k"], table[f"{name} F1"], style, label=name)
    for axes, label in ((time, "milliseconds per dataset"), (quality, "F1 of pruning")):
        axes.set_xlabel("features k (n = 20 k)")
        axes.set_ylabel(label)
        axes.set_xticks(table["k"], [str(k) for k in table["k"]])
        axes.minorticks_off()
        axes.grid(alpha=0.3)
    quality.legend(loc="lower right")
    return figure


def _growth(table: pd.DataFrame) -> Figure:
    names = {"n": "samples n (k = 50)", "k": "features k (n = 20 000)", "b": "datasets b (k = 2)"}
    figure = Figure(figsize=(12, 3.8), layout="constrained")
    panels = figure.subplots(1, 3)
    for axes, (along, rows) in zip(panels, table.groupby("along", sort=False), strict=True):
        along = str(along)
        axes.loglog(rows[along], rows["s"], "o-k")
        axes.set_xlabel(names[along])
        axes.set_ylabel("seconds")
        axes.set_title(f"exponent {rows['exponent'].iloc[0]:.2f} over the last step")
        axes.grid(alpha=0.3)
    return figure


PAINTERS = {"estimators": _estimators, "growth": _growth}
