"""The cells of Tian, Hurvich & Simonoff: percent worse than the best possible BOSS."""

import time
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from benchmarks.external import boss, claims, methods, published, tian
from benchmarks.external.ledger import Ledger, Options, Row
from benchmarks.external.methods import Estimates, Method
from benchmarks.external.tian import Cell, Drawn

Tables = dict[str, pd.DataFrame]
THEIRS = "BOSS AICc-hdf, ours"
# LassoCV is the link to the published figures, on the same datasets; beyond, abess takes seconds.
_LARGEST = {"LassoCV": 30}
_SAME = 1e-5  # relative difference below which two RMSE come from the same data


def narrow(options: Options) -> Tables:
    """200 samples, 14 to 180 features."""
    compared = {**methods.ours(), **methods.rivals()}
    compared.pop("relaxed lasso CV")  # the published figure is on the same datasets
    return _section("boss", tian.cells(200, tian.NARROW), options, options.number(30), compared)


def large(options: Options) -> Tables:
    """2000 samples, 14 to 180 features; abess with its CV takes up to forty seconds per dataset."""
    compared = {**methods.ours(), **methods.rivals()}
    for slow in ("relaxed lasso CV", "abess CV", "abess EBIC"):
        compared.pop(slow)
    cells = tian.cells(2000, tian.NARROW)
    return _section("boss_large", cells, options, options.number(10), compared)


def wide(options: Options) -> Tables:
    """200 samples, 250 to 1500 features; the lasso figures are published, on the same datasets."""
    compared = {**methods.ours(), **methods.rivals()}
    for slow in ("relaxed lasso CV", "LassoCV"):
        compared.pop(slow)
    return _section("boss_wide", tian.cells(200, tian.WIDE), options, options.number(10), compared)


def _section(
    name: str,
    cells: Sequence[Cell],
    options: Options,
    draws: int,
    compared: Mapping[str, Method],
) -> Tables:
    ledger = Ledger(f"external_{name}", options)
    cells = cells[:3] if options.quick else cells
    keys = [{**cell._asdict(), "draws": draws} for cell in cells]
    for cell, key in zip(cells, keys, strict=True):
        wanted = [*compared, *([THEIRS] if cell.p < cell.n else [])]
        wanted = [name for name in wanted if cell.p <= _LARGEST.get(name, cell.p)]
        lacking = [] if options.late() else ledger.lacking(key, wanted)
        if lacking:
            measured = _measure(tian.draw(cell, draws), cell, lacking, compared)
            ledger.add([{**key, **row} for row in measured])
    table = ledger.table(keys)
    return {
        name: table,
        f"{name}_link": claims.link(table, draws),
        f"{name}_summary": claims.beside_published(table, draws),
        f"{name}_kept": claims.features_kept(table),
        f"{name}_claims": claims.boss_claims(table, draws),
    }


def _measure(
    data: Drawn, cell: Cell, names: Sequence[str], compared: Mapping[str, Method]
) -> list[Row]:
    """One row for each method in one cell."""
    paths = [boss.path(data.X, y) for y in data.y]
    errors = [boss.errors(path, data.mean) for path in paths]
    best = np.array([error.min() for error in errors])
    theirs = published.first_draws(cell)[: len(best)]
    same = bool(np.allclose(best[: len(theirs)], theirs, rtol=_SAME, atol=0))
    rows = []
    for name in names:
        begin = time.perf_counter()
        if name == THEIRS:
            chosen = [boss.by_aicc(path, y) for path, y in zip(paths, data.y, strict=True)]
            rmse = np.array([error[i] for error, i in zip(errors, chosen, strict=True)])
            more: Row = {}
        else:
            found: Estimates = compared[name](data.X, data.y)
            off = (found.coef - data.coef) @ data.X.T
            rmse = np.sqrt((off**2).mean(axis=1))
            more = methods.qualities(found, data.coef)
        spent = (time.perf_counter() - begin) / len(best)
        rows.append(
            {"method": name, "same datasets": same, **_worse(rmse, best), **more, "seconds": spent}
        )
    return rows


def _worse(rmse: np.ndarray, best: np.ndarray) -> Row:
    """Percent by which the mean RMSE is above that of the best BOSS, and its standard error."""
    ratio = rmse.mean() / best.mean()
    spread = (rmse - ratio * best).std(ddof=1) / best.mean() if len(best) > 1 else np.nan
    return {
        "percent worse": 100 * (ratio - 1),
        "standard error": 100 * spread / np.sqrt(len(best)),
    }
