"""One picture a section where a picture says more than the table."""

from collections.abc import Mapping

import matplotlib
import pandas as pd
from matplotlib.figure import Figure

matplotlib.use("Agg")
import matplotlib.pyplot as plt

from benchmarks import report


def draw(section: str, table: pd.DataFrame, origin: Mapping[str, str]) -> None:
    """Draw what there is to draw of a section and save it beside its CSV."""
    painter = {"estimators": _estimators, "growth": _growth}.get(section)
    if painter is None:
        return
    figure = painter(table)
    report.save_picture(report.RESULTS / f"speed_{section}.png", figure, origin)
    plt.close(figure)


def _estimators(table: pd.DataFrame) -> Figure:
    figure, (time, quality) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
    names = ["fit_batch"] + [c.removesuffix(" ratio") for c in table if c.endswith(" ratio")]
    for name, style in zip(names, ("o-k", "s--", "^:", "d-."), strict=True):
        time.loglog(table["k"], table[f"{name} ms"], style, label=name)
        f1 = table["F1"] if name == "fit_batch" else table[f"{name} F1"]
        quality.semilogx(table["k"], f1, style, label=name)
    for axes, label in ((time, "milliseconds per dataset"), (quality, "F1 of pruning")):
        axes.set_xlabel("features k (n = 20 k)")
        axes.set_ylabel(label)
        axes.set_xticks(table["k"], [str(k) for k in table["k"]])
        axes.minorticks_off()
        axes.grid(alpha=0.3)
    time.legend()
    return figure


def _growth(table: pd.DataFrame) -> Figure:
    names = {"n": "samples n (k = 50)", "k": "features k (n = 20 000)", "b": "datasets b (k = 2)"}
    figure, panels = plt.subplots(1, 3, figsize=(12, 3.8), layout="constrained")
    for axes, (along, rows) in zip(panels, table.groupby("along", sort=False), strict=True):
        along = str(along)
        axes.loglog(rows[along], rows["s"], "o-k")
        axes.set_xlabel(names[along])
        axes.set_ylabel("seconds")
        axes.set_title(f"exponent {rows['exponent'].iloc[0]:.2f} over the last step")
        axes.grid(alpha=0.3)
    return figure
