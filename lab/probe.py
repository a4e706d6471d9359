# SPDX-License-Identifier: GPL-3.0-or-later
"""Run by a job on every node: what the job sees, and what opening each GPU gives. One line; Python of the node."""

import errno
import os
import pathlib
import socket

answers = []
for path in sorted(map(str, pathlib.Path("/dev").glob("nvidia[0-9]*"))):
    try:
        os.close(os.open(path, os.O_RDWR))
        answer = "opened"
    except OSError as problem:
        answer = errno.errorcode[problem.errno or 0]
    answers.append(path + "=" + answer)
print(socket.gethostname(), "CUDA_VISIBLE_DEVICES=" + os.environ.get("CUDA_VISIBLE_DEVICES", ""), *answers)
