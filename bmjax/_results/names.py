"""The names of the data: those of a frame's columns and of a series."""

import difflib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from bmjax._checks.arrays import column_labels


@dataclass(frozen=True)
class Names:
    """Names of the features and the target of a fit.

    Attributes:
        features: Names of the k features, None if the data had none.
        target: Name of y, None if it had none.

    Example:
        >>> import pandas as pd
        >>> import bmjax
        >>> X, y, names = bmjax.datasets.load_diabetes()
        >>> frame, target = pd.DataFrame(X, columns=names), pd.Series(y, name="progression")
        >>> fit = bmjax.fit(frame, target, intercept=True, unmasked=["age"])
        >>> fit.names.features[:3], fit.names.target
        (('age', 'sex', 'bmi'), 'progression')
    """

    features: tuple[str, ...] | None = None
    target: str | None = None


def names_of(X: Any, y: Any = None) -> Names | None:
    """The names in a frame and a series of pandas or polars, None if there are none.

    A frame whose columns are only numbered, as pandas does by default, has no names. Of a list of
    datasets the first has the names of all.
    """
    X = X[0] if isinstance(X, list | tuple) and len(X) else X
    features, target = _labels(X), _label(y)
    return None if features is None and target is None else Names(features, target)


def numbers_of(name: str, chosen: Any, names: Names | None) -> Any:
    """The numbers of features that are given by their names; other values unchanged.

    Args:
        name: Name of the argument, for messages.
        chosen: The features: a name, or several in a list or array.
        names: Names of the features of the data.

    Raises:
        ValueError: If there is no feature of a given name, or more than one.
    """
    words: Any = [chosen] if isinstance(chosen, str) else chosen
    if str(getattr(words, "dtype", "object")).startswith(("object", "str", "<U", ">U")):
        words = words.tolist() if hasattr(words, "tolist") else words  # of NumPy, pandas, polars
    if not isinstance(words, list | tuple) or not any(isinstance(word, str) for word in words):
        return chosen
    if names is None or names.features is None:
        raise ValueError(
            f"{name} is {chosen!r}, but X has no column names to look it up in; give numbers of "
            "features, or X as a data frame."
        )
    return [_number(name, str(word), names.features) for word in words]


def by_number(options: Any, names: Names | None) -> Any:
    """The options of a fit, with the names of features replaced by their numbers."""
    if options.get("unmasked") is None:
        return options
    return {**options, "unmasked": numbers_of("unmasked", options["unmasked"], names)}


def _number(argument: str, word: str, features: tuple[str, ...]) -> int:
    times = features.count(word)
    if times == 1:
        return features.index(word)
    if times:
        raise ValueError(f"{argument} names {word!r}, of which X has {times} columns.")
    close = " or ".join(map(repr, difflib.get_close_matches(word, features)))
    raise ValueError(
        f"{argument} names {word!r}, of which X has no column."
        + (f" Did you mean {close}?" if close else "")
    )


def in_order(X: Any, names: Names | None) -> Any:
    """New samples with columns in the order of the fit, matched by name; unchanged without names.

    Raises:
        ValueError: If a column of the fit is missing.
    """
    if names is None or names.features is None:
        return X
    labels = _labels(X)
    if labels is None or labels == names.features:
        return X
    missing = [name for name in names.features if name not in labels]
    if missing:
        more = f" and {len(missing) - 5} more" if len(missing) > 5 else ""
        raise ValueError(
            f"X has no column {', '.join(map(repr, missing[:5]))}{more}, of which the fit has made "
            "use; rename its columns, or give an array with the features in their order."
        )
    places = [labels.index(name) for name in names.features]
    return X.iloc[:, places] if hasattr(X, "iloc") else X[:, places]


def _labels(X: Any) -> tuple[str, ...] | None:
    labels = column_labels(X)
    if not labels or labels == list(range(len(labels))):
        return None
    return tuple(map(str, labels))


def _label(y: Any) -> str | None:
    labels = column_labels(y)
    if labels is not None:
        return str(labels[0]) if len(labels) == 1 and labels[0] != 0 else None
    label = getattr(y, "name", None) if hasattr(y, "to_numpy") else None
    return None if label is None or label == "" else str(label)


def feature_names(
    names: Iterable[str] | None, k: int, known: Names | None = None
) -> tuple[str, ...]:
    """Names of k features: those given, those of the data, or x0, x1, ...

    Raises:
        ValueError: If there are not k names.
    """
    if names is None and known is not None:
        names = known.features
    if names is None:
        return tuple(f"x{i}" for i in range(k))
    if isinstance(names, str):
        raise ValueError(f"names is the string {names!r}; give a list of {k} names.")
    try:
        names = tuple(map(str, names))
    except TypeError:
        raise TypeError(f"names is {names!r}; give a list of {k} names.") from None
    if len(names) != k:
        raise ValueError(f"names has {len(names)} entries but the fit has {k} features.")
    return names
