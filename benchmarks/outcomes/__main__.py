"""Outcomes that are not Gaussian, and groups of columns, compared with other packages.

python -m benchmarks.outcomes [--quick] [SECTION ...]

`logistic`: simulated designs of correlated columns, balanced and with few ones, compared with abess
(`LogisticRegression` under BIC and EBIC) and scikit-learn's L1 `LogisticRegressionCV`. `student`:
designs with and without outliers, compared with the Gaussian fit and Huber's loss with an L1
penalty. `groups`: categorical variables of eight levels among numeric ones, compared with abess
with groups and with methods that judge each column alone. `real`: four datasets with two outcomes,
by repeated cross-validation.
All methods get the same data and run in turn in one process, each once before it is timed.
"""

import jax

jax.config.update("jax_enable_x64", True)

from benchmarks import command, report  # noqa: E402
from benchmarks.outcomes.groups import groups  # noqa: E402
from benchmarks.outcomes.logistic import logistic  # noqa: E402
from benchmarks.outcomes.real import real  # noqa: E402
from benchmarks.outcomes.student import student  # noqa: E402


def main() -> None:
    """Run, print, save."""
    makers = {"logistic": logistic, "student": student, "groups": groups, "real": real}
    for name, table, line, quick in command.sections("outcomes", __doc__, makers):
        report.publish(f"outcomes_{name}", table, line, quick)


if __name__ == "__main__":
    main()
