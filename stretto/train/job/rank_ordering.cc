#include "stretto/train/job/rank_ordering.h"

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <utility>

#include "stretto/observe/quantile.h"

namespace stretto {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr std::size_t kLags = 8;

template <class Values, class Count>
json counts(const Values& values, Count count) {
  json out = json::array();
  for (const auto& value : values) out.push_back(count(value));
  return out;
}

/// [set, number, begun, [submitted, …]], in nanoseconds.
json buffer_to_json(const BufferTimes& buffer) {
  return json::array({buffer.set, buffer.number, buffer.begun.since_start.count(),
                      counts(buffer.submitted, [](TimePoint when) { return when.since_start.count(); })});
}

BufferTimes buffer_from_json(const json& value) {
  BufferTimes buffer{.set = value.at(0), .number = value.at(1), .begun = {Duration(value.at(2).get<std::int64_t>())}};
  for (const json& when : value.at(3)) buffer.submitted.push_back({Duration(when.get<std::int64_t>())});
  return buffer;
}

/// The members of Rank that are numbers, by name, in the order in which they are written.
constexpr std::pair<const char*, double OrderingFigures::Rank::*> kNumbers[] = {
    {"step_p50", &OrderingFigures::Rank::step_p50},
    {"step_p99", &OrderingFigures::Rank::step_p99},
    {"negotiation", &OrderingFigures::Rank::negotiation},
    {"negotiation_share", &OrderingFigures::Rank::negotiation_share},
    {"control_messages", &OrderingFigures::Rank::control_messages},
    {"control_bytes", &OrderingFigures::Rank::control_bytes},
    {"cycles", &OrderingFigures::Rank::cycles},
    {"buffers", &OrderingFigures::Rank::buffers},
    {"fill", &OrderingFigures::Rank::fill},
    {"application_cpu", &OrderingFigures::Rank::application_cpu},
    {"input_cpu", &OrderingFigures::Rank::input_cpu},
    {"background_cpu", &OrderingFigures::Rank::background_cpu},
    {"spin_cpu", &OrderingFigures::Rank::spin_cpu},
    {"cycle_p50", &OrderingFigures::Rank::cycle_p50},
    {"cycle_p99", &OrderingFigures::Rank::cycle_p99},
    {"oversleep_p50", &OrderingFigures::Rank::oversleep_p50},
    {"oversleep_p90", &OrderingFigures::Rank::oversleep_p90},
    {"oversleep_p99", &OrderingFigures::Rank::oversleep_p99},
    {"oversleep_max", &OrderingFigures::Rank::oversleep_max}};

/// Those that may be unknown: of ranks with several clocks, or where the kernel does not say it.
constexpr std::pair<const char*, std::optional<double> OrderingFigures::Rank::*> kUncertain[] = {
    {"stall", &OrderingFigures::Rank::stall},
    {"stall_share", &OrderingFigures::Rank::stall_share},
    {"slice_seconds", &OrderingFigures::Rank::slice_seconds},
    {"throttled_periods", &OrderingFigures::Rank::throttled_periods},
    {"throttled_seconds", &OrderingFigures::Rank::throttled_seconds}};
/// Figures of the host, the same on all of its ranks: they are not added up over ranks.
constexpr std::span kOfTheHost = std::span(kUncertain).subspan<2>();

json sharing_to_json(const CoreSharing& sharing) {
  const auto known = [](const std::optional<std::uint64_t>& number) { return number ? json(*number) : json(); };
  return json::array(
      {known(sharing.slice_ns), known(sharing.throttled_periods), known(sharing.throttled_microseconds)});
}

CoreSharing sharing_from_json(const json& value) {
  const auto known = [](const json& number) {
    return number.is_null() ? std::nullopt : std::optional(number.get<std::uint64_t>());
  };
  return {known(value.at(0)), known(value.at(1)), known(value.at(2))};
}

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

/// An empty set is any core.
ordered_json cores_to_json(const CoreSets& cores) {
  return {{"app", cores.application},
          {"input", cores.input},
          {"bg", cores.background},
          {"dynamic", cores.lends},
          {"shared", cores.overlap}};
}

CoreSets cores_from_json(const json& value) {
  return {.application = value.at("app"),
          .input = value.at("input"),
          .background = value.at("bg"),
          .lends = value.at("dynamic"),
          .overlap = value.at("shared")};
}

ordered_json rank_to_json(const OrderingFigures::Rank& rank) {
  ordered_json out;
  for (const auto& [name, member] : kNumbers) out[name] = rank.*member;
  for (const auto& [name, member] : kUncertain) {
    const std::optional<double>& value = rank.*member;
    out[name] = value ? ordered_json(*value) : ordered_json();
  }
  out["deviations"] = rank.deviations;
  out["void_buffers"] = rank.void_buffers;
  return out;
}

OrderingFigures::Rank rank_from_json(const json& value) {
  OrderingFigures::Rank out;
  for (const auto& [name, member] : kNumbers) value.at(name).get_to(out.*member);
  for (const auto& [name, member] : kUncertain) {
    if (const json& known = value.at(name); !known.is_null()) out.*member = known.get<double>();
  }
  value.at("deviations").get_to(out.deviations);
  value.at("void_buffers").get_to(out.void_buffers);
  return out;
}

}  // namespace

std::string name_of_this_clock() {
  std::string name;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> name;
  return name;
}

OrderingMeter::OrderingMeter(bool real)
    : real_(real), used_before_(thread_time()), sharing_before_(real ? core_sharing() : CoreSharing()) {}

void OrderingMeter::read(RankOrdering& rank) const {
  rank.clock = name_of_this_clock();
  rank.application = thread_time() - used_before_;
  if (real_) rank.sharing = core_sharing().since(sharing_before_);
}

std::string to_json(const RankOrdering& rank) {
  const OrderingStatistics& s = rank.statistics;
  return json{{"clock", rank.clock},
              {"steps", rank.steps},
              {"step_p50", rank.step_p50},
              {"step_p99", rank.step_p99},
              {"application", rank.application.count()},
              {"input", rank.input.count()},
              {"sharing", sharing_to_json(rank.sharing)},
              {"tensors", s.tensors},
              {"buffers", s.buffers},
              {"buffer_bytes", s.buffer_bytes},
              {"void_buffers", s.void_buffers},
              {"deviations", s.deviations},
              {"cycles", s.cycles},
              {"controls", s.controls},
              {"control_messages", s.control_messages},
              {"control_bytes", s.control_bytes},
              {"negotiation", s.negotiation.count()},
              {"background_cpu", s.background_cpu.count()},
              {"spun", s.spun.count()},
              {"oversleeps", counts(s.oversleeps, [](Duration late) { return late.count(); })},
              {"cycle_times", counts(s.cycle_times, [](Duration whole) { return whole.count(); })},
              {"arrivals", counts(s.arrivals, [](TimePoint when) { return when.since_start.count(); })},
              {"syncs", s.syncs},
              {"buffer_times", counts(s.buffer_times, buffer_to_json)}}
      .dump();
}

RankOrdering rank_ordering_from_json(const std::string& text) {
  const json value = json::parse(text);
  RankOrdering rank;  // not filled in braces: where one of them throws, GCC 12 destroys `statistics` twice
  rank.clock = value.at("clock");
  rank.steps = value.at("steps");
  rank.step_p50 = value.at("step_p50");
  rank.step_p99 = value.at("step_p99");
  rank.application = Duration(value.at("application").get<std::int64_t>());
  rank.input = Duration(value.at("input").get<std::int64_t>());
  rank.sharing = sharing_from_json(value.at("sharing"));
  OrderingStatistics& s = rank.statistics;
  s.steps = rank.steps;
  s.tensors = value.at("tensors");
  s.buffers = value.at("buffers");
  s.buffer_bytes = value.at("buffer_bytes");
  s.void_buffers = value.at("void_buffers");
  s.deviations = value.at("deviations");
  s.cycles = value.at("cycles");
  s.controls = value.at("controls");
  s.control_messages = value.at("control_messages");
  s.control_bytes = value.at("control_bytes");
  s.negotiation = Duration(value.at("negotiation").get<std::int64_t>());
  s.background_cpu = Duration(value.at("background_cpu").get<std::int64_t>());
  s.spun = Duration(value.at("spun").get<std::int64_t>());
  for (const json& late : value.at("oversleeps")) s.oversleeps.emplace_back(late.get<std::int64_t>());
  for (const json& whole : value.at("cycle_times")) s.cycle_times.emplace_back(whole.get<std::int64_t>());
  for (const json& when : value.at("arrivals")) s.arrivals.push_back({Duration(when.get<std::int64_t>())});
  s.syncs = value.at("syncs");
  for (const json& buffer : value.at("buffer_times")) s.note_buffer(buffer_from_json(buffer));
  return rank;
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
    for (const auto& [name, member] : kNumbers)
      out.all.*member += out.ranks.back().*member / static_cast<double>(ranks.size());
    for (const auto& [name, member] : kOfTheHost) {
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

std::string to_json(const OrderingFigures& figures) {
  ordered_json ranks = ordered_json::array();
  for (const auto& rank : figures.ranks) ranks.push_back(rank_to_json(rank));
  return ordered_json{{"cores", figures.cores ? cores_to_json(*figures.cores) : ordered_json()},
                      {"all", rank_to_json(figures.all)},
                      {"skew_p50", figures.skew_p50},
                      {"skew_p99", figures.skew_p99},
                      {"cascade", figures.cascade},
                      {"ranks", ranks}}
      .dump();
}

OrderingFigures ordering_figures_from_json(const std::string& text) {
  const json value = json::parse(text);
  OrderingFigures out{.all = rank_from_json(value.at("all")),
                      .cores = {},
                      .skew_p50 = value.at("skew_p50"),
                      .skew_p99 = value.at("skew_p99"),
                      .cascade = value.at("cascade")};
  if (const json& cores = value.at("cores"); !cores.is_null()) out.cores = cores_from_json(cores);
  for (const json& rank : value.at("ranks")) out.ranks.push_back(rank_from_json(rank));
  return out;
}

}  // namespace stretto
