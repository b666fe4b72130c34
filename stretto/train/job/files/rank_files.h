#pragma once

#include <cstdint>
#include <string>

#include "stretto/base/clock.h"
#include "stretto/collective/partial_allreduce.h"
#include "stretto/observe/run_folder.h"
#include "stretto/observe/trace.h"

namespace stretto {

/// The records and the part of the trace that one rank writes into a run folder while it trains. A full disk costs
/// lines, never the training. One thread.
class RankFiles {
 public:
  /// `mode`: of the records. `start`: time 0 of the trace.
  RankFiles(RunFolder folder, int rank, LineFile::Mode mode, TimePoint start);

  const RunFolder& folder() const { return folder_; }
  void record(const StepRecord& record) { records_.add(record); }
  /// A step that began at `begin`, with the times of its record, one behind the other.
  void trace(const StepRecord& record, TimePoint begin, Duration waited);
  /// A round that the rank was handed at `now`.
  void trace(const RoundResult& result, TimePoint now);
  void trace(const TensorTimes& tensor) { trace_.tensor(tensor); }

  void flush_records() { records_.flush(); }
  void flush();
  std::uint64_t lost() const { return records_.lost() + trace_.lost(); }  ///< lines so far
  /// Why the first of them were lost; empty where none is.
  std::string why_lost() const { return records_.lost() > 0 ? records_.why_lost() : trace_.why_lost(); }

 private:
  const RunFolder folder_;
  const int rank_;
  RecordWriter records_;
  TraceWriter trace_;
};

}  // namespace stretto
