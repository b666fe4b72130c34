#include "stretto/train/job/step/rank_ordering.h"

#include <algorithm>
#include <fstream>

#include "stretto/observe/quantile.h"

namespace stretto {
namespace {

constexpr std::size_t kLags = 8;

using Rank = OrderingFigures::Rank;

/// The mean over the ranks counts for all of them.
constexpr double Rank::*kMeans[] = {&Rank::step_p50,
                                    &Rank::step_p99,
                                    &Rank::negotiation,
                                    &Rank::negotiation_share,
                                    &Rank::control_messages,
                                    &Rank::control_bytes,
                                    &Rank::cycles,
                                    &Rank::buffers,
                                    &Rank::fill,
                                    &Rank::application_cpu,
                                    &Rank::input_cpu,
                                    &Rank::background_cpu,
                                    &Rank::spin_cpu,
                                    &Rank::cycle_p50,
                                    &Rank::cycle_p99,
                                    &Rank::oversleep_p50,
                                    &Rank::oversleep_p90,
                                    &Rank::oversleep_p99,
                                    &Rank::oversleep_max};
/// Figures of the host, the same on all of its ranks: they are not added up over ranks.
constexpr std::optional<double> Rank::*kOfTheHost[] = {&Rank::slice_seconds, &Rank::throttled_periods,
                                                       &Rank::throttled_seconds};

double share(double part, double whole) {
  return whole > 0 ? part / whole : 0;
}

void append(std::vector<double>& out, const std::deque<Duration>& durations) {
  for (const Duration each : durations) out.push_back(seconds(each));
}

void set_cycles(OrderingFigures::Rank& rank, std::span<const double> cycles) {
  if (cycles.empty()) return;
  rank.cycle_p50 = quantile(cycles, 0.5);
  rank.cycle_p99 = quantile(cycles, 0.99);
}

void set_oversleeps(OrderingFigures::Rank& rank, std::span<const double> lates) {
  if (lates.empty()) return;
  rank.oversleep_p50 = quantile(lates, 0.5);
  rank.oversleep_p90 = quantile(lates, 0.9);
  rank.oversleep_p99 = quantile(lates, 0.99);
  rank.oversleep_max = std::ranges::max(lates);
}

OrderingFigures::Rank figures_of(const RankOrdering& rank) {
  const OrderingStatistics& s = rank.statistics;
  const auto steps = static_cast<double>(rank.steps);
  OrderingFigures::Rank out;
  out.step_p50 = rank.step_p50;
  out.step_p99 = rank.step_p99;
  out.negotiation = share(seconds(s.negotiation), static_cast<double>(s.tensors));
  out.negotiation_share = share(out.negotiation, rank.step_p50);
  out.control_messages = share(static_cast<double>(s.control_messages), steps);
  out.control_bytes = share(static_cast<double>(s.control_bytes), steps);
  out.cycles = share(static_cast<double>(s.cycles), steps);
  out.buffers = share(static_cast<double>(s.buffers), steps);
  out.fill = share(static_cast<double>(s.buffer_bytes), static_cast<double>(s.buffers));
  out.application_cpu = share(seconds(rank.application), steps);
  out.input_cpu = share(seconds(rank.input), steps);
  out.background_cpu = share(seconds(s.background_cpu), steps);
  out.spin_cpu = share(seconds(s.spun), steps);
  out.deviations = s.deviations;
  out.void_buffers = s.void_buffers;
  std::vector<double> lates, cycles;
  append(lates, s.oversleeps);
  append(cycles, s.cycle_times);
  set_oversleeps(out, lates);
  set_cycles(out, cycles);
  const auto times = [](const std::optional<std::uint64_t>& number, double unit) {
    return number ? std::optional(unit * static_cast<double>(*number)) : std::nullopt;
  };
  out.slice_seconds = times(rank.sharing.slice_ns, 1e-9);
  out.throttled_periods = times(rank.sharing.throttled_periods, 1);
  out.throttled_seconds = times(rank.sharing.throttled_microseconds, 1e-6);
  return out;
}

void set_stalls(OrderingFigures& figures, std::span<const RankOrdering> ranks, std::span<const double> stalls) {
  double sum = 0, shares = 0;
  for (std::size_t i = 0; i < stalls.size(); ++i) {
    const double of_step = share(stalls[i], ranks[i].step_p50);
    figures.ranks[i].stall = stalls[i];
    figures.ranks[i].stall_share = of_step;
    sum += stalls[i];
    shares += of_step;
  }
  const auto count = static_cast<double>(stalls.size());
  figures.all.stall = share(sum, count);
  figures.all.stall_share = share(shares, count);
}

}  // namespace

std::string name_of_this_clock() {
  std::string name;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> name;
  return name;
}

OrderingMeter::OrderingMeter(bool real)
    : real_(real), used_before_(thread_time()), sharing_before_(real ? core_sharing() : CoreSharing()) {}

void OrderingMeter::read(RankOrdering& rank, std::optional<Duration> ahead) const {
  if (ahead) rank.statistics.tell_by_clock_behind(*ahead);
  rank.clock = ahead ? "of rank 0" : name_of_this_clock();
  rank.application = thread_time() - used_before_;
  if (real_) rank.sharing = core_sharing().since(sharing_before_);
}

OrderingFigures ordering_figures(std::span<const RankOrdering> ranks) {
  OrderingFigures out;
  std::vector<double> lates, cycles, middles;
  double longest = 0;
  std::vector<OrderingStatistics> statistics;
  for (const RankOrdering& rank : ranks) {
    out.ranks.push_back(figures_of(rank));
    append(lates, rank.statistics.oversleeps);
    append(cycles, rank.statistics.cycle_times);
    middles.push_back(rank.step_p50);
    statistics.push_back(rank.statistics);
    for (const auto member : kMeans) out.all.*member += out.ranks.back().*member / static_cast<double>(ranks.size());
    for (const auto member : kOfTheHost) {
      out.all.*member = std::max(out.all.*member, out.ranks.back().*member);  // what is unknown is less than any
    }
    longest = std::max(longest, rank.step_p99);
    out.all.deviations = std::max(out.all.deviations, out.ranks.back().deviations);
    out.all.void_buffers += out.ranks.back().void_buffers;
  }
  if (!middles.empty()) out.all.step_p50 = quantile(middles, 0.5);
  out.all.step_p99 = longest;
  set_oversleeps(out.all, lates);
  set_cycles(out.all, cycles);
  const auto elsewhere = [&](const RankOrdering& rank) { return rank.clock != ranks.front().clock; };
  if (std::ranges::any_of(ranks, elsewhere)) return out;
  set_stalls(out, ranks, mean_stalls(statistics));
  if (ranks.size() < 2) return out;
  const SyncSkew skew = sync_skew(statistics);
  if (skew.spread.empty()) return out;
  std::vector<double> spread;
  for (const Duration apart : skew.spread) spread.push_back(seconds(apart));
  out.skew_p50 = quantile(spread, 0.5);
  out.skew_p99 = quantile(spread, 0.99);
  for (std::size_t lag = 1; lag <= kLags; ++lag) {
    double sum = 0;
    for (const auto& arrivals : skew.arrivals) sum += autocorrelation(arrivals, lag);
    out.cascade.push_back(sum / static_cast<double>(skew.arrivals.size()));
  }
  return out;
}

}  // namespace stretto
