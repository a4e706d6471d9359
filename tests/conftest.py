"""Make the checkout importable as ansible_collections.bedplate.cluster, as every ansible command does."""

from pathlib import Path

from ansible.plugins.loader import init_plugin_loader

init_plugin_loader([str(Path(__file__).parents[1] / "collections")])
