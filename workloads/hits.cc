#include "workloads/hits.h"

#include "stretto/base/error.h"

namespace stretto {
namespace {

constexpr std::size_t kGuesses = 5;

}  // namespace

std::size_t place_of(std::span<const float> scores, std::size_t label) {
  const float own = scores[label];
  std::size_t before = 0;
  for (std::size_t other = 0; other < scores.size(); ++other) {
    const bool higher = !(scores[other] <= own);  // or no number
    if (higher || (scores[other] == own && other < label)) ++before;
  }
  return before;
}

void Hits::add(std::span<const float> scores, std::span<const std::int64_t> labels) {
  STRETTO_CHECK(scores.size() == labels.size() * classes_, scores.size(), " scores of ", labels.size(), " samples");
  for (std::size_t sample = 0; sample < labels.size(); ++sample) {
    const auto label = static_cast<std::size_t>(labels[sample]);
    const std::size_t place = place_of(scores.subspan(sample * classes_, classes_), label);
    if (place == 0) ++first_;
    if (place < kGuesses) ++first_five_;
  }
  samples_ += labels.size();
}

std::optional<double> Hits::top5() const {
  if (classes_ <= kGuesses) return std::nullopt;
  return share(first_five_);
}

}  // namespace stretto
