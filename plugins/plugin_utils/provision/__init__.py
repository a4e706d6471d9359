# SPDX-License-Identifier: GPL-3.0-or-later
"""Install named nodes through their BMCs, each once, in states."""
