"""A bench for every test that drives the installed command."""

from tests.e2e.conftest import bench

__all__ = ["bench"]
