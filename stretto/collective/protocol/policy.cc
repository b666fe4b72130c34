#include "stretto/collective/protocol/policy.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <utility>

#include "stretto/base/defect.h"
#include "stretto/base/random.h"

namespace stretto {
namespace {

constexpr std::size_t kRememberedArrivals = 256;
constexpr double kMadFactor = 3;  // k of median + k·MAD

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

constexpr std::uint64_t kMajorityStream = 0x6d616a6f72697479;  // of the draws of initiators

// Layout of a policy word: kind + 1 (8 bits; 0 says "unknown"), adaptive (1), quorum or initiator (23), patience in µs
// (32).
constexpr std::uint64_t kRankMask = (1u << 23) - 1;

int number_in(const std::string& digits, const std::string& whole, int ranks) {
  int value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error != std::errc{} || end != digits.data() + digits.size() || value < 1 || value > ranks) {
    throw UsageError(text("policy '", whole, "': the quorum '", digits, "' must be a number from 1 to ", ranks));
  }
  return value;
}

Duration patience_in(const std::string& word, const std::string& whole) {
  double value = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  const std::string unit(end, word.data() + word.size());
  const double scale = unit == "s" ? 1.0 : unit == "ms" ? 1e-3 : unit == "us" || unit == "µs" ? 1e-6 : 0;
  if (error != std::errc{} || scale == 0 || !(value >= 0) || value * scale > 3600) {
    throw UsageError(text("policy '", whole, "': the patience '", word, "' must be a time such as 20ms, at most 1 h"));
  }
  return from_seconds(value * scale);
}

}  // namespace

void LearnedPatience::learn(std::span<const TimePoint> arrivals) {
  if (arrivals.empty()) return;
  const TimePoint first = *std::min_element(arrivals.begin(), arrivals.end());
  for (const TimePoint& time : arrivals) {
    const double offset = seconds(time - first);
    if (offsets_.size() < kRememberedArrivals) {
      offsets_.push_back(offset);
    } else {
      offsets_[next_++ % kRememberedArrivals] = offset;
    }
  }
}

Duration LearnedPatience::get() const {
  if (offsets_.empty()) return Duration::zero();
  const double middle = median(offsets_);
  std::vector<double> deviations;
  deviations.reserve(offsets_.size());
  for (double offset : offsets_) deviations.push_back(std::abs(offset - middle));
  return from_seconds(middle + kMadFactor * median(std::move(deviations)));
}

std::uint64_t Policy::encode() const {
  const std::uint64_t rank = kind == Kind::majority ? initiator : quorum;
  const auto micros = static_cast<std::uint64_t>(patience.count() / 1000);
  return (static_cast<std::uint64_t>(kind) + 1) | (static_cast<std::uint64_t>(adaptive) << 8) |
         ((rank & kRankMask) << 9) | (micros << 32);
}

Policy Policy::decode(std::uint64_t word) {
  Policy policy;
  policy.kind = static_cast<Kind>((word & 0xff) - 1);
  policy.adaptive = (word >> 8) & 1;
  const auto rank = static_cast<std::uint32_t>((word >> 9) & kRankMask);
  (policy.kind == Kind::majority ? policy.initiator : policy.quorum) = rank;
  policy.patience = std::chrono::microseconds(word >> 32);
  return policy;
}

std::string Policy::to_string() const {
  switch (kind) {
    case Kind::full: return "full";
    case Kind::solo: return "solo";
    case Kind::majority: return "majority";
    case Kind::quorum: return text("quorum:", quorum);
    case Kind::deadline:
      if (adaptive) return text("deadline:", quorum, ",adaptive");
      return text("deadline:", quorum, ",", static_cast<double>(patience.count()) / 1e6, "ms");
  }
  return "unknown";
}

Policy Policy::parse(const std::string& whole, int ranks) {
  const auto colon = whole.find(':');
  const std::string name = whole.substr(0, colon);
  const std::string rest = colon == std::string::npos ? "" : whole.substr(colon + 1);
  if (rest.empty()) {
    if (name == "full") return full();
    if (name == "solo") return solo();
    if (name == "majority") return majority();
  }
  if (name == "quorum") return at_least(rest.empty() ? (ranks + 1) / 2 : number_in(rest, whole, ranks));
  if (name == "deadline") {
    const auto comma = rest.find(',');
    if (comma != std::string::npos) {
      const int q = number_in(rest.substr(0, comma), whole, ranks);
      const std::string patience = rest.substr(comma + 1);
      return patience == "adaptive" ? adaptive_deadline(q) : deadline(q, patience_in(patience, whole));
    }
  }
  throw UsageError(text("unknown policy '", whole,
                        "': expected full, solo, majority, quorum:4, deadline:4,20ms or deadline:4,adaptive"));
}

TimePoint may_start_from(const Policy& policy, const Come& come) {
  constexpr auto at_once_if = [](bool enough) { return enough ? TimePoint() : TimePoint::never(); };
  if (come.drained.all()) return at_once_if(!defect(Defect::no_last_round));
  const auto initiator = static_cast<int>(policy.initiator);
  const auto here = [&come] { return (come.arrived | come.drained).count(); };
  switch (policy.kind) {
    case Policy::Kind::full: return at_once_if(here() == come.arrived.size());
    case Policy::Kind::solo: return at_once_if(!come.arrived.empty());
    case Policy::Kind::majority:
      return at_once_if(come.arrived.contains(initiator) || come.drained.contains(initiator));
    case Policy::Kind::quorum:
    case Policy::Kind::deadline: break;
  }
  if (come.arrived.empty() || here() < static_cast<int>(policy.quorum)) return TimePoint::never();
  if (policy.kind == Policy::Kind::quorum || here() == come.arrived.size()) return TimePoint();
  return come.first_arrival + (policy.adaptive ? come.learned.get() : policy.patience);
}

PolicyRule::PolicyRule(Policy base, int ranks, std::uint64_t seed, std::uint64_t full_every)
    : base_(base), ranks_(ranks), seed_(seed), full_every_(full_every) {
  const bool counted = base.kind == Policy::Kind::quorum || base.kind == Policy::Kind::deadline;
  if (counted && (base.quorum < 1 || base.quorum > static_cast<std::uint32_t>(ranks))) {
    throw UsageError(text("quorum ", base.quorum, " is impossible with ", ranks, " ranks: use 1 to ", ranks));
  }
  derive(nullptr);
}

void PolicyRule::resume_at(std::uint64_t batches) {
  batches_ = batches;
  fulls_passed_ = full_every_ == 0 ? 0 : batches / full_every_;
}

void PolicyRule::advance(const RoundHeader& header) {
  if (current_.kind == Policy::Kind::full && full_every_ != 0) fulls_passed_ = batches_ / full_every_;
  batches_ += header.batches;
  ++round_;
  derive(&header.drained);
}

void PolicyRule::jump_to(Round round, const Memory& memory, const RoundHeader& before) {
  round_ = round;
  batches_ = memory.batches;
  fulls_passed_ = memory.fulls_passed;
  derive(&before.drained);
}

void PolicyRule::derive(const RankSet* drained) {
  current_ = base_;
  if (full_every_ != 0 && batches_ / full_every_ > fulls_passed_) {
    current_ = Policy::full();
  } else if (base_.kind == Policy::Kind::majority) {
    const int left = drained == nullptr ? ranks_ : ranks_ - drained->count();
    if (left == 0) return;  // the last round is over
    auto k = static_cast<int>(Random(seed_ ^ kMajorityStream, round_).below(static_cast<std::uint64_t>(left)));
    for (int rank = 0; rank < ranks_; ++rank) {
      if (drained != nullptr && drained->contains(rank)) continue;
      if (k-- == 0) current_.initiator = static_cast<std::uint32_t>(rank);
    }
  }
}

}  // namespace stretto
