#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Make and renew the certificate of a provision host."""

from __future__ import annotations

DOCUMENTATION = r"""
module: provision_certificate
short_description: Make and renew the certificate of a provision host, and its CA
version_added: 0.2.0
description:
  - The host has its own CA. Keys are made on the host, with mode 0600, and never leave it.
  - The certificate is made again if O(address) is another one, if less than 60 days are left, or if it does not fit its key. The CA is kept
    until it ends in less than 460 days.
  - Needs openssl on the host.
options:
  folder:
    description: Private folder with C(authority.pem) and C(server.pem), which have certificate and key. It is made with mode 0700.
    type: path
    required: true
  authority:
    description: Public file with the certificate of the CA.
    type: path
    required: true
  address:
    description: IP address of the server, as machines have it in their orders.
    type: str
    required: true
author: The bedplate authors (!UNKNOWN)
attributes:
  check_mode: {support: full, description: It predicts the files that are written.}
"""

EXAMPLES = r"""
- name: Make or renew the certificate
  bedplate.cluster.provision_certificate:
    folder: /var/lib/bedplate/provision/tls
    authority: /var/lib/bedplate/provision/ca.pem
    address: 10.20.8.10
"""

RETURN = r"""
changed_files: {description: Paths that were written or made private again., type: list, elements: str, returned: always}
reasons: {description: 'File to the reason why its certificate was made.', type: dict, returned: always}
"""

from pathlib import Path

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.bedplate.cluster.plugins.module_utils.common.command import find
from ansible_collections.bedplate.cluster.plugins.module_utils.provision.certificates import (
    CertificateError,
    Certificates,
)


def main() -> None:
    """Renew what needs it."""
    module = AnsibleModule(
        argument_spec={
            "folder": {"type": "path", "required": True},
            "authority": {"type": "path", "required": True},
            "address": {"type": "str", "required": True},
        },
        supports_check_mode=True,
    )
    given = module.params
    if find("openssl") is None and not module.check_mode:
        module.fail_json(msg="openssl is missing on this machine. Install the package openssl.")
    try:
        found = Certificates(Path(given["folder"]), Path(given["authority"]), given["address"]).renew(module.check_mode)
    except (CertificateError, OSError) as error:
        module.fail_json(msg=f"The certificate was not made. {error}")
    module.exit_json(changed=bool(found.files), changed_files=found.files, reasons=found.reasons)


if __name__ == "__main__":
    main()
