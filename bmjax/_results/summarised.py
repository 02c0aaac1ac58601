"""The `Summary` of a fit, built from its facts and notes."""

from typing import Any

import numpy as np

from bmjax._model.groups import groups_of
from bmjax._model.status import Status
from bmjax._results.notes import collinearity_notes, level_notes, masked_rows_notes, zero_notes
from bmjax._results.prediction import noise_deviation
from bmjax._results.summary import Summary, figure


def summary_of(result: Any, names: tuple[str, ...]) -> Summary:
    """The summary of one fit.

    Args:
        result: The `Result`.
        names: Names of the k features.
    """
    status = Status(int(result.status))
    support = np.asarray(result.support)
    facts = {}
    if result.names is not None and result.names.target is not None:
        facts["target"] = result.names.target
    if result.family is not None:
        facts["family"] = result.family.name
    if result.has_intercept:
        error = None if result.uncertainty is None else float(result.intercept_standard_error)
        facts["intercept"] = figure(float(result.intercept), error)
        if error is not None:
            facts["standard error of it"] = f"{error:.4g}"
    if result.uncertainty is not None:
        around = "" if result.has_intercept else " (around zero)"
        share = f"R squared{around}"
        if result.family is not None:
            share = "R squared (rows weighted)" if result.has_units else "deviance explained"
        facts[share] = f"{float(result.r_squared):.4f}"
    facts |= _noise_facts(result) | {
        "bound": f"{float(result.bound):.6g} nats",
        "iterations": f"{int(result.num_steps)}",
        "status": f"{status.name}: {status.message}",
    }
    notes, errors, refitted, standardized = (), None, None, None
    coef, inclusion = np.asarray(result.coef), np.asarray(result.inclusion)
    groups = None if result.groups is None else groups_of(result.groups)
    labels = None
    if result.groups is not None:
        labels = tuple("" if label is None else str(label) for label in result.groups)
    if result.uncertainty is not None:
        errors = np.asarray(result.uncertainty.standard_errors)
        refitted = np.asarray(result.uncertainty.least_squares)
        standardized = np.asarray(result.standardized)
        features = np.asarray(result.uncertainty.features)
        correlation = np.asarray(result.uncertainty.correlation, float)
        intervals, apart = np.asarray(result.conf_int()), correlation
        if groups is not None:  # the columns of a group act together by definition
            alone = groups.size == 1
            intervals = np.where(alone[:, None], intervals, np.nan)
            apart = np.where(groups.same[np.minimum(features, len(names) - 1)], 0, correlation)
        notes = collinearity_notes(names, support, features, apart)
        notes += zero_notes(names, intervals)
        notes += masked_rows_notes(names, support, coef, refitted, errors, inclusion)
        if result.moments is not None:
            notes = level_notes(support, features, correlation, result.moments) + notes
    return Summary(
        names=names,
        coef=coef,
        standard_errors=errors,
        inclusion=inclusion,
        support=support,
        refit=refitted,
        standardized=standardized,
        odds=not result.has_units,
        facts=facts,
        notes=notes,
        groups=labels,
    )


def _noise_facts(result: Any) -> dict[str, str]:
    """The facts of a summary about the noise."""
    deviation = f"{noise_deviation(result.noise_precision):.4g}"
    if result.family is None:
        return {"noise (standard deviation)": deviation}
    if not result.has_units:
        return {}
    degrees = f"{float(result.family.degrees):.3g}"
    return {"noise (scale)": deviation, "degrees of freedom": degrees}
