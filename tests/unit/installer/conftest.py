"""The order server, the image and the machine of tests/unit/provision."""

from tests.unit.provision.conftest import certified, image, node, site  # noqa: F401
