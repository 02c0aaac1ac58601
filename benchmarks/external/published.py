"""The figures published by others, from the files in `published/`, each with its source."""

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
    """Percent worse than the best BOSS by Tian et al., by cell, with the methods in columns.

    Args:
        draws: Number of draws of a cell that are used; if the authors' figure for that number is
            not on file, the one for all 1000 is taken.
    """
    table = _read("boss")
    there = draws if draws in set(table["draws"]) else table["draws"].max()
    wanted = table[table["draws"] == there].drop(columns="draws").set_index(_CELL)
    return wanted.dropna(axis=1, how="all").astype(float)


def draws_on_file(draws: int) -> bool:
    """Whether the authors' figures for that number of first draws are on file."""
    return draws in set(_read("boss")["draws"])


def kept() -> pd.DataFrame:
    """Number of features that the methods of Tian et al. keep, by sparse cell and method."""
    return _read("boss_kept")


def first_draws(cell: Cell) -> np.ndarray:
    """RMSE of the best possible BOSS on the first three draws of a cell of Tian et al."""
    return _read("boss_draws").set_index(_CELL).filter(like="best").loc[tuple(cell)].to_numpy()


def leave_one_out() -> pd.DataFrame:
    """Leave-one-out errors of Tian et al. on real data, one row per dataset and method."""
    return _read("leave_one_out").copy()


def hastie() -> pd.DataFrame:
    """The grid of Hastie et al., one row per cell and method."""
    return _read("hastie")
