# SPDX-License-Identifier: GPL-3.0-or-later
"""Commission one BMC. After each step it can be reached by the next run, whenever this one is killed.

1. The own account is on the disk, then at the BMC, then proved by a login, then saved as that of the node.
2. The factory's account receives the same password; a login with the factory's must be refused after that.
3. NTP and IPMI. A BMC that cannot do a step has a finding, and the next step follows.
4. The fingerprint of the signed certificate is on the disk, then the certificate at the BMC, then proved by the CA, then on record.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from ..bmc.bmc_targets import IPMI as BY_IPMI
from ..common.secrets import SecretError
from ..redfish.accounts import AccountList, put_administrator, read_accounts, set_password
from ..redfish.client import Client
from ..redfish.errors import CUT, OTHER, REFUSED, STOPPED, TIMEOUT, UNREACHABLE, UNSUPPORTED, BmcError
from ..redfish.network_protocol import end_ipmi, set_ntp
from ..redfish.read_back import Change
from ..redfish.transport import Account, Bmc
from . import access, node_certificate
from .commission_order import NodeJob
from .outcome import ACCOUNT, CHANGED, FACTORY, FAILED, IPMI, NTP, PREDICTED, SAME, UNKNOWN, NodeResult

_ENDS = (STOPPED, UNREACHABLE, TIMEOUT, CUT)
"""Kinds of errors after which no further step is begun."""
_TRIES = 3


def commission(job: NodeJob) -> NodeResult:
    """Do all steps of one BMC, in one thread. A failure is in the result, and raises nothing."""
    try:
        _Steps(job).run()
    except BmcError as error:
        job.result.error = error
    except (SecretError, OSError) as error:
        what = str(error) if isinstance(error, SecretError) else f"{error.filename}: {error.strerror}"
        job.result.error = BmcError(OTHER, job.node, what.rstrip("."), "Correct it, and run again.")
    return job.result


class _Steps:
    def __init__(self, job: NodeJob) -> None:
        self.job, self.order, self.result, self.clients = job, job.order, job.result, job.clients

    def run(self) -> None:
        job, order = self.job, self.order
        if job.target.protocol == BY_IPMI:
            raise BmcError(UNSUPPORTED, job.node, "it is commanded by IPMI", "Commission it on its own page.")
        bmc = access.proved(job.target, order.reach, job.secrets.issued(job.node))
        accepted = access.first_accepted(self.clients, bmc, job.known.candidates)
        is_own = accepted == job.known.wanted
        own = accepted if is_own else self._own_account(bmc, accepted)
        with self.clients.session(replace(bmc, account=own)) as client:
            found = access.identified(client, job.target)
            if is_own:
                self._require_administrator(client, own)
            self._factory(client, bmc, own)
            if order.ntp:
                self._step(NTP, lambda: set_ntp(client, found.manager, order.ntp))
            if order.ends_ipmi:
                self._step(IPMI, lambda: end_ipmi(client, found.manager))
            node_certificate.commission(job, client, found)

    def _require_administrator(self, client: Client, own: Account) -> None:
        """Prove that the own account, which the BMC has accepted, can command it, and save it."""
        known = read_accounts(client)
        found = known.named(own.user)
        if found is None or not found.is_administrator:
            what = f"the account of the secret bmc/{self.job.node} is not an administrator: {found or 'not listed'}"
            raise client.error(REFUSED, what, "Make it one on the BMC's own page.", path=known.path)
        self._promote(own)
        self.result.add(ACCOUNT, SAME, own.user, own.user)

    def _own_account(self, bmc: Bmc, accepted: Account) -> Account:
        """Give the BMC its own account by another one, and return it; in check mode return the other one."""
        job = self.job
        with self.clients.session(replace(bmc, account=accepted)) as client:
            must_change = access.needs_new_password(client, job.target)
            if not must_change:
                return self._create(client, bmc, accepted)
            if self.order.check:
                self.result.add(ACCOUNT, PREDICTED, f"{accepted.user} needs a new password", job.user)
                what = "further steps are not predicted: the account needs a new password"
                raise client.error(REFUSED, what, "Run without --check.")
            wanted = job.known.wanted or self._prepared(AccountList("", ()))
            path = self._path_of(client, accepted, must_change)
            set_password(client, path, wanted.password)
        renewed = Account(accepted.user, wanted.password)
        access.require_accepted(self.clients, bmc, renewed, path)
        job.known = replace(job.known, pending=wanted)
        with self.clients.session(replace(bmc, account=renewed)) as client:
            return self._create(client, bmc, renewed)

    def _prepared(self, known: AccountList) -> Account:
        return self.job.secrets.prepare(self.job.node, self.order.user, known.shortest, known.longest)

    def _path_of(self, client: Client, account: Account, refusal: BmcError) -> str:
        """Return the path of an account that may only change its password: the BMC names it in its refusal, or lists it."""
        named = [one for message in refusal.messages for one in message.args if one.startswith("/redfish/")]
        if named:
            return named[0]
        listed = read_accounts(client).named(account.user)
        if listed is None:
            raise client.error(
                UNSUPPORTED, f"the account {account.user} is not listed", "Change its password on the BMC's own page."
            )
        return listed.path

    def _create(self, client: Client, bmc: Bmc, accepted: Account) -> Account:
        """Create the own account in the session of another one. In check mode return that one."""
        found = access.identified(client, self.job.target)
        known = read_accounts(client)
        wanted, listed = self.job.known.wanted, known.named(self.job.user)
        before = str(listed) if listed else "no account"
        if wanted is None and listed:
            what = f"the account {listed.user} exists, and its password is not among the secrets"
            remedy = f"Write it into the secret bmc/{self.job.node}, delete the account, or name another one: -e bmc_user=NAME."
            raise client.error(REFUSED, what, remedy, path=listed.path)
        if self.order.check:
            self.result.add(ACCOUNT, PREDICTED, before, self.job.user)
            return accepted
        wanted = wanted or self._prepared(known)
        if listed and wanted.user == accepted.user:
            # The session may end with the password, so the login alone proves it.
            set_password(client, listed.path, wanted.password)
            path = listed.path
        else:
            path = put_administrator(client, known, wanted, found.dialect).path
        access.require_accepted(self.clients, bmc, wanted, path)
        self._promote(wanted)
        self.result.add(ACCOUNT, CHANGED, before, wanted.user)
        return wanted

    def _promote(self, account: Account) -> None:
        if not self.order.check:
            self.job.secrets.promote(self.job.node, account)

    def _factory(self, client: Client, bmc: Bmc, own: Account) -> None:
        """Take the factory's password away. A BMC that still accepts it ends the run of this BMC."""
        factory = self.job.known.factory
        if factory is None:
            self.result.add(FACTORY, UNKNOWN, after="there is no secret bmc_factory to try")
            return
        try:
            if not access.accepts(self.clients, bmc, factory):
                self.result.add(FACTORY, SAME, "refused", "refused")
            elif self.order.check:
                self.result.add(FACTORY, PREDICTED, "accepted", "refused")
            elif own == factory:
                what = f"the secret bmc/{self.job.node} has the factory's account"
                raise client.error(REFUSED, what, "Remove that secret: this run makes an own account.")
            else:
                self._change_factory(client, bmc, factory, own)
                self.result.add(FACTORY, CHANGED, "accepted", "refused")
        except BmcError as error:
            self.result.add(FACTORY, FAILED, error=error)
            raise

    def _change_factory(self, client: Client, bmc: Bmc, factory: Account, own: Account) -> None:
        listed = read_accounts(client).named(factory.user)
        if listed is None:
            what = f"the BMC accepts {factory.user}, and does not list it"
            raise client.error(UNSUPPORTED, what, "Change its password on the BMC's own page.")
        for left in reversed(range(_TRIES)):
            set_password(client, listed.path, own.password)
            if not access.accepts(self.clients, bmc, factory):
                return
            if left:
                client.pause(client.bmc.limits.settle_s / _TRIES)
        what = f"the new password of {factory.user} was accepted and not taken"
        remedy = "Read the log of the BMC; change the password on its own page."
        raise client.error(
            "not-taken",
            what,
            remedy,
            path=listed.path,
            expected="a refused login",
            found="the factory's password works",
        )

    def _step(self, name: str, change: Callable[[], Change]) -> None:
        """Do a step; a failure is its own, unless the BMC does not answer."""
        try:
            done = change()
        except BmcError as error:
            self.result.add(name, FAILED, error=error)
            if error.kind in _ENDS:
                raise
            return
        state = SAME if not done.changed else PREDICTED if self.order.check else CHANGED
        self.result.add(name, state, done.before, done.expected)
