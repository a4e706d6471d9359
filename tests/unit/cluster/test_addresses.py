"""Addresses and networks are read and counted as netaddr reads and counts them."""

from __future__ import annotations

import netaddr
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ansible_collections.bedplate.cluster.plugins.plugin_utils.cluster.addresses import Book, networks_of, number_of
from ansible_collections.bedplate.cluster.plugins.plugin_utils.cluster.schema.fields import Mistakes

OCTETS = st.integers(0, 300).map(str) | st.sampled_from(["", "-1", "00", "010", " 1", "1 ", "0x1", "x", "\uff11"])
ADDRESSES = st.integers(0, 2**32 - 1).map(lambda number: str(netaddr.IPAddress(number, 4))) | st.lists(
    OCTETS, min_size=1, max_size=5
).map(".".join)
LENGTHS = st.integers(-1, 33).map(str) | st.sampled_from(
    ["", "024", " 24", "24 ", "+24", "2_4", "24/8", "255.255.255.0", "0.0.0.255", "255.0.255.0", "255.255.255.00", "x"]
)
CIDRS = st.tuples(ADDRESSES, LENGTHS).map("/".join) | ADDRESSES
REFUSED = (netaddr.AddrFormatError, ValueError)


@given(text=ADDRESSES)
@example("::1")
@example("10.0.0.1/24")
def test_an_address_is_read_as_netaddr_reads_it(text: str) -> None:
    mistakes = Mistakes({})
    try:
        expected = int(netaddr.IPAddress(text, version=4))
    except REFUSED:
        expected = None
    assert number_of(text, ("hosts",), mistakes) == expected
    assert len(mistakes.found) == (expected is None)


@given(cidr=CIDRS)
@example("10.0.0.0/ 24")
@example("10.0.0.0/255.255.255.0")
@example("10.0.0.0/31")
@example("10.0.0.0/32")
@example("0.0.0.0/0")
@example("2001:db8::/32")
def test_a_network_is_read_as_netaddr_reads_it(cidr: str) -> None:
    mistakes = Mistakes({})
    found = networks_of({"management": {"cidr": cidr, "gateway": None, "start": None}}, mistakes).get("management")
    try:
        expected = netaddr.IPNetwork(cidr, version=4)
    except REFUSED:
        expected = None
    if expected is None or expected.size < 4:
        assert found is None
    else:
        assert found is not None
        assert (found.cidr, found.first, found.last) == (str(expected.cidr), expected.first, expected.last)
    refused = expected is None or expected.ip != expected.network or expected.size < 4
    assert bool(mistakes.found) == refused


@pytest.mark.parametrize("key", ["gateway", "start"])
@given(
    network=st.tuples(st.integers(0, 2**32 - 1), st.integers(8, 30)).map(
        lambda pair: netaddr.IPNetwork(f"{netaddr.IPAddress(pair[0])}/{pair[1]}").cidr
    ),
    offset=st.integers(-3, 3),
    last=st.booleans(),
)
def test_a_gateway_or_start_is_one_of_netaddrs_hosts(
    key: str, network: netaddr.IPNetwork, offset: int, last: bool
) -> None:
    mistakes = Mistakes({})
    number = min(max((network.last if last else network.first) + offset, 0), 2**32 - 1)
    address = netaddr.IPAddress(number, 4)
    networks_of({"management": {"cidr": str(network), "gateway": None, "start": None, key: str(address)}}, mistakes)
    outside = address not in network or address in (network.network, network.broadcast)
    assert len(mistakes.found) == outside


@given(
    network=st.tuples(st.integers(0, 2**32 - 1), st.integers(20, 30)).map(
        lambda pair: netaddr.IPNetwork(f"{netaddr.IPAddress(pair[0])}/{pair[1]}").cidr
    ),
    offset=st.integers(0, 300),
    count=st.integers(1, 300),
)
def test_counted_addresses_are_consecutive_or_refused(network, offset, count):
    mistakes = Mistakes({})
    gateway, start = str(network[1]), min(network.first + 1 + offset, network.last - 1)
    data = {"cidr": str(network), "gateway": gateway, "start": str(netaddr.IPAddress(start))}
    names = [f"n{number}" for number in range(count)]
    found = Book(networks_of({"management": data}, mistakes)["management"], mistakes).run(names, {}, None, ((), ()))
    room = [number for number in range(start, network.last) if number != network.first + 1]
    if count > len(room):
        assert "is outside management" in mistakes.found[0].message
    else:
        assert mistakes.found == []
        assert [int(netaddr.IPAddress(address)) for address in found] == room[:count]
