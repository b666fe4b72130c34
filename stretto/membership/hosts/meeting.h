#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "stretto/base/clock.h"
#include "stretto/base/error.h"
#include "stretto/membership/hosts/bulletin.h"
#include "stretto/membership/hosts/control.h"
#include "stretto/membership/hosts/interfaces.h"
#include "stretto/membership/hosts/server.h"
#include "stretto/membership/hosts/settings.h"
#include "stretto/transport/hosts/door.h"
#include "stretto/transport/hosts/hello.h"
#include "stretto/transport/hosts/link_watch.h"
#include "stretto/transport/hosts/network_thread.h"
#include "stretto/transport/members.h"

namespace stretto {

/// How the ranks of several hosts meet.
struct HostsOptions {
  std::string version;                           ///< the same on all ranks, as "stretto 1.0.0"
  Settings settings = {};                        ///< the same on all ranks
  std::string offer = {};                        ///< carrier_offer() of this rank
  Duration timeout = std::chrono::minutes(5);    ///< for the last rank to come
  std::string interfaces = wanted_interfaces();  ///< addresses_of_interfaces()
  PortRange ports = wanted_ports();  ///< at which each process listens; of rank 0 where its address is not given
  std::function<void()> look = {};   ///< RendezvousOptions::look
  /// Is told every ten seconds who is missing; empty: stderr.
  std::function<void(const std::string& line)> tell = {};
  /// Is told that rank 0 has not been reached for the limit. Each attempt to reach it takes a part of that, and a
  /// connection to it that has gone dead ends within the limit.
  MissedPeers missed = {};
};

/// Each rank's knowledge of the others when all have met.
struct Roster {
  Members members{1};  ///< ranks of one network namespace of one machine are taken to be on one host
  std::vector<asio::ip::tcp::endpoint> addresses;  ///< where each rank listens
  std::vector<std::string> names;                  ///< of each rank's host, as it calls itself
  std::vector<std::string> offers;                 ///< HostsOptions::offer of each rank
  std::string name;                                ///< of the meeting, which no other has
  Token token{};
  std::unique_ptr<Door> door;         ///< at which this rank listens
  std::unique_ptr<JobServer> server;  ///< on rank 0: what answers the others; ends with it
  std::unique_ptr<Control> control;   ///< to rank 0, on rank 0, too
};

/// Meets the other ranks of a job, on any hosts, at the socket that rank 0 opens and publishes. `network` outlives what
/// is returned.
///
/// No rank returns with a Roster before all have come. What keeps them apart is told on all that have come, with the
/// names of ranks and hosts: Errc::timeout, Errc::lost_peer, Errc::bad_input (two processes with one number, other
/// versions, other settings, other numbers of ranks).
Result<Roster> meet_hosts(NetworkThread& network, Bulletin& bulletin, const HostsOptions& options);

}  // namespace stretto
