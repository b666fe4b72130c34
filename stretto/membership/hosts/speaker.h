#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "stretto/base/clock.h"
#include "stretto/base/error.h"
#include "stretto/membership/hosts/liveness/news.h"
#include "stretto/membership/hosts/meeting.h"
#include "stretto/transport/job_memory.h"

namespace stretto {

/// A rank's part in knowing who is lost. One rank of each host speaks for it: it holds a connection to some other
/// hosts, sends a beat on each ten times within the limit, watches the processes of its own host, and writes what it
/// hears into the host's memory, with how far the host's clock is ahead of rank 0's. Its deputy takes over within a
/// second (HostRule says what follows from what).
///
/// On the network's thread: no engine, no application and no Python is asked. A connection carries beats and news
/// alone, so that the kernel of a host answers them while its processes stand still.
class Speaker {
 public:
  /// Hears of every rank of another host that is lost, once, on the network's thread.
  using Lost = std::function<void(const Error& why)>;
  /// All outlive it. `memory`: of this rank's host. `limit`: a host is lost that is silent for so long.
  Speaker(NetworkThread& network, const Roster& roster, JobMemory& memory, HostNews& news, int rank, Duration limit,
          Lost lost);
  ~Speaker();
  Speaker(const Speaker&) = delete;
  Speaker& operator=(const Speaker&) = delete;

  /// After this rank has left in its host's memory: says so to the other hosts where it is the last one of its own.
  /// Returns when they have it, or after two seconds.
  void leave();

 private:
  class Impl;
  NetworkThread& network_;
  Door& door_;
  std::shared_ptr<Impl> impl_;
};

}  // namespace stretto
