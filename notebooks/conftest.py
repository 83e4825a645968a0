"""What a notebook is compared in: the same as in a run of all tests, when it is run alone."""

from surroundings import pytest_collection_modifyitems, pytest_configure

__all__ = ["pytest_collection_modifyitems", "pytest_configure"]
