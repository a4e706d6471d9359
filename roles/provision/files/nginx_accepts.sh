# shellcheck shell=sh
# A server block is judged in the context that nginx.conf of the distribution gives it. In check mode on a fresh host nginx, or the
# certificate, is not there yet; a run has made both by now.
if ! command -v nginx >/dev/null || [ ! -e /var/lib/bedplate/provision/tls/server.pem ]; then
    echo "not judged: nginx or its certificate is missing" >&2
    exit 0
fi
scratch=$(mktemp -d) || exit 1
trap 'rm -rf "$scratch"' EXIT
cat >"$scratch/nginx.conf" <<END
pid $scratch/pid;
error_log stderr;
events {}
http {
    include $1;
}
END
nginx -q -t -c "$scratch/nginx.conf"
