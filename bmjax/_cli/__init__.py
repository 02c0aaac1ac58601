"""`python -m bmjax`."""
