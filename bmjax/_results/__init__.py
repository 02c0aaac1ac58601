"""What a fit says: effects and their covariance, refit, summary, derivatives."""
