# SPDX-License-Identifier: GPL-3.0-or-later
"""Give one BMC a certificate of the site's CA, and record it once a new connection has proved it."""

from __future__ import annotations

import time
from dataclasses import replace

from ..redfish.certificate import read_place, replace_certificate, request_certificate
from ..redfish.client import Client
from ..redfish.errors import OTHER, STOPPED, UNSUPPORTED, WRONG_CERTIFICATE, BmcError
from ..redfish.transport import Account, ServedCertificate, verify_certificate
from .access import Identified
from .bmc_authority import AuthorityError
from .commission_order import NodeJob
from .outcome import CERTIFICATE, CHANGED, FAILED, PREDICTED, RECORD, SAME

_DAY_S = 86400.0
RENEWED_DAYS = 30
"""A certificate that ends within so many days is replaced."""


def commission(job: NodeJob, client: Client, found: Identified) -> None:
    """Do the steps `certificate` and `record`. Without a CA in the cluster file neither is done."""
    if not job.order.reach.ca_file and not job.order.may_sign:
        return
    served = _served(job) if job.order.reach.ca_file else None
    try:
        if served and served.ends - time.time() > RENEWED_DAYS * _DAY_S:
            job.result.add(CERTIFICATE, SAME, "of the CA", "of the CA")
        elif job.order.check and job.order.may_sign:
            read_place(client, found.manager, found.dialect)
            job.result.add(CERTIFICATE, PREDICTED, _text(served), "of the CA")
            job.result.add(RECORD, PREDICTED, job.target.recorded.bmc_fingerprint, "that of the new certificate")
            return
        else:
            before = _text(served)
            served = _replaced(job, client, found)
            job.result.add(CERTIFICATE, CHANGED, before, "of the CA")
    except BmcError as error:
        job.result.add(CERTIFICATE, FAILED, error=error)
        if error.kind == STOPPED:
            raise
        return
    _record(job, served)


def _text(served: ServedCertificate | None) -> str:
    return "of the CA, ends soon" if served else "not of the CA"


def _served(job: NodeJob) -> ServedCertificate | None:
    """Return the served certificate if it is of the CA, and None if it is not."""
    reach = job.order.reach
    bmc = replace(reach.bmc(job.target, Account("nobody", "-"), "0" * 64), trust=reach.ca_trust)
    try:
        return verify_certificate(bmc)
    except BmcError as error:
        if error.kind != WRONG_CERTIFICATE:
            raise
        return None


def _replaced(job: NodeJob, client: Client, found: Identified) -> ServedCertificate:
    authority, order, target = job.order.authority, job.order, job.target
    if authority is None:
        what = "its certificate is not of the CA of provision.bmc.ca, and there is no key to sign one"
        raise client.error(UNSUPPORTED, what, "Name the key of that CA: -e bmc_ca_key=PATH.")
    place = read_place(client, found.manager, found.dialect)
    name = f"{target.node}-bmc"
    subject = authority.subject(name, order.organization, order.unit)
    try:
        issued = authority.sign(
            request_certificate(client, place, subject), subject, [name], target.address, order.days
        )
    except AuthorityError as error:
        what, _dot, remedy = str(error).rpartition(". ")
        raise client.error(OTHER, what, f"{remedy}.", path=place.request_path) from None
    job.secrets.note_issued(target.node, issued.fingerprint)
    return replace_certificate(client, place, issued.pem, issued.fingerprint, order.reach.ca_trust)


def _record(job: NodeJob, served: ServedCertificate) -> None:
    node, recorded = job.target.node, job.target.recorded.bmc_fingerprint
    if served.fingerprint == recorded:
        job.result.add(RECORD, SAME, recorded, recorded)
    else:
        job.record(node, recorded, served.fingerprint)
        job.result.add(RECORD, PREDICTED if job.order.check else CHANGED, recorded, served.fingerprint)
    if not job.order.check:
        job.secrets.forget_issued(node)
