# SPDX-License-Identifier: GPL-3.0-or-later
"""Signed package repositories with stand-ins for NVIDIA's packages, for tests and labs: tests do not reach the real ones."""
