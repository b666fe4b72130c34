#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "stretto/base/descriptor.h"
#include "stretto/base/error.h"
#include "stretto/base/shared_counter.h"
#include "stretto/membership/job.h"

namespace stretto {

/// A message of a rank to the process that started it.
struct RankMessage {
  enum class Kind : std::uint8_t {
    report,       ///< RankContext::report()
    cause,        ///< what it fails with
    consequence,  ///< the same, because another rank stops the job
    loss,         ///< the same, because another rank is not there any more
  };
  Kind kind = Kind::report;
  std::string text;
};

/// The last messages of a rank that speaks for itself: its report, and its complaint.
struct RankMessages {
  std::string report = {};
  std::optional<RankMessage> complaint = {};

  void hear(const RankMessage& message) {
    if (message.kind == RankMessage::Kind::report) {
      report = message.text;
    } else {
      complaint = message;
    }
  }
};

/// Writes a message to the pipe of a rank. A message that no one reads any more is dropped.
void write_message(int fd, RankMessage::Kind kind, std::string_view text);

/// The end of that pipe from which the process that started the rank reads.
class RankPipe {
 public:
  RankPipe() = default;
  /// `fd` does not block.
  explicit RankPipe(Descriptor fd) : fd_(std::move(fd)) {}

  /// −1 once there is no more to read.
  int fd() const { return fd_.get(); }
  void close() { fd_.close(); }
  /// Reads the bytes that are there, so that the rank does not block while it writes.
  void drain();
  /// The next message that has come whole.
  std::optional<RankMessage> next();

 private:
  Descriptor fd_;
  std::string bytes_;  // bytes read that are not part of a message returned by next()
};

/// The exit status of a process whose rank has returned `status`: the same in its lowest eight bits, which are all that
/// a parent sees, but never 0 for a status that is not 0.
int process_status(int status);

/// A rank's message about what it fails with. It is no cause if it is about another rank, lost or stopping the job:
/// that rank sends the cause itself.
RankMessage message_of(const Error& error, int rank);
/// The same about the exception that the rank's function has thrown. Requires: inside a catch clause.
RankMessage message_of_exception(int rank);

/// The counter of a job that tell_why() takes, beyond those that its applications borrow.
inline constexpr int kRanksThatTold = RankContext::kNumCounters;

/// Says on standard error why a rank ends, unless another one has or does: where this rank ends because another stops
/// the job, that one has a few seconds to say why. One that is lost has said it before, or never will: the others have
/// a moment to hear of it, too. `told` is the same counter on all ranks, 0 at the start.
void tell_why(const RankMessage& why, SharedCounter& told);

/// From now on, where there is no memory for an object, this process calls `say` and ends with `status`, and no thread
/// throws std::bad_alloc: most of what a rank runs in cannot hand it on (helper threads, destructors, other ranks'
/// waits). `say` must need no memory. For processes that are nothing but ranks; once in each.
void end_without_memory(std::function<void()> say, int status);

/// The text of the UsageError for a second RankContext::report().
std::string second_report(int rank);

}  // namespace stretto
