#pragma once

#include <poll.h>

#include <optional>
#include <string>

#include "command/run/launcher_words.h"
#include "command/run/program_ranks.h"
#include "stretto/base/clock.h"
#include "stretto/base/descriptor.h"
#include "stretto/base/function_ref.h"

namespace stretto::command {

/// The launcher that has started this one for one of its hosts, by a remote shell: it is at the other end of standard
/// input and output, which are this object's alone from then on. This process gets its environment and its folder. One
/// thread.
class CallingLauncher {
 public:
  /// Says hello.
  CallingLauncher();

  /// Waits for the job, and until all its hosts are ready. Nothing where this host cannot begin, which the caller has
  /// been told. Throws Failure where the caller is gone.
  std::optional<ProgramRanks> take_job();

  /// Where HostWords go.
  int to_caller() const { return out_.get(); }
  pollfd looked_at() const { return {in_.get(), POLLIN, 0}; }
  /// Takes what the caller has said meanwhile. Does not wait.
  void hear(FunctionRef<void(const CallerWords& words)> take);
  /// Whether it has ended, or has been silent for the liveness of the job.
  bool is_gone() const;
  /// Whether it is to be told that this launcher is there.
  bool is_beat_due();

 private:
  /// Takes bytes that have come; false: there are none.
  bool read();
  CallerWords wait_for(CallerWords::Kind kind);
  void say(const HostWords& words) const;
  /// As the caller's.
  void take_environment(const CallerWords& words);

  const SteadyClock clock_;
  Descriptor in_, out_;
  std::string received_;
  bool has_ended_ = false;
  TimePoint heard_at_, beat_at_;
  Duration liveness_;
};

/// `stretto run --from-launcher`. Returns the exit status.
int run_for_caller();

}  // namespace stretto::command
