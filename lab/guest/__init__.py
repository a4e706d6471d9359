# SPDX-License-Identifier: GPL-3.0-or-later
"""Virtual machines with a kernel and a boot loader, for tests that a container cannot run."""
