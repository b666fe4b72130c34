#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "stretto/base/clock.h"
#include "stretto/membership/job.h"
#include "stretto/membership/rank_end.h"
#include "stretto/membership/views/view.h"
#include "stretto/transport/hosts/hello.h"

namespace stretto {

/// As whom a process comes to the master of a job whose members change.
struct ChangingRankOptions {
  std::string host = "127.0.0.1";  ///< address of the master
  std::uint16_t port = 0;
  std::string etcd = {};                              ///< MemberPlace::etcd
  Token token{};                                      ///< of the job
  MemberNumber number = 0;                            ///< that no process of the job has had before
  int place = 0;                                      ///< Changes::place()
  int most = 1;                                       ///< Changes::most()
  Duration patience = Duration(0);                    ///< so long another master may come, where none is there at first
  Duration answer_within = std::chrono::seconds(10);  ///< by the master, to the hello
  std::map<std::string, std::string> terms = {};      ///< View::terms
  pid_t starter = 0;  ///< the process whose SIGTERM ends this one at once; 0: the one that has started this session
  std::function<bool()> interrupted = {};            ///< RankContext::interrupted(); empty: never
  std::function<void(const RankMessage&)> say = {};  ///< is given what the rank reports and complains of; there is one
  /// Called about ten times a second while this rank waits, on its thread. What it throws passes through the call.
  std::function<void()> look = {};
};

/// Makes the context of a rank whose job's members change (RankContext::changes()). They are on one host where the
/// master's address is a loopback one, and meet in its memory; else on any hosts, and meet at an address that the first
/// of them has the master tell the others, for each world anew. The rank comes to the job when its world is first asked
/// for, also by rank() and size(): the others wait for it from then on, and not while it reads its data. A thread of
/// its own hears the master, so that the engine can be stopped while the application computes, and makes the connection
/// to it anew where that ends or goes dead. That call waits for the
/// rank's first view, and for the members of that. It throws Failure where the master cannot be reached within the
/// patience (Errc::unavailable, also where something else listens there), or says that this process does not fit
/// (Errc::bad_input). While the context lives SIGTERM has this process leave the job (LeaveNotice).
std::unique_ptr<RankContext> make_changing_rank(ChangingRankOptions options);

}  // namespace stretto
