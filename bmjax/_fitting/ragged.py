"""Datasets of different lengths as batches of a few lengths, padded with rows of weight zero.

Each length is compiled once, so there are few lengths: the rungs of a ladder, each at most a
quarter longer than the one before (from 64 rows on).
"""

from collections import defaultdict
from typing import Any, NamedTuple

import numpy as np

from bmjax._checks.arrays import floating_array


class Group(NamedTuple):
    """The datasets that are padded to one rung, as a batch.

    Attributes:
        numbers: The numbers of these datasets in the list.
        X: (b, n, k) features.
        y: (b, n) targets.
        sample_weights: (b, n) how often each row counts, 0 where a row was added.
    """

    numbers: list[int]
    X: np.ndarray
    y: np.ndarray
    sample_weights: np.ndarray


def rung(rows: int) -> int:
    """The lowest rung of the ladder that holds a number of rows."""
    return rows + -rows % max(16, 2 ** (rows.bit_length() - 3))


def is_ragged(X: Any) -> bool:
    """Whether X is a list of datasets that are not all of one shape."""
    if not isinstance(X, list | tuple) or not all(hasattr(one, "shape") for one in X):
        return False
    return all(len(one.shape) == 2 for one in X) and len({one.shape for one in X}) > 1


def datasets(
    X: Any, y: Any, sample_weights: Any
) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """The datasets one by one, each as X, y and sample weights.

    Args:
        X: (n_i, k) features of each dataset.
        y: (n_i,) target of each.
        sample_weights: (n_i,) sample weights of each dataset, or None.

    Raises:
        TypeError: If y or the weights are not lists.
        ValueError: If their number or their lengths do not match X, or the datasets differ in k.
    """
    X = [np.asarray(floating_array(f"X[{i}]", one)) for i, one in enumerate(X)]
    columns = {one.shape[-1] for one in X}
    if len(columns) > 1:
        raise ValueError(
            f"X holds datasets of {sorted(columns)} features; those of a batch have as many."
        )
    lengths = [len(one) for one in X]
    if sample_weights is None:
        sample_weights = [np.ones(n) for n in lengths]
    checked: dict[str, list[np.ndarray]] = {}
    for name, values in (("y", y), ("sample_weights", sample_weights)):
        if not isinstance(values, list | tuple):
            raise TypeError(
                f"{name} is {type(values).__name__}; with a list of datasets of different length "
                "give a list too."
            )
        if len(values) != len(lengths):
            raise ValueError(f"{name} holds {len(values)} arrays, X holds {len(lengths)}.")
        checked[name] = [
            np.asarray(floating_array(f"{name}[{i}]", one)) for i, one in enumerate(values)
        ]
        for i, (one, n) in enumerate(zip(checked[name], lengths, strict=True)):
            if one.shape != (n,):
                raise ValueError(
                    f"{name}[{i}] has shape {one.shape}, wanted ({n},): one for each row."
                )
    return list(zip(X, checked["y"], checked["sample_weights"], strict=True))


def groups(X: Any, y: Any, sample_weights: Any) -> list[Group]:
    """The datasets as one batch for each rung; arguments and errors are those of `datasets`."""
    given = datasets(X, y, sample_weights)
    members: dict[int, list[int]] = defaultdict(list)
    for i, (_, target, _) in enumerate(given):
        members[rung(len(target))].append(i)

    def batch(index: list[int], rows: int) -> Group:
        parts = zip(*(given[i] for i in index), strict=True)
        return Group(index, *(np.stack([filled(one, rows) for one in part]) for part in parts))

    return [batch(index, rows) for rows, index in members.items()]


def filled(values: Any, rows: int) -> np.ndarray:
    """The array padded with rows of zeros to a given length."""
    array = np.asarray(values)
    return np.pad(array, [(0, rows - len(array))] + [(0, 0)] * (array.ndim - 1))
