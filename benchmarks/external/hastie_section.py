"""The grid of Hastie, Tibshirani & Tibshirani, on n rows, and on 2n as published."""

import time
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.external import hastie_designs, methods, published
from benchmarks.external.hastie_designs import Cell, Drawn
from benchmarks.external.ledger import Ledger, Options, Row
from benchmarks.external.methods import Method

_FIGURES = ["relative risk", "relative test error", "variance explained", "nonzeros", "F1"]
_CELL = list(Cell._fields)
_SPARSE = (1, 2, 3)  # types of effects of which all but a few are zero
_TUNED = ("abess CV", "LassoCV", "relaxed lasso CV")


def grid(options: Options) -> dict[str, pd.DataFrame]:
    """All cells of all settings, starting with `low`."""
    draws = options.number(10)
    ledger = Ledger("external_hastie", options)
    compared = {**methods.ours(), **methods.rivals()}
    del compared["abess EBIC"]
    cells = [cell for name in hastie_designs.SETTINGS for cell in hastie_designs.cells(name)]
    cells = cells[:20:5] if options.quick else cells
    keys = [{**cell._asdict(), "draws": draws, "rows": rows} for cell in cells for rows in (1, 2)]
    for cell, key in zip([cell for cell in cells for _ in range(2)], keys, strict=True):
        lacking = [] if options.late() else ledger.lacking(key, compared)
        if lacking:
            data = hastie_designs.draw(cell, draws)
            rows = [_measure(data, key["rows"] * cell.n, compared[name]) for name in lacking]
            named = zip(lacking, rows, strict=True)
            ledger.add([{**key, "method": name, **row} for name, row in named])
    table = ledger.table(keys)
    return {"hastie": table, "hastie_summary": _summary(table), "hastie_claims": _claims(table)}


def _measure(data: Drawn, rows: int, method: Method) -> Row:
    """Published measures of one method on the first rows, in closed form, as means."""
    begin = time.perf_counter()
    found = method(np.ascontiguousarray(data.X[:, :rows]), data.y[:, :rows])
    spent = (time.perf_counter() - begin) / len(data.y)
    off = found.coef - data.coef
    risk = np.einsum("bi,ij,bj->b", off, data.covariance, off)
    signal = data.coef @ data.covariance @ data.coef
    relative = risk / signal
    error = relative.std(ddof=1) / np.sqrt(len(relative)) if len(relative) > 1 else np.nan
    return {
        "relative risk": relative.mean(),
        "its standard error": error,
        "relative test error": (1 + risk / data.noise).mean(),
        "variance explained": (1 - (risk + data.noise) / (signal + data.noise)).mean(),
        "nonzeros": (found.coef != 0).sum(axis=1).mean(),
        **methods.qualities(found, data.coef),
        "seconds": spent,
    }


def _summary(table: pd.DataFrame) -> pd.DataFrame:
    """Means over the cells of a setting: ours on n and 2n rows, and published, sparse and weak."""
    here = table.assign(source=np.where(table["rows"] == 1, "here, n rows", "here, 2n rows"))
    cells = table[_CELL].drop_duplicates()
    theirs = published.hastie().merge(cells, on=_CELL)
    theirs = theirs.assign(source="published, n rows and n to tune on")
    both: Any = pd.concat([here, theirs])
    both["effects"] = np.where(both["beta"].isin(_SPARSE), "types 1-3", "type 5")
    names = {shape: name for name, shape in hastie_designs.SETTINGS.items()}
    shapes = zip(both["n"], both["p"], both["s"], strict=True)
    both["setting"] = [names[shape] for shape in shapes]
    groups = ["setting", "effects", "source", "method"]
    grouped = both.groupby(groups, sort=False)
    means = grouped[_FIGURES].mean().assign(cells=grouped.size()).reset_index()
    order = ["setting", "effects", "relative risk"]
    return means.sort_values(order, key=lambda c: c.map(_position) if c.name == "setting" else c)


def _position(setting: str) -> int:
    return list(hastie_designs.SETTINGS).index(setting)


def _claims(table: pd.DataFrame) -> pd.DataFrame:
    """Ours against each rival on the same rows, and on 2n rows against the published figures."""
    sparse: Any = table[table["beta"].isin(_SPARSE)]
    risk: Any = sparse.pivot(index=["rows", *_CELL], columns="method", values="relative risk")
    theirs: Any = published.hastie().pivot(index=_CELL, columns="method", values="relative risk")
    rows = []
    for ours in [name for name in methods.ours() if name in risk]:
        for multiple, found in risk.groupby(level="rows"):
            found = found.droplevel("rows")
            rivals = {f"{name}, same rows": found[name] for name in _TUNED if name in found}
            if multiple == 2:
                rivals |= {f"{name}, published": theirs[name] for name in theirs}
            for rival, value in rivals.items():
                pair = pd.concat([found[ours], value.reindex(found.index)], axis=1).dropna()
                gap = pair.iloc[:, 0] - pair.iloc[:, 1]
                rows.append(
                    {
                        "method": ours,
                        "rows": "n" if multiple == 1 else "2n",
                        "rival": rival,
                        "cells": len(gap),
                        "mean relative risk": pair.iloc[:, 0].mean(),
                        "rival's": pair.iloc[:, 1].mean(),
                        "difference": gap.mean(),
                        "its standard error": gap.std(ddof=1) / np.sqrt(len(gap)),
                        "below": gap.mean() < 0,
                        "share of cells below": (gap < 0).mean(),
                        **_discoveries(sparse, ours, int(str(multiple))),
                    }
                )
    return pd.DataFrame(rows)


def _discoveries(table: pd.DataFrame, name: str, multiple: int) -> Row:
    if "false discovery rate" not in table:
        return {}
    chosen = table[(table["method"] == name) & (table["rows"] == multiple) & (table["snr"] >= 1)]
    return {"false discovery rate of select(.1), SNR >= 1": chosen["false discovery rate"].mean()}
