"""Pictures that show more than the table: devices, and memory of streamed rows."""

import pandas as pd
from matplotlib.figure import Figure


def _devices(table: pd.DataFrame) -> Figure:
    figure = Figure(figsize=(10, 4), layout="constrained")
    (work, time) = figure.subplots(1, 2)
    count = table["devices"]
    work.loglog(count, 1 / count, color="0.7", linewidth=4, label="1 / devices")
    for name, column, style in (
        ("fit, rows spread: transcendentals", "fit: transcendental operations", "o-k"),
        ("fit_batch: iterations of the busiest", "fit_batch: most iterations on a device", "s--k"),
    ):
        work.loglog(count, table[column] / table[column].iloc[0], style, label=name)
    for name, style in (("fit", "o-k"), ("fit_batch", "s--k")):
        seconds = table[f"{name}: seconds"]
        time.loglog(count, seconds / seconds.iloc[0], style, label=name)
    for axes, label in ((work, "work of a device"), (time, "wall time, 2 cores")):
        axes.set_xlabel("virtual devices of the CPU")
        axes.set_ylabel(f"{label} (1 device = 1)")
        axes.set_xticks(count, [str(d) for d in count])
        axes.set_yticks([1, 0.5, 0.25, 0.125], ["1", "1/2", "1/4", "1/8"])
        axes.set_ylim(0.1, 1.3)
        axes.minorticks_off()
        axes.grid(alpha=0.3)
        axes.legend(loc="lower left")
    return figure


def _streamed(table: pd.DataFrame) -> Figure:
    figure = Figure(figsize=(5.5, 4), layout="constrained")
    axes = figure.subplots()
    passes = table[table["status"] == "MAX_STEPS"]
    axes.loglog(passes["n"], passes["peak memory MB"], "o-k", label="peak memory of fit_stream")
    axes.loglog(passes["n"], 2 * passes["X in MB"], "s--", color="0.5", label="X alone, as float64")
    axes.axhline(2**31 / 1e6, color="0.7", linestyle=":", label="2 GiB")
    axes.set_xlabel("rows n (k = 50)")
    axes.set_ylabel("MB")
    axes.grid(alpha=0.3)
    axes.legend(loc="lower right")
    return figure


PAINTERS = {"devices": _devices, "streamed": _streamed}
