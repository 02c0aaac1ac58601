"""The results of a fit: effects and their covariance, refit, summary, derivatives."""
