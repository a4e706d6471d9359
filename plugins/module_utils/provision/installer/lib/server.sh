# SPDX-License-Identifier: GPL-3.0-or-later
# shellcheck shell=dash disable=SC2015,SC2034,SC2154
# The order server: claim, seed and report, over HTTPS with the order's CA. The token is in a file that curl reads.

# With no patience for devices there is none for the server.
[ "$SECONDS_TO_APPEAR" = 0 ] && ATTEMPTS=1 || ATTEMPTS=10

raise_network() {
    tool_ip_up "$NIC" || { REACHED=""; refuse "ip cannot set $NIC up"; }
    waited=0
    until only_line "$SYS/class/net/$NIC/carrier" && [ "$LINE" = 1 ]; do
        [ "$waited" -lt "$SECONDS_TO_APPEAR" ] || { REACHED=""; refuse "$NIC has no link"; }
        tool_sleep 1 || { REACHED=""; refuse "sleep does not work"; }
        waited=$((waited + 1))
    done
    tool_ip_address "$NIC" "$order_address" && tool_ip_has "$NIC" "$order_address" || { REACHED=""; refuse "ip cannot set the address of $NIC"; }
    if [ "$order_gateway" != none ]; then
        tool_ip_route "$NIC" "$order_gateway" || { REACHED=""; refuse "ip cannot set the route of $NIC"; }
    fi
    only_line "$PROC/sys/kernel/random/uuid" && [ ${#LINE} = 36 ] || { REACHED=""; refuse "the kernel has no random numbers"; }
    NONCE=$LINE
    REACHED=network
}

# Sends `key=value` lines to a path of the order; what is sent again after a lost connection is the same. Sets STATUS.
send() {
    verb=$1
    shift
    printf '%s\n' "nonce=$NONCE" "$@" >"$RUN/body"
    attempt=0
    until tool_post "$order_server/orders/$order_id/$verb" "$RUN/body" "$RUN/answer.$verb"; do
        attempt=$((attempt + 1))
        [ "$attempt" -lt "$ATTEMPTS" ] || return 1
        tool_sleep 3 || return 1
    done
}

claim() {
    say "claim order $order_id for $order_node"
    send claim "serial=$order_serial" "mac=$order_mac" "disk=$order_disk" || refuse "the order server does not answer the claim"
    only_line "$RUN/answer.claim" || LINE=""
    [ "$STATUS" = 200 ] || refuse "the order server does not allow the claim: $STATUS $LINE"
    [ "$LINE" = "claimed $order_id $NONCE" ] || refuse "the order server does not confirm the claim"
}

# Sends the result. A refusal that came before the network was raised raises it once for that.
report() {
    if [ "$REACHED" = nic ]; then
        REACHED=""
        raise_for_report || return 1
    fi
    send report "result=$1" "reason=$2" "host_key=$HOST_KEY" && only_line "$RUN/answer.report" && [ "$LINE" = "reported $order_id $1" ]
}

# As raise_network, without a refusal of its own.
raise_for_report() {
    tool_ip_up "$NIC" && tool_ip_address "$NIC" "$order_address" || return 1
    [ "$order_gateway" = none ] || tool_ip_route "$NIC" "$order_gateway" || return 1
    IFS= read -r NONCE <"$PROC/sys/kernel/random/uuid"
}

fetch_seed() {
    send seed && [ "$STATUS" = 200 ] || { only_line "$RUN/answer.seed" || LINE=""; refuse "the order server does not send the seed: $STATUS $LINE"; }
    tool_sha256 <"$RUN/answer.seed" && [ "$HASH" = "$order_seed_sha256" ] || refuse "the seed is not that of the order"
}

switch_off() {
    say "power off"
    tool_poweroff
}
