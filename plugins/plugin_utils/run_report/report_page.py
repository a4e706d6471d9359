# SPDX-License-Identifier: GPL-3.0-or-later
"""Render report.html: the racks by their places in the room, each node by its outcome, in one file without external references.

Names and reasons come from machines: text is escaped, data is JSON without `<`, and the page forbids itself to load anything.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template
from markupsafe import Markup

from .report_document import Place

_FOLDER = Path(__file__).parent


def page(report: Mapping[str, Any], places: Mapping[str, Place] | None = None) -> str:
    """Return the page of a report; hosts without a place are together after the racks."""
    title = f"{report['playbook']} on {report['cluster']}" if report["cluster"] else str(report["playbook"])
    return _template().render(
        title=title,
        report=report,
        rows=_rows(report["nodes"], places or {}),
        nodes=Markup(json.dumps(report["nodes"]).replace("<", "\\u003c")),
        style=Markup((_FOLDER / "report_page.css").read_text(encoding="utf-8")),
        script=Markup((_FOLDER / "report_page.js").read_text(encoding="utf-8")),
    )


def _rows(nodes: Mapping[str, Mapping[str, Any]], places: Mapping[str, Place]) -> list[dict[str, Any]]:
    """Return the rows of the room in order, with their racks by column."""
    racks: dict[Place, list[tuple[str, Mapping[str, Any]]]] = {}
    for name, node in nodes.items():
        racks.setdefault(places.get(name, Place()), []).append((name, node))
    rows: dict[str, list[Place]] = {}
    for place in racks:
        rows.setdefault(place.row or "", []).append(place)
    # Racks without a row, and machines without a rack, come last.
    return [
        {
            "name": row,
            "racks": [
                {"name": place.rack, "column": place.column if row else None, "nodes": racks[place]}
                for place in sorted(rows[row], key=_order)
            ],
        }
        for row in sorted(rows, key=lambda row: (row == "", row))
    ]


def _order(place: Place) -> tuple[bool, int, str]:
    return (place.rack == "", place.column or 0, place.rack)


@lru_cache(maxsize=1)
def _template() -> Template:
    environment = Environment(
        loader=FileSystemLoader(_FOLDER), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    return environment.get_template("report_page.html.j2")
