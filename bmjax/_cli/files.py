"""The files that the command writes: a saved fit, a table of the features, a picture."""

import io
import math
import platform
from typing import Any

import jax
import numpy as np

import bmjax
from bmjax._cli.errors import shown
from bmjax._cli.output import Report, notes
from bmjax._results.prediction import noise_deviation
from bmjax._results.writing import contents


def saved(report: Report, ending: str) -> bytes:
    """The contents of the file of a fit.

    Args:
        report: The fit and its facts.
        ending: `.csv` for the features, `.json` or `.npz` for everything.

    Returns:
        The contents.
    """
    table = report.result.to_pandas(report.names)
    selection = report.selection
    if selection is not None:
        table["frequency"] = np.asarray(selection.frequencies)
        table["frequency_standard_error"] = np.asarray(selection.standard_errors)
        table["stable"] = np.asarray(selection.stable)
    posterior = report.posterior
    if posterior is not None:
        of_all = posterior.to_pandas(report.names)
        for column in ("probability", "probability_error", "lower", "upper"):
            table[column] = of_all[column]
        table["averaged_coef"] = of_all["coef"]
        table["averaged_standard_error"] = of_all["standard_error"]
    if ending == ".csv":
        return table.to_csv(lineterminator="\n").encode()
    result = report.result
    precision = float(result.noise_precision)
    content = {
        "settings": {
            "source": report.source,
            "target": report.target,
            "weights": report.weights_name,
            "keep": list(report.kept),
            "intercept": report.intercept,
            "standardize": True,
            "stability": None if selection is None else len(selection.supports),
            "posterior": report.posterior is not None,
            "seed": report.seed if selection is not None or report.posterior is not None else None,
        },
        "versions": {
            "bmjax": bmjax.__version__,
            "jax": jax.__version__,
            "numpy": np.__version__,
            "python": platform.python_version(),
        },
        "rows": report.rows,
        "features": table.rename_axis("name").reset_index().to_dict("records"),
        "intercept": float(result.intercept),
        "noise": {"standard_deviation": noise_deviation(precision), "precision": precision},
        "bound": float(result.bound),
        "status": bmjax.Status(int(result.status)).name,
        "steps": int(result.num_steps),
        "notes": notes(report),
    }
    if report.levels:
        content["settings"]["categories"] = {n: list(own) for n, own in report.levels.items()}
    odds = report.summary.odds
    if posterior is not None:
        content["posterior"] = {
            "size": np.asarray(posterior.size).tolist(),
            "intercept": float(posterior.intercept),
            "noise_standard_deviation": None if odds else float(np.sqrt(posterior.noise_variance)),
            "status": bmjax.Status(int(posterior.status)).name,
            "steps": int(posterior.num_steps),
            "supports": [
                {"probability": share, "features": who}
                for who, share in posterior.summary(report.names).supports
            ],
        }
    if selection is not None:
        content["stability"] = {
            "threshold": selection.threshold,
            "average_size": selection.average_size,
            "expected_false": selection.expected_false,
            "expected_false_unimodal": selection.expected_false_unimodal,
        }
    return contents(result, ending, _finite(content))


def _finite(content: Any) -> Any:
    """The content with None (null) for NaN and infinity, which JSON lacks."""
    if isinstance(content, dict):
        return {key: _finite(value) for key, value in content.items()}
    if isinstance(content, list):
        return [_finite(value) for value in content]
    return None if isinstance(content, float) and not math.isfinite(content) else content


def picture(report: Report, ending: str) -> bytes:
    """The contents of the file of a picture of the coefficients.

    Args:
        report: The fit and its facts.
        ending: `.png`, `.pdf` or `.svg`.

    Returns:
        The contents.
    """
    import matplotlib.pyplot as plt

    from bmjax import plots

    standardized = report.summary.standardized is not None
    plots.coefficients(
        report.result, [shown(name) for name in report.names], standardized=standardized
    )
    content = io.BytesIO()
    plt.savefig(content, format=ending[1:], dpi=150)
    plt.close()
    return content.getvalue()
