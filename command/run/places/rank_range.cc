#include "command/run/places/rank_range.h"

#include <fmt/format.h>

#include "command/cli/values.h"
#include "stretto/base/error.h"
#include "stretto/transport/job_memory.h"

namespace stretto::command {

RankRange parse_rank_range(std::string_view option, const std::string& text) {
  constexpr std::string_view kExample = "4";
  const std::size_t colon = text.find(':');
  if (colon == std::string::npos) {
    const auto ranks = static_cast<int>(parse_integer(option, text, 1, JobMemory::kMaxRanks, kExample));
    return {.least = ranks, .most = ranks};
  }
  const auto number = [&](const std::string& part) {
    try {
      return static_cast<int>(parse_integer(option, part, 1, JobMemory::kMaxRanks, kExample));
    } catch (const UsageError&) {
      reject(option, text, fmt::format("expected MIN:MAX, two numbers from 1 to {}", JobMemory::kMaxRanks), "2:8");
    }
  };
  const RankRange range{
      .least = number(text.substr(0, colon)), .most = number(text.substr(colon + 1)), .is_range = true};
  if (range.least > range.most) {
    reject(option, text, "expected the least number before the greatest",
           fmt::format("{}:{}", range.most, range.least));
  }
  return range;
}

}  // namespace stretto::command
