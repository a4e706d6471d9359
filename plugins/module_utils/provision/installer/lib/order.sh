# SPDX-License-Identifier: GPL-3.0-or-later
# shellcheck shell=dash disable=SC2015,SC2034,SC2154
# The order: key=value lines that plugins/module_utils/provision/order_text.py writes.

KEYS="id node serial mac disk wipe server token issued image image_sha256 raw_sha256 raw_bytes root_start seed_sha256 address gateway host_key"

# Sets order_KEY for each key.
read_order() {
    [ -s "$CONF/ca.pem" ] || refuse "no ca.pem beside the order"
    [ -s "$CONF/order" ] || refuse "no order"
    lines=0 seen=" " ended=""
    while IFS= read -r line || [ -n "$line" ]; do
        [ -z "$ended" ] || refuse "the order has lines behind its end"
        key=${line%%=*} value=${line#*=}
        case $value in *[!]A-Za-z0-9._:/+#\ [-]*) refuse "the order's $key has a character that is not allowed" ;; esac
        case $lines,$line in
        "0,bedplate_order=1") ;;
        0,*) refuse "the order does not begin with bedplate_order=1" ;;
        "$lines,end=$lines") ended=yes ;;
        *)
            case " $KEYS " in *" $key "*) ;; *) refuse "the order has the unknown key $key" ;; esac
            case $seen in *" $key "*) refuse "the order has the key $key twice" ;; esac
            [ -n "$value" ] && [ "$key" != "$line" ] || refuse "the order's $key has no value"
            seen="$seen$key "
            eval "order_$key=\$value"
            ;;
        esac
        lines=$((lines + 1))
    done <"$CONF/order"
    [ -n "$ended" ] || refuse "the order is cut"
    for key in $KEYS; do
        case $seen in *" $key "*) ;; *) refuse "the order has no $key" ;; esac
    done
    check_order
}

check_order() {
    for key in raw_bytes root_start issued; do
        eval "value=\$order_$key"
        is_number "$value" || refuse "the order's $key is not a number"
    done
    for key in image_sha256 raw_sha256 seed_sha256 token; do
        eval "value=\$order_$key"
        is_hash "$value" || refuse "the order's $key is not 64 hexadecimal digits"
    done
    case $order_id in *[!0-9a-f]*) refuse "the order's id is not hexadecimal" ;; esac
    case $order_wipe in yes | no) ;; *) refuse "the order's wipe is neither yes nor no" ;; esac
    case $order_host_key in seed | machine) ;; *) refuse "the order's host_key is neither seed nor machine" ;; esac
    case $order_server,$order_image in https://*,https://*) ;; *) refuse "the order's server or image is not https" ;; esac
    case $order_mac in ??:??:??:??:??:??) ;; *) refuse "the order's mac is not an address" ;; esac
    [ $((order_raw_bytes % MIB)) = 0 ] && [ $((order_root_start % MIB)) = 0 ] && [ "$order_root_start" -ge $((2 * MIB)) ] &&
        [ "$order_raw_bytes" -gt "$order_root_start" ] || refuse "the order's raw_bytes or root_start is not possible"
    case $order_serial in 0 | [Nn]one | "Not Specified" | "Default string" | "To be filled by O.E.M.") refuse "the order's serial identifies no machine" ;; esac
    printf 'Authorization: Bearer %s\n' "$order_token" >"$RUN/authorization"
}

# A machine without a battery has a clock at which no certificate is valid.
check_clock() {
    tool_date || refuse "date does not work"
    [ "$NOW" -lt "$order_issued" ] || return 0
    tool_set_date "$order_issued" && tool_date && [ "$NOW" -ge "$order_issued" ] || refuse "the clock is older than the order and cannot be set"
}
