# SPDX-License-Identifier: GPL-3.0-or-later
"""Mutants know where runs on the unchanged tree report their tasks."""

from __future__ import annotations

import yaml

from tools.mutants import SWAPPED, dumped, mutants

TEXT = """\
---
# A comment that no run reads.
- name: Play
  hosts: all
  tasks:
    - name: First
      ansible.builtin.command: {argv: ["true"]}
      # Another one.
      when: wanted

    - name: Second
      ansible.builtin.meta: end_play
"""


def test_lines_are_those_of_the_text_that_runs_read():
    lines = dumped(yaml.safe_load(TEXT)).splitlines()
    for mutant in mutants("playbooks/some.yml", TEXT):
        (first, last), *others = mutant.spans
        assert lines[first - 1].strip() == f"- name: {mutant.task}"
        assert last == len(lines) or lines[last].strip().startswith("- name: ")
        assert len(others) == (mutant.change == SWAPPED)


def test_a_play_and_what_ends_a_play_have_no_result_of_their_own():
    silent = {(one.task, one.change): one.silent for one in mutants("playbooks/some.yml", TEXT)}
    assert silent == {
        ("Play", "dropped"): True,
        ("First", "dropped"): False,
        ("First", "swapped with the next"): True,
        ("First", "when true"): False,
        ("First", "when false"): False,
        ("Second", "dropped"): True,
    }


def test_a_rescue_of_several_blocks_is_changed_once():
    text = """\
---
- name: Play
  hosts: all
  tasks:
    - block: [{name: First, ansible.builtin.command: {argv: ["true"]}}]
      rescue: &failure
        - {name: Failed, ansible.builtin.set_fact: {failure: true}}
    - block: [{name: Second, ansible.builtin.command: {argv: ["true"]}}]
      rescue: *failure
"""
    (dropped,) = (one for one in mutants("playbooks/some.yml", text) if one.task == "Failed")
    assert "Failed" not in dropped.text
