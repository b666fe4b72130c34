#pragma once

#include <span>
#include <string>
#include <utility>

#include "stretto/membership/job.h"
#include "stretto/membership/rank_end.h"

namespace stretto {

/// The context of a rank over a transport that its caller has made: a thread of this process, on a virtual clock or
/// not. Such ranks share the counters that they are given, and no memory. What the rank reports stays here.
class RankOverTransport final : public RankContext {
 public:
  /// As World's. At most as many counters can be asked for as are given.
  RankOverTransport(Transport& transport, const Clock& clock, Driver* driver = nullptr,
                    std::span<MemoryCounter> counters = {})
      : world_(transport, clock, driver), counters_(counters) {}

  World& world() override { return world_; }
  SharedCounter& counter(int index) override { return counters_[static_cast<std::size_t>(index)]; }
  std::span<std::byte> extra() override { return {}; }
  bool interrupted() override { return false; }
  void report(std::string report) override {
    if (!report_.empty()) throw UsageError(second_report(rank()));
    report_ = std::move(report);
  }
  void complain(const Error&) override {}

  std::string reported() && { return std::move(report_); }  ///< what the rank has reported; empty: nothing

 private:
  World world_;
  const std::span<MemoryCounter> counters_;
  std::string report_;
};

}  // namespace stretto
