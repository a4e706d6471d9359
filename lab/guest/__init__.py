# SPDX-License-Identifier: GPL-3.0-or-later
"""Virtual machines with a kernel and a boot loader of their own, for what a container cannot show."""
