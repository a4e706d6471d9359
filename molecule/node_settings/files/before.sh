#!/bin/sh -e
useradd --create-home alice
cp /usr/bin/sleep /usr/local/sbin/slurmd
cat >/etc/systemd/system/slurmd.service <<END
[Service]
ExecStart=/usr/local/sbin/slurmd infinity
[Install]
WantedBy=multi-user.target
END
systemctl daemon-reload
systemctl enable --now --quiet slurmd
mkdir -p /boot/loader/entries
cat >/boot/loader/entries/a.conf <<END
title Linux
linux /vmlinuz
options root=/dev/vda1 iommu=soft quiet
END
