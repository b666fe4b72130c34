#pragma once

#include <poll.h>

#include <string>
#include <vector>

#include "command/run/output_of_ranks.h"
#include "stretto/base/descriptor.h"

namespace stretto::command {

/// Starts of programs in child processes, one after the other: the child becomes the program, or says here why it
/// cannot. While this lives SIGPIPE is ignored: a write to a pipe that nobody reads is an error. The programs find it
/// as before.
class ProgramStart {
 public:
  ProgramStart();
  ~ProgramStart();
  ProgramStart(const ProgramStart&) = delete;
  ProgramStart& operator=(const ProgramStart&) = delete;

  /// Before the child is forked. False: errno says why not.
  bool open();
  /// In the child. `program` is looked for on PATH, and has its arguments behind it; `input`: −1 for that of this
  /// process; of `output` what is not open is this process's.
  [[noreturn]] void become(const std::vector<std::string>& program, const std::vector<std::string>& environment,
                           int input, const OutputOfRanks::Ends& output) const;
  /// In the parent, once the child has been forked.
  void be_parent() { to_parent_.close(); }

  /// Whether it is not known yet whether the program runs.
  bool is_open() const { return answer_.get() >= 0; }
  pollfd looked_at() const { return {answer_.get(), POLLIN, 0}; }
  /// Takes word of the child, if there is any. Returns why it cannot become the program, as errno; 0: not that.
  int hear();

 private:
  void (*signal_before_)(int);
  Descriptor answer_, to_parent_;
};

}  // namespace stretto::command
