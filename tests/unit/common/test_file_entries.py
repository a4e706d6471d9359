"""Mistakes in the entries of bedplate.cluster.files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ansible_collections.bedplate.cluster.plugins.plugin_utils.common.file_entries import (
    is_sensitive,
    mistakes,
    text_with_secrets,
)
from tests.kit import sentences

SENTENCES = Path(__file__).with_name("sentences.txt")
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
        ("/etc/x", ["path"]),
        ({"content": "x"}, ["path None"]),
        ({"path": "etc/x", "content": "x"}, ["etc/x: path "]),
        ({"path": "/etc/../x", "content": "x"}, ["/etc/../x: path ", " /x"]),
        ({"path": "/etc/x/", "content": "x"}, ["/etc/x/: path ", " /etc/x"]),
        ({"path": "/x", "state": "absent"}, ["state 'absent'", "file, directory, link"]),
        (
            {"path": "/x", "content": "x", "onwer": "root"},
            ["'onwer'", "'owner'?", "path, state"],
        ),
        (
            {"path": "/x", "state": "link", "target": "y", "mode": "0644"},
            ["mode ", " link;", "path, "],
        ),
        ({"path": "/x", "state": "link"}, ["target None", " link "]),
        ({"path": "/x"}, ["content, template, src, secret"]),
        ({"path": "/x", "secret": True}, ["content, template, src, secret"]),
        ({"path": "/x", "content": None}, ["content, template, src, secret"]),
        ({"path": "/x", "content": "x", "src": "y"}, ["content and src", "content, template, src, secret"]),
        ({"path": "/x", "content": {"a": 1}}, ["content ", " dict"]),
        ({"path": "/x", "content": 5}, ["content ", " number"]),
        ({"path": "/x", "template": ["a"]}, ["template ", " list ['a']"]),
        ({"path": "/x", "content": "x", "mode": 420}, ["mode 420", '"0644"']),
        ({"path": "/x", "content": "x", "mode": "u=rw"}, ["mode 'u=rw'", '"0644"']),
        ({"path": "/x", "secret": "k", "mode": "0444"}, ["mode '0444'", '"0640"']),
        ({"path": "/x", "content": "x", "owner": 0}, ["owner 0"]),
        (
            {"path": "/x", "content": "x", "notify": "Restart nginx"},
            ["notify ", "'Restart nginx'", "Restart munge, Restart slurmd"],
        ),
        ({"path": "/x", "content": "x", "notify": [1]}, ["notify ", " list"]),
        ({"path": "/x", "content": "x", "validate": "true"}, ["validate 'true'", "%s"]),
        ({"path": "/x", "content": "x", "validate": "a '%s"}, ["validate ", '"a \'%s"']),
        ({"path": "/x", "content": "x", "scope": "cluster"}, ["scope: cluster", "template"]),
        ({"path": "/x", "template": "x", "scope": "rack"}, ["scope 'rack'", "host, cluster"]),
        ({"path": "/x", "content": "x", "length": 20}, ["length ", " secret "]),
        ({"path": "/x", "secret": "k", "kind": "uuid"}, ["kind 'uuid'", "password, bytes"]),
        ({"path": "/x", "secret": "k", "length": 4}, ["length 4", "16"]),
        ({"path": "/x", "content": "x", "sensitive": "yes"}, ["sensitive 'yes'", "true, false"]),
    ],
)
def test_each_mistake_is_named(entry, said):
    found = mistakes("demo", [GOOD[0], entry], HANDLERS)
    assert len(found) == 1
    assert found[0].startswith("files[1] ")
    assert [part for part in said if part not in found[0]] == []
    sentences.check(SENTENCES, f"an entry of files: {entry}", found)


def test_a_path_twice_and_a_path_below_a_file():
    entries = [{"path": path, "content": "x"} for path in ("/etc/a", "/etc/b", "/etc/a", "/etc/b/c")]
    twice, below = mistakes("demo", entries, [])
    assert twice.startswith("/etc/a: ")
    assert " 2 " in twice
    assert below.startswith("/etc/b/c: ")
    assert " /etc/b," in below
    sentences.check(SENTENCES, "a path twice and a path below a file", [twice, below])


@pytest.mark.parametrize("manifest", [None, "", "a/b", 5])
def test_a_manifest_needs_a_name(manifest):
    (found,) = mistakes(manifest, [], [])
    assert found.startswith(f"manifest: {manifest!r}; ")
    sentences.check(SENTENCES, "a manifest without a name", [found.replace(repr(manifest), "NAME", 1)])


@pytest.mark.parametrize("files", [None, "x", {"path": "/x"}])
def test_files_is_a_list(files):
    assert [one.partition(":")[0] for one in mistakes("demo", files, [])] == ["files"]


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ({"path": "/x", "content": "@k@", "secrets": {"@k@": "k"}, "mode": "0644"}, "mode '0644' opens a secret"),
        ({"path": "/x", "template": "x", "secrets": {"@k@": "k"}}, "secrets: allowed with content only"),
        ({"path": "/x", "content": "@k@", "secrets": ["k"]}, "secrets: allowed with content only"),
        ({"path": "/x", "secret": "k", "used_by": "slurmd.service"}, "used_by: allowed: a list"),
        ({"path": "/x", "content": "x", "used_by": ["slurmd.service"]}, "used_by is allowed with secret only"),
    ],
)
def test_a_secret_is_kept_from_all_others(entry: dict[str, Any], said: str):
    (found,) = mistakes("demo", [entry], [])
    assert said in found


def test_each_mark_becomes_its_secret_and_no_secret_is_changed():
    """A secret may look like another mark, or like a reference of a regular expression."""
    entry = {"content": "a @one@ b @two@ @one@ @three@\n", "secrets": {"@one@": "first", "@two@": "second"}}
    values = {"first": r"x@two@\1", "second": "y@one@"}
    text = text_with_secrets(entry, values.__getitem__)
    assert text == "a x@two@\\1 b y@one@ x@two@\\1 @three@\n"
    assert text_with_secrets({"content": "@one@"}, None) == "@one@"


def test_a_content_with_secrets_is_hidden():
    assert is_sensitive({"path": "/x", "content": "@k@", "secrets": {"@k@": "k"}})
    assert not is_sensitive({"path": "/x", "content": "x"})


@pytest.mark.parametrize(
    ("entry", "place"),
    [
        ({"path": "/", "content": "x"}, "/: path "),
        ({"path": "//etc/x", "content": "x"}, "//etc/x: path "),
        ({"path": "/etc/x\n/etc/y", "content": "x"}, "/etc/x\n/etc/y: path "),
        ({"path": "/etc/x\0", "content": "x"}, "/etc/x\0: path "),
        ({"path": "/x", "state": "block"}, "/x: content "),
        ({"path": "/x", "state": "block", "content": "a", "after": "("}, "/x: after "),
        ({"path": "/x", "state": "block", "content": "a", "validate": "true"}, "/x: validate "),
    ],
)
def test_paths_and_blocks_that_cannot_be(entry: dict[str, Any], place: str):
    (found,) = mistakes("demo", [entry], [])
    assert found.startswith(f"files[0] {place}")


@pytest.mark.parametrize("key", ["secret", "sensitive"])
def test_a_mark_hides_a_content(key: str):
    assert is_sensitive({"path": "/x", "content": "x", key: True})
    assert not is_sensitive({"path": "/x", "content": "x", key: False})
    (found,) = mistakes("demo", [{"path": "/x", "content": "x", key: True, "mode": "0644"}], [])
    assert found.startswith("files[0] /x: mode '0644'")


def test_a_mark_is_no_pattern():
    entry = {"content": "a.b axb", "secrets": {"a.b": "first"}}
    assert text_with_secrets(entry, {"first": "s3cret"}.__getitem__) == "s3cret axb"
