"""What every test runs in; notebooks have it too, also when one is run alone."""

from surroundings import pytest_collection_modifyitems, pytest_configure

__all__ = ["pytest_collection_modifyitems", "pytest_configure"]
