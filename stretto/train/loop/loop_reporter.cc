#include "stretto/train/loop/loop_reporter.h"

#include <cmath>
#include <cstdio>
#include <filesystem>

#include "stretto/base/error.h"

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
