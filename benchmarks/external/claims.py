"""Summaries of the cells of Tian, Hurvich & Simonoff, next to the published figures."""

from typing import Any

import numpy as np
import pandas as pd

from benchmarks.external import methods, published
from benchmarks.external.tian import EIGHT, Cell

Frame = Any  # a DataFrame, where the stubs of pandas do not cover how it is used
_CELL = list(Cell._fields)
_NEAR = 2  # percent within which a cell counts as level with the best published method
_OURS = (methods.DEFAULT, methods.POSTERIOR, "abess BIC", "abess EBIC", "abess CV", "LassoCV")
_LINKS = {"BOSS AICc-hdf, ours": "BOSS AICc-hdf", "LassoCV": "lasso CV"}


def link(table: pd.DataFrame, draws: int) -> pd.DataFrame:
    """Check that the same methods give the published figures, on the same draws if available.

    Args:
        table: A row a cell and method.
        draws: How many draws a cell.
    """
    theirs: Frame = published.percent_worse(draws)
    worse = _by_method(table)
    same = table.drop_duplicates(_CELL).set_index(_CELL)["same datasets"].astype(bool)
    best = "best BOSS, first three draws"
    rows: list[dict[str, Any]] = [
        {"measured here": best, "published": best, "cells": f"{same.sum()} of {len(same)} the same"}
    ]
    for ours, name in _LINKS.items():
        if ours not in worse:
            continue
        off = (worse[ours] - theirs[name].reindex(worse.index)).dropna()
        for which, chosen in {
            "same datasets": off[same.reindex(off.index).to_numpy(bool)],
            "other draws of X": off[~same.reindex(off.index).to_numpy(bool)],
        }.items():
            if len(chosen):
                rows.append(
                    {
                        "measured here": ours,
                        "published": name,
                        "cells": f"{len(chosen)} of {which}",
                        "mean here": worse.loc[chosen.index, ours].mean(),
                        "mean published": theirs.loc[chosen.index, name].mean(),
                        "mean difference": chosen.mean(),
                        "its standard error": chosen.std(ddof=1) / np.sqrt(len(chosen)),
                        "largest difference": chosen.abs().max(),
                        "within .1": (chosen.abs() <= 0.1).mean(),
                    }
                )
    return pd.DataFrame(rows)


def beside_published(table: pd.DataFrame, draws: int) -> pd.DataFrame:
    """Mean percent worse by number of features, in sparse and dense cells, ours and published.

    Args:
        table: A row a cell and method.
        draws: How many draws a cell.
    """
    worse = _by_method(table)
    rows = []
    for kind, cells in _kinds(worse).items():
        theirs: Frame = published.percent_worse(draws).reindex(cells.index)
        blocks = {"measured here": cells, f"published, {_basis(draws)}": theirs}
        for source, block in blocks.items():
            for name in block.columns[block.notna().any()]:
                by_size = block[name].groupby("p", sort=True).mean()
                rows.append(
                    {"cells": kind, "method": name, "source": source}
                    | {f"p = {p}": value for p, value in by_size.items()}
                    | {"all sizes": block[name].mean() if block[name].notna().all() else np.nan}
                )
    found: Frame = pd.DataFrame(rows)
    order = [f"p = {p}" for p in sorted({cell[2] for cell in worse.index})]
    found = found[["cells", "method", "source", *order, "all sizes"]]
    return found.sort_values(["cells", "all sizes"], ascending=[False, True], kind="stable")


def features_kept(table: pd.DataFrame) -> pd.DataFrame:
    """Number of real and idle features kept in sparse cells, by signal to noise; six are real.

    Args:
        table: A row a cell and method.
    """
    cells = table.loc[table["design"] != "Dense", _CELL].drop_duplicates()
    theirs = published.kept().merge(cells, on=_CELL).assign(source="published, 1000 draws")
    here = table.dropna(subset="real kept").merge(cells, on=_CELL).assign(source="measured here")
    both: Frame = pd.concat([here, theirs])
    groups = both.groupby(["snr", "method", "source"], sort=False)
    means = groups[["real kept", "idle kept"]].mean().assign(cells=groups.size()).reset_index()
    return means.sort_values(["snr", "real kept"], ascending=False)


def boss_claims(table: pd.DataFrame, draws: int) -> pd.DataFrame:
    """The claims, and whether they hold: one row for each claim and method.

    Args:
        table: A row a cell and method.
        draws: How many draws a cell.
    """
    worse = _by_method(table)
    kinds = _kinds(worse)
    if "sparse" in kinds:
        sparse = kinds["sparse"]
        kinds["sparse, eight of p = 30"] = sparse[sparse.index.isin(EIGHT)]
    rows = []
    for kind, cells in kinds.items():
        if cells.empty:
            continue
        theirs: Frame = published.percent_worse(draws).reindex(cells.index)
        complete = theirs.dropna(axis=1)
        rival, best = complete.mean().idxmin(), theirs.min(axis=1)
        for name in [name for name in _OURS if name in cells]:
            here = cells[name].dropna()
            gap = here - complete.loc[here.index, rival]
            rows.append(
                {
                    "cells": kind,
                    "number": len(here),
                    "method": name,
                    "mean percent worse": here.mean(),
                    "best published": rival,
                    "its mean": complete.loc[here.index, rival].mean(),
                    "difference": gap.mean(),
                    "its standard error": gap.std(ddof=1) / np.sqrt(len(gap)),
                    "below every published": here.mean() < complete.loc[here.index].mean().min(),
                    "within 2 of the cell's best": (here <= best[here.index] + _NEAR).mean(),
                    "published over": _basis(draws),
                    **_rates(table, kind, name),
                }
            )
    return pd.DataFrame(rows)


def _rates(table: pd.DataFrame, kind: str, name: str) -> dict[str, float]:
    """False discovery rate where the signal is not weak, and coverage, if a method has them."""
    dense = (table["design"] == "Dense") == (kind == "dense")
    chosen = table[(table["method"] == name) & dense]
    rates = {}
    if "false discovery rate" in table:
        strong = chosen[chosen["snr"] >= 1]
        false = strong["false discovery rate"].mean()
        rates["false discovery rate of select(.1), SNR >= 1"] = false
    if "interval coverage" in table:
        rates["coverage of interval(.95)"] = chosen["interval coverage"].mean()
    return rates


def _by_method(table: pd.DataFrame) -> Frame:
    return table.pivot(index=_CELL, columns="method", values="percent worse")


def _kinds(worse: Frame) -> dict[str, Frame]:
    dense = worse.index.get_level_values("design") == "Dense"
    kinds = {"sparse": worse[~dense], "dense": worse[dense]}
    return {kind: cells for kind, cells in kinds.items() if len(cells)}


def _basis(draws: int) -> str:
    return f"the same {draws} draws" if published.draws_on_file(draws) else "1000 draws"
