#include "stretto/train/loop/loop_reporter.h"

#include <cmath>
#include <cstdio>
#include <filesystem>

#include "stretto/base/error.h"
#include "stretto/train/job/files/line_gatherer.h"

namespace stretto {

LoopReporter::LoopReporter(const std::string& out, int index, int rank) : rank_(rank) {
  if (out.empty()) return;
  folder_ = loop_report_folder(out, index);
  std::error_code error;
  std::filesystem::create_directories(folder_, error);
  const auto folder = RunFolder::open(folder_);
  if (folder) {
    records_.emplace(*folder, rank);
  } else if (rank == 0) {  // no rank can
    complain({Errc::io, text("folder '", folder_, "' cannot be made: ", error.message())});
  }
}

void LoopReporter::look_together(Meeting& meeting, Driver& driver, const Members& members) {
  if (members.hosts() == 1) {
    meeting.gather(driver, {});
    return;
  }
  FolderProbe probe;
  const std::string words = meeting.broadcast_text(driver, [&] {
    probe = FolderProbe(folder_);
    return probe.words();
  });
  if (rank_ != 0) probe = FolderProbe::in(folder_, words);
  view_ = stretto::look_together(meeting, driver, members, probe);
}

void LoopReporter::bring_together(Engine& engine, Meeting& meeting, Driver& driver) {
  if (!view_ || view_->seen_by_all()) return;
  const auto folder = RunFolder::open(folder_);  // not there: it has been said, and nobody has records in it
  const auto records_of = [&](int rank) { return folder ? folder->records_file(rank) : std::string(); };
  const GatheredLines gathered =
      gather_lines(engine, meeting, driver, *view_,
                   {.files_of = [&](int rank) { return std::vector{records_of(rank)}; },
                    .place = [&](int rank, std::size_t, std::string_view) -> LineGathering::Place {
                      return {.path = records_of(rank)};
                    }});
  if (gathered.lost > 0) {
    complain({Errc::io, text(gathered.lost, " records of other hosts could not be written to '", folder_,
                             "': ", gathered.why_lost)});
  }
  if (!folder || !view_->is_keeper(rank_) || !gathered.mine_are_there) return;
  for (const int rank : view_->kept_by(rank_)) Disk().remove(records_of(rank));
  std::error_code is_used;
  std::filesystem::remove(folder_, is_used);
}

void LoopReporter::step(Duration begin, Duration computed, Duration waited) {
  if (!wanted()) return;
  records_->add({.step = steps_++, .rank = rank_, .begin = begin, .computed = computed, .waited = waited});
}

void LoopReporter::record(const std::string& name, double value) {
  if (!std::isfinite(value)) throw UsageError(text("record('", name, "', ", value, "): expected a finite number"));
  recorded_[name] = value;
  if (report_) write();
}

void LoopReporter::finish(const LoopReport& report) {
  if (!wanted()) return;
  records_->flush();
  if (const auto complete = records_->complete(); !complete) complain(complete.error());
  if (rank_ != 0) return;
  report_ = report;
  write();
}

void LoopReporter::write() {
  report_->recorded = recorded_;
  if (const auto written = write_loop_report(folder_, *report_); !written) complain(written.error());
}

void LoopReporter::complain(const Error& error) {
  if (complained_) return;
  complained_ = true;
  std::fprintf(stderr, "stretto: no report: %s\n", error.message.c_str());
}

}  // namespace stretto
