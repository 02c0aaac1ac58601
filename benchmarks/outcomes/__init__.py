"""Outcomes that are not Gaussian, and groups of columns, compared with rivals."""
