#pragma once

#include <poll.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "command/run/tagged_lines.h"
#include "stretto/base/descriptor.h"

namespace stretto::command {

/// The standard output and standard error of ranks on their way to those of this process, with a tag before each line.
/// Never waits for who reads: a terminal that is stopped stops the ranks, and not this process. Where nobody reads any
/// more, as behind `| head`, ranks hear of it at their next write, by SIGPIPE. Requires: this process ignores SIGPIPE.
class OutputOfRanks {
 public:
  /// The ends of its two pipes into which a rank writes.
  struct Ends {
    Descriptor out, errors;
  };

  OutputOfRanks() = default;
  /// All of it goes to the launcher that has started this one, as HostWords, into `to_caller`. `may_be_lost`: where
  /// nobody reads there any more ranks do not hear of it.
  OutputOfRanks(int to_caller, bool may_be_lost) : goes_to_caller_(true), may_be_lost_(may_be_lost) {
    streams_[0].fd = to_caller;
  }

  /// Adds a rank, whose lines begin with `tag`. Throws Failure (Errc::io) where there are no pipes.
  Ends add(const std::string& tag);

  /// The descriptors to wait for before pass_on().
  std::vector<pollfd> looked_at() const;
  /// Passes on as much as there is and as can be written. Returns whether that was anything.
  bool pass_on();
  /// The ranks have ended: lines without an end come out, too, once pass_on() is called. What a process still writes
  /// that a rank has left behind is lost.
  void end();
  /// Nobody reads any more.
  void drop();
  /// Whether pass_on() has something to write.
  bool pending() const;

  /// Adds bytes that come out behind what is there, to standard error or else to standard output, or to the caller.
  void put(std::string_view bytes, bool to_errors = false);
  /// Whether who reads is not far behind.
  bool has_room() const;
  /// Whether somebody reads.
  bool is_read() const;

 private:
  struct Stream {
    int fd;
    std::string bytes = {};  // not written yet
    bool is_open = true;
  };
  struct Source {
    std::size_t stream;
    Descriptor from_rank;
    TaggedLines lines;
  };

  /// Where what a source writes goes.
  Stream& stream_of(const Source& source) { return streams_[goes_to_caller_ ? 0 : source.stream]; }
  /// Bytes of a rank; none: it has no more.
  void take(Source& source, std::string_view bytes);
  bool read(Source& source);
  bool write(Stream& stream);
  static void close(Stream& stream);

  bool goes_to_caller_ = false, may_be_lost_ = false;
  std::array<Stream, 2> streams_{{{STDOUT_FILENO}, {STDERR_FILENO}}};
  std::vector<Source> sources_;
};

}  // namespace stretto::command
