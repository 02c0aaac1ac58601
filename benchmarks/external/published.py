"""The figures that others published, as they stand in `published/`, each with its source."""

from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.external.tian import Cell

_FOLDER = Path(__file__).parent / "published"
_CELL = list(Cell._fields)


@cache
def _read(name: str) -> pd.DataFrame:
    return pd.read_csv(_FOLDER / f"{name}.csv", comment="#")


def percent_worse(draws: int) -> pd.DataFrame:
    """Of Tian et al., by cell and method: percent worse than the best BOSS, in columns.

    Args:
        draws: How many draws of a cell are looked at; where the authors' figure over so many is not
            on file, that over all 1000 is taken.
    """
    table = _read("boss")
    there = draws if draws in set(table["draws"]) else table["draws"].max()
    wanted = table[table["draws"] == there].drop(columns="draws").set_index(_CELL)
    return wanted.dropna(axis=1, how="all").astype(float)


def draws_on_file(draws: int) -> bool:
    """Whether the authors' figures over just the first so many draws are there."""
    return draws in set(_read("boss")["draws"])


def kept() -> pd.DataFrame:
    """How many features the methods of Tian et al. keep, a row a sparse cell and method."""
    return _read("boss_kept")


def first_draws(cell: Cell) -> np.ndarray:
    """RMSE of the best possible BOSS in the first three draws of a cell of Tian et al."""
    return _read("boss_draws").set_index(_CELL).filter(like="best").loc[tuple(cell)].to_numpy()


def leave_one_out() -> pd.DataFrame:
    """Leave-one-out errors of Tian et al. on real data, a row a dataset and method."""
    return _read("leave_one_out").copy()


def hastie() -> pd.DataFrame:
    """The grid of Hastie et al., a row a cell and method."""
    return _read("hastie")
