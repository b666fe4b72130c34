#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "stretto/base/clock.h"
#include "stretto/membership/hosts/settings.h"
#include "stretto/transport/hosts/door.h"
#include "stretto/transport/hosts/network_thread.h"

namespace stretto {

/// As what rank 0 has the others meet.
struct JobServerOptions {
  int ranks = 1;
  std::string version;  ///< of all
  Settings settings;    ///< of all
  std::string name;     ///< of the meeting
  Duration timeout{0};  ///< for the last rank to come
  /// Is told who is missing, every ten seconds, and, after the meeting, whose words could not be read. The network's
  /// thread.
  std::function<void(const std::string& line)> tell;
};

/// The side of rank 0 to which all ranks of a job on several hosts speak: on rank 0, for which it is one of them. It
/// has them meet, and then answers for as long as the job lasts: counters, reports, goodbyes. On the network's thread:
/// no engine and no application is asked.
class JobServer {
 public:
  /// Takes those that come to `door` for the meeting.
  JobServer(NetworkThread& network, Door& door, const JobServerOptions& options);
  ~JobServer();
  JobServer(const JobServer&) = delete;
  JobServer& operator=(const JobServer&) = delete;

  /// Waits until every rank but this one has said goodbye or is lost, at most `limit`, and calls `look` ten times a
  /// second. Returns which have said goodbye.
  std::vector<bool> wait_for_goodbyes(Duration limit, const std::function<void()>& look);
  /// No goodbye comes from this rank any more. On the network's thread.
  void lose(int rank);
  /// The reports of all ranks so far.
  std::vector<std::string> reports();

 private:
  class Impl;
  NetworkThread& network_;
  Door& door_;
  std::shared_ptr<Impl> impl_;
};

}  // namespace stretto
