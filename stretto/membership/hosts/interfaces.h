#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "stretto/base/error.h"
#include "stretto/transport/hosts/network_thread.h"

namespace stretto {

/// The addresses at which this host may be reached, in the order in which the kernel names its interfaces: those that
/// are up, without loopback and without link-local addresses.
///
/// `wanted`, where it is not empty, chooses interfaces as NCCL_SOCKET_IFNAME does: prefixes with commas between them,
/// "eth,ib"; "=eth0", exactly that; "^docker,lo", all but these. Then loopback counts like any other. Errc::unavailable
/// names the interfaces that there are where none has an address.
Result<std::vector<asio::ip::address>> addresses_of_interfaces(const std::string& wanted);

/// The wish of STRETTO_INTERFACE, else GLOO_SOCKET_IFNAME, else NCCL_SOCKET_IFNAME; empty: none of them is there.
std::string wanted_interfaces();

/// The first of addresses_of_interfaces(wanted_interfaces()), of the kind of `kind` if there is one of these; the
/// loopback one where this host has none. Throws Failure where the interfaces that are wanted have none.
asio::ip::address first_reachable_address(const asio::ip::address& kind = {});

/// Ports at which a process may listen.
struct PortRange {
  std::uint16_t first = 0, last = 0;  ///< 0: any
};
/// The range that STRETTO_PORTS says, as "20000-20100"; any where it is not there. Throws UsageError for another text.
PortRange wanted_ports();

}  // namespace stretto
