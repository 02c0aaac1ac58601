"""Datasets of ever new shapes in one process: whether it survives, and the memory it uses."""

from typing import Any

import numpy as np

import bmjax
from benchmarks import estimators
from benchmarks.speed import contest, data


def shapes(quick: bool) -> list[dict[str, Any]]:
    """Fit every dataset by `fit` and by abess in turn; one row for each third of the datasets."""
    b = 3 if quick else 300
    names = ["default", "abess (BIC)"]
    runs = contest.together(__name__, "case", (b,), names, b, limit=120, total=1800)
    ours = runs["default"]
    rows = []
    for third in np.array_split(np.arange(b), 3):
        chosen = {
            name: contest.Run({}, [call for call in run.calls if call["turn"] in third])
            for name, run in runs.items()
        }
        part = chosen["default"]
        rows.append(
            {
                "datasets": f"{third[0] + 1} to {third[-1] + 1}",
                "fitted": len(part.calls),
                "survives": len(part.calls) == len(third),
                "maps": part.last("maps"),
                "resident MB": part.last("resident MB"),
                **{f"{name} mean s": run.values("s").mean() for name, run in chosen.items()},
                **{f"{name} F1": run.values("F1").mean() for name, run in chosen.items()},
                "unfinished": ours.ended,
            }
        )
    return rows


def case(b: int) -> contest.Case:
    """Turn i draws dataset i, with n from 40 to 400 and k from 3 to 60, no two shapes alike."""
    rng = np.random.default_rng(0)
    sizes: dict[tuple[int, int], None] = {}
    while len(sizes) < b:
        sizes[int(rng.integers(40, 401)), int(rng.integers(3, 61))] = None
    asked = list(sizes)

    def draw(turn: int):
        X, y, effects = data.normal_design(asked[turn], turn)
        return (X, y), effects

    sides = {"default": bmjax.fit, "abess (BIC)": estimators.abess}
    return contest.Case(draw, sides, contest.selection)
