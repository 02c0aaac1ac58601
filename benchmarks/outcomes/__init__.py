"""Outcomes that are not Gaussian, and groups of columns, beside rivals."""
