"""Mistakes in the entries of bedplate.cluster.files."""

from __future__ import annotations

import pytest

from ansible_collections.bedplate.cluster.plugins.plugin_utils.file_entries import mistakes

HANDLERS = ["Restart munge", "Restart slurmd"]

GOOD = [
    {
        "path": "/etc/munge/munge.key",
        "secret": "munge_key",
        "owner": "munge",
        "mode": "0400",
        "notify": "Restart munge",
    },
    {"path": "/etc/default/slurmd", "template": "slurmd.j2", "notify": HANDLERS},
    {"path": "/etc/empty", "content": ""},
    {"path": "/etc/a", "content": "x", "secret": True, "mode": "0640"},
    {"path": "/etc/b", "template": "b.j2", "scope": "cluster"},
    {"path": "/etc/c", "src": "c", "validate": "visudo -cf %s", "owner": "0"},
    {"path": "/var/spool/x", "state": "directory", "mode": "01777"},
    {"path": "/var/spool/x/y", "state": "link", "target": "/etc/y"},
    {"path": "/etc/d", "secret": "other", "kind": "bytes", "length": 64},
]


def test_good_entries_have_no_mistakes():
    assert mistakes("slurm_compute", GOOD, HANDLERS) == []


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ("/etc/x", "is text; allowed: a mapping with a path"),
        ({"content": "x"}, "path None; every entry needs one"),
        ({"path": "etc/x", "content": "x"}, "etc/x: path is relative; allowed: an absolute path"),
        ({"path": "/etc/../x", "content": "x"}, "not in its plain form; write /x"),
        ({"path": "/etc/x/", "content": "x"}, "not in its plain form; write /etc/x"),
        ({"path": "/x", "state": "absent"}, "state 'absent'; allowed: file, directory, link"),
        (
            {"path": "/x", "content": "x", "onwer": "root"},
            "unknown key 'onwer', did you mean 'owner'?; allowed: path, state",
        ),
        (
            {"path": "/x", "state": "link", "target": "y", "mode": "0644"},
            "mode means nothing for a link; allowed: path",
        ),
        ({"path": "/x", "state": "link"}, "target None; a link needs one"),
        ({"path": "/x"}, "has no content; allowed: exactly one of content, template, src, secret"),
        ({"path": "/x", "secret": True}, "has no content"),
        ({"path": "/x", "content": None}, "has no content"),
        ({"path": "/x", "content": "x", "src": "y"}, "has content and src; allowed: exactly one"),
        ({"path": "/x", "content": {"a": 1}}, "content is a dict; allowed: text"),
        ({"path": "/x", "content": 5}, "content is a number; allowed: text"),
        ({"path": "/x", "template": ["a"]}, "template is a list ['a']; allowed: a name"),
        ({"path": "/x", "content": "x", "mode": 420}, 'mode 420; allowed: octal digits in quotes, as "0644"'),
        ({"path": "/x", "content": "x", "mode": "u=rw"}, "mode 'u=rw'; allowed: octal"),
        ({"path": "/x", "secret": "k", "mode": "0444"}, "mode '0444' opens a secret to everybody"),
        ({"path": "/x", "content": "x", "owner": 0}, "owner 0; allowed: a name, or a number in quotes"),
        (
            {"path": "/x", "content": "x", "notify": "Restart nginx"},
            "notify names 'Restart nginx', which the task's own notify does",
        ),
        ({"path": "/x", "content": "x", "notify": [1]}, "notify is a list; allowed: the name of a handler"),
        ({"path": "/x", "content": "x", "validate": "true"}, "validate 'true'; allowed: a command with %s"),
        ({"path": "/x", "content": "x", "validate": "a '%s"}, "No closing quotation"),
        ({"path": "/x", "content": "x", "scope": "cluster"}, "goes with template only"),
        ({"path": "/x", "template": "x", "scope": "rack"}, "scope 'rack'; allowed: host, cluster"),
        ({"path": "/x", "content": "x", "length": 20}, "length goes with secret only"),
        ({"path": "/x", "secret": "k", "kind": "uuid"}, "kind 'uuid'; allowed: password, bytes"),
        ({"path": "/x", "secret": "k", "length": 4}, "length 4; allowed: 16 to"),
        ({"path": "/x", "content": "x", "sensitive": "yes"}, "sensitive 'yes'; allowed: true, false"),
    ],
)
def test_each_mistake_is_named(entry, said):
    found = mistakes("demo", [GOOD[0], entry], HANDLERS)
    assert len(found) == 1
    assert found[0].startswith("files[1] ")
    assert said in found[0]


def test_a_path_twice_and_a_path_below_a_file():
    entries = [{"path": path, "content": "x"} for path in ("/etc/a", "/etc/b", "/etc/a", "/etc/b/c")]
    assert mistakes("demo", entries, []) == [
        "/etc/a: comes 2 times; a path can be wanted in one way only",
        "/etc/b/c: lies under /etc/b, which is to be a file",
    ]


@pytest.mark.parametrize("manifest", [None, "", "a/b", 5])
def test_a_manifest_needs_a_name(manifest):
    assert "allowed: a name that says who owns these files" in mistakes(manifest, [], [])[0]


@pytest.mark.parametrize("files", [None, "x", {"path": "/x"}])
def test_files_is_a_list(files):
    assert mistakes("demo", files, [])[0].startswith("files: is ")
