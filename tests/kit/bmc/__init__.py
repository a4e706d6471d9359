# SPDX-License-Identifier: GPL-3.0-or-later
"""A simulator of BMCs: Redfish over TLS with a state machine of a machine, fault knobs, and hooks for a real machine behind it.

`python -m tests.kit.bmc FILE` runs it as its own process (see __main__.py); `Simulation` of simulation.py starts and steers it in tests.
"""
