#include "stretto/train/recipes/options/lr_schedule.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <sstream>

#include "stretto/base/error.h"

namespace stretto {
namespace {

[[noreturn]] void reject(const std::string& text, const std::string& part) {
  throw UsageError(stretto::text("learning rate schedule '", text, "': cannot read '", part,
                                 "'; expected constant, warmup:STEPS or decay:FACTOR@STEP[@STEP…], joined with +"));
}

template <class T>
T number(const std::string& text, const std::string& part, const std::string& digits) {
  T value{};
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error != std::errc{} || end != digits.data() + digits.size() || digits.empty()) reject(text, part);
  return value;
}

std::vector<std::string> split(const std::string& text, char at) {
  std::vector<std::string> parts;
  std::istringstream in(text);
  for (std::string part; std::getline(in, part, at);) parts.push_back(part);
  return parts;
}

}  // namespace

LrSchedule LrSchedule::parse(const std::string& text) {
  LrSchedule schedule;
  const auto parts = split(text, '+');
  if (parts.empty()) reject(text, text);
  for (const std::string& part : parts) {
    if (part == "constant") continue;
    if (part.starts_with("warmup:") && schedule.warmup_ == 0) {
      schedule.warmup_ = number<std::uint64_t>(text, part, part.substr(7));
    } else if (part.starts_with("decay:") && schedule.milestones_.empty()) {
      const auto numbers = split(part.substr(6), '@');
      if (numbers.size() < 2) reject(text, part);
      schedule.divide_by_ = number<double>(text, part, numbers[0]);
      if (!(schedule.divide_by_ > 0) || !std::isfinite(schedule.divide_by_)) reject(text, part);
      for (std::size_t i = 1; i < numbers.size(); ++i) {
        schedule.milestones_.push_back(number<std::uint64_t>(text, part, numbers[i]));
      }
      if (!std::is_sorted(schedule.milestones_.begin(), schedule.milestones_.end())) reject(text, part);
    } else {
      reject(text, part);
    }
  }
  return schedule;
}

double LrSchedule::factor(std::uint64_t batches_applied, int ranks) const {
  const std::uint64_t step = batches_applied / static_cast<std::uint64_t>(ranks);
  double factor = 1;
  if (step < warmup_) factor = static_cast<double>(step + 1) / static_cast<double>(warmup_);
  for (const std::uint64_t milestone : milestones_) {
    if (step >= milestone) factor /= divide_by_;
  }
  return factor;
}

}  // namespace stretto
