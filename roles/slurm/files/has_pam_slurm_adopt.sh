# A required module that is not there locks out everybody, root included.
ls /usr/lib*/security/pam_slurm_adopt.so /usr/lib/*/security/pam_slurm_adopt.so 2>/dev/null | grep -q . && exit 0
echo "pam_slurm_adopt.so is not installed: add its package to slurm_compute_packages" >&2
exit 1
