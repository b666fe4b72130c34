#pragma once

#include <asio/ip/address.hpp>
#include <memory>
#include <string>
#include <vector>

#include "stretto/base/doorbell.h"
#include "stretto/transport/hosts/carrier.h"
#include "stretto/transport/hosts/hello.h"
#include "stretto/transport/hosts/network_thread.h"
#include "stretto/transport/hosts/tcp.h"

namespace stretto {

/// The version of the UCX that this process can load, as "1.13.1". Errc::unavailable says what there is instead, and
/// what is needed.
Result<std::string> ucx_version();

/// The active ports for RDMA of this host, as "mlx5_0:1". `folder`: in which the kernel lists devices.
std::vector<std::string> active_rdma_ports(const std::string& folder = "/sys/class/infiniband");

/// How a rank takes part in messages by UCX.
struct UcxOptions {
  int rank = 0;
  int ranks = 1;
  Token token{};            ///< of the job: messages without its hash are thrown away
  asio::ip::address at;     ///< of the interface over which messages go where there is no RDMA
  std::string ports = {};   ///< at which UCX listens, "20000-20100"; empty: any
  Duration missed_after{};  ///< MissedPeers::limit; zero: nobody is missed
};

/// Messages by UCX (libucp, which is loaded now), in pieces (PieceCarrier). Over RDMA it does the same as over TCP.
///
/// `network`, `control` and `doorbell` outlive it. Throws Failure where UCX cannot be started.
std::unique_ptr<Carrier> start_ucx(NetworkThread& network, TcpCarrier& control, const UcxOptions& options,
                                   const Doorbell& doorbell);

}  // namespace stretto
