#include "stretto/train/job/files/rank_files.h"

#include <utility>

namespace stretto {

RankFiles::RankFiles(RunFolder folder, int rank, LineFile::Mode mode, TimePoint start)
    : folder_(std::move(folder)),
      rank_(rank),
      records_(folder_, rank, mode),
      trace_(folder_.trace_file(rank), rank, start) {}

void RankFiles::trace(const StepRecord& record, TimePoint begin, Duration waited) {
  TimePoint at = begin;
  const std::pair<TraceWriter::Kind, Duration> slices[] = {{TraceWriter::Kind::compute, record.computed},
                                                           {TraceWriter::Kind::paced, record.paced},
                                                           {TraceWriter::Kind::delay, record.delayed},
                                                           {TraceWriter::Kind::wait, waited}};
  for (const auto& [kind, duration] : slices) {
    trace_.slice(kind, at, duration, record.step);
    at = at + duration;
  }
}

void RankFiles::trace(const RoundResult& result, TimePoint now) {
  const RoundHeader& header = *result.header;
  const auto fate = !header.names_ranks()          ? TraceWriter::Fate::unknown
                    : header.fresh.contains(rank_) ? TraceWriter::Fate::fresh
                    : header.stale.contains(rank_) ? TraceWriter::Fate::stale
                                                   : TraceWriter::Fate::null;
  trace_.round({.round = result.round,
                .fate = fate,
                .arrived = header.num_arrived(),
                .contributors = header.contributors(),
                .batches = header.batches,
                .staleness = header.max_staleness(result.round)},
               now);
}

void RankFiles::flush() {
  records_.flush();
  trace_.flush();
}

}  // namespace stretto
