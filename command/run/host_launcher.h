#pragma once

#include <poll.h>

#include <functional>
#include <string>
#include <vector>

#include "command/run/launcher_words.h"
#include "command/run/output_of_ranks.h"
#include "command/run/places/host_list.h"
#include "command/run/tagged_lines.h"
#include "stretto/base/clock.h"
#include "stretto/base/descriptor.h"

namespace stretto::command {

/// A remote shell and its options, as --rsh has them.
std::vector<std::string> words_of_shell(const std::string& rsh);

/// The launcher on one of a job's hosts, for the one that has started it by a remote shell: its words, and those of the
/// shell. One thread.
class HostLauncher {
 public:
  HostLauncher(HostRanks host, int first) : host_(std::move(host)), first_(first), lines_("[" + host_.name + "] ") {}

  /// The command that starts it. `rsh`: the words of the remote shell; where they end with a host's name, a host can
  /// take for an option what follows.
  std::vector<std::string> command(const std::string& rsh, Duration answer_within, const std::string& program) const;

  /// The ends of its three pipes for the shell's process. Throws Failure (Errc::io).
  struct Ends {
    Descriptor in;
    OutputOfRanks::Ends output;
  };
  Ends open();

  const std::string& name() const { return host_.name; }
  int ranks() const { return host_.ranks; }
  bool is_here() const { return host_.is_here(); }
  int first() const { return first_; }
  /// "rank 3", "ranks 4 to 7".
  std::string ranks_in_words() const;

  /// Descriptors to wait for before exchange(). `has_room`: what ranks write can be passed on.
  void look_at(std::vector<pollfd>& looked_at, bool has_room) const;
  /// A beat is left out where others still wait to be sent.
  void say(const CallerWords& words);
  /// Sends and reads as much as can be; `take` gets each word. Lines of the remote shell go to `output`, from the
  /// launcher's hello on.
  void exchange(OutputOfRanks& output, bool has_room, const std::function<void(const HostWords&)>& take);
  /// Its process has ended: what it has written last is all.
  void end(OutputOfRanks& output, const std::function<void(const HostWords&)>& take);
  /// Ends its standard input.
  void hang_up() { to_.close(); }

  bool has_said_hello() const { return !version_.empty(); }
  /// With which its hello ends.
  const std::string& version() const { return version_; }
  /// The last line of the remote shell before the hello; empty: there is none.
  std::string last_of_shell() const;
  /// The time at which something has come.
  TimePoint heard_at() const { return heard_at_; }

 private:
  void read_words(const std::function<void(const HostWords&)>& take);
  /// Returns whether there were any.
  bool read_errors(OutputOfRanks& output);

  const HostRanks host_;
  const int first_;
  const SteadyClock clock_;
  Descriptor to_, from_, errors_;
  std::string to_send_, received_;
  std::string version_;
  std::string of_shell_;  // before the hello, the last of it
  TaggedLines lines_;
  TimePoint heard_at_;
};

}  // namespace stretto::command
