#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "stretto/base/clock.h"
#include "stretto/base/function_ref.h"
#include "stretto/membership/job_processes.h"
#include "stretto/membership/views/view.h"
#include "stretto/transport/hosts/hello.h"

namespace stretto {

/// The master of a job whose members change, and are processes of this host, in the process that has started them: it
/// keeps the register, and listens on the loopback address, with a thread of its own. The owner's thread alone calls.
class JobMaster {
 public:
  struct Options {
    Token token{};                             ///< of the job
    int least = 1;                             ///< members with which the job goes on
    int most = 1;                              ///< members at a time; a first view has as many, or those that are left
    Duration wait = Duration(0);               ///< for members, where too few are left, before the job is given up
    Duration wait_to_leave = Duration(0);      ///< the same, where members leave and too few would be left
    std::vector<std::uint64_t> position = {};  ///< View::position before the first view
  };
  explicit JobMaster(const Options& options);
  ~JobMaster();
  JobMaster(const JobMaster&) = delete;
  JobMaster& operator=(const JobMaster&) = delete;

  /// The port where members come.
  std::uint16_t port() const;
  /// The process of a member has ended.
  void lose(MemberNumber number);
  /// The register as it is now.
  Registered known();

  /// Does what has come up since the last call, about ten times a second: ends processes of members that the others go
  /// on without, which have some seconds to end by themselves, and their words to be read; gives `tell` lines for a
  /// person to read. Members have the numbers of `processes`.
  void fulfil_wishes(JobProcesses& processes, FunctionRef<void(const std::string&)> tell);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace stretto
