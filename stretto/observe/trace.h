#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <unordered_map>

#include "stretto/base/clock.h"
#include "stretto/base/error.h"
#include "stretto/base/function_ref.h"
#include "stretto/observe/line_file.h"
#include "stretto/observe/tensor_times.h"

namespace stretto {

/// Writes one rank's steps and rounds as events of a Chrome trace, to a file of its own, without locks. A full disk
/// costs events, never the training. One thread. merge_traces() makes one file of all ranks' that Perfetto opens: for
/// each rank a track of its steps and one of the rounds it was handed, and, where it is told of tensors, a process
/// "rank 0 tensors" with a track for each.
class TraceWriter {
 public:
  enum class Kind {
    compute,  ///< real computation
    paced,    ///< slept: emulated pace
    delay,    ///< slept: injected
    wait,     ///< inside exchange
  };
  enum class Fate { fresh, stale, null, unknown };  ///< of this rank's contribution to a round

  struct Round {
    std::uint64_t round = 0;
    Fate fate = Fate::null;
    int arrived = 0;       ///< ranks
    int contributors = 0;  ///< ranks
    std::uint64_t batches = 0;
    std::uint64_t staleness = 0;  ///< of its oldest batch
  };

  /// `start`: the run's first instant, by the clock of this rank's host; time 0 of the trace.
  TraceWriter(std::string path, int rank, TimePoint start);

  /// The rank was busy with `kind` for `duration` from `begin` on, in its own step `step`. A duration of 0 is not
  /// written.
  void slice(Kind kind, TimePoint begin, Duration duration, std::uint64_t step) noexcept;
  /// A round was handed over at `when`; drawn from the one before it until then.
  void round(const Round& round, TimePoint when) noexcept;
  /// Writes the times of a tensor, as four events on its track, one behind the other: QUEUE, NEGOTIATE, FUSE, TRANSFER,
  /// also where they took no time. Of a buffer that was thrown away the last is TRANSFER (void); what follows has no
  /// QUEUE.
  void tensor(const TensorTimes& times) noexcept;

  void flush() noexcept { file_.flush(); }
  std::uint64_t lost() const { return file_.lost(); }
  std::string why_lost() const { return file_.why_lost(); }
  Result<void> complete() const { return file_.complete(); }

 private:
  int track_of(const std::string& tensor);

  LineFile file_;
  const int rank_;
  const TimePoint start_;
  TimePoint last_round_;
  std::unordered_map<std::string, int> tensor_tracks_;
};

/// Joins the files that TraceWriters have written into one trace, atomically, and removes them. Lines that are not
/// whole (a killed rank) and files that are not there are left out. Returns the number of events. Errc::io: nothing is
/// written and nothing removed.
Result<std::uint64_t> merge_traces(std::span<const std::string> parts, const std::string& path);

/// A round as a rank was handed it.
struct HandedRound {
  int rank = 0;
  Duration when{0};  ///< since the start of the run
  TraceWriter::Round round;
};

/// Hands over the rounds that TraceWriters have written, in the file's order: of all ranks in one that merge_traces()
/// has made, of one rank in a part of it. Lines that are not whole are left out. Errc::bad_input names the file and the
/// line of a round that lacks something; Errc::io if it cannot be read.
Result<LinesFound> read_traced_rounds(const std::string& path, FunctionRef<void(const HandedRound&)> take);

}  // namespace stretto
