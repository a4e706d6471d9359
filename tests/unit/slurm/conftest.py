"""The machines of the tests of tuning: gres.conf names their cores."""

from tests.unit.tuning.conftest import machine_of, tree_of

__all__ = ["machine_of", "tree_of"]
