#!/bin/sh
# A required module that is not there locks out everybody, root included.
for module in /usr/lib*/security/pam_slurm_adopt.so /usr/lib/*/security/pam_slurm_adopt.so; do
  [ ! -e "$module" ] || exit 0
done
echo "pam_slurm_adopt.so is not installed: add its package to slurm_compute_packages" >&2
exit 1
