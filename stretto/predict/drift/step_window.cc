#include "stretto/predict/drift/step_window.h"

#include <algorithm>
#include <limits>

#include "stretto/base/error.h"

namespace stretto {

void StepWindow::add(int rank, std::span<const float> steps) {
  auto& lane = steps_[static_cast<std::size_t>(rank)];
  lane.insert(lane.end(), steps.begin(), steps.end());
}

void StepWindow::clear() {
  for (auto& lane : steps_) lane.clear();
}

std::size_t StepWindow::total() const {
  std::size_t sum = 0;
  for (const auto& lane : steps_) sum += lane.size();
  return sum;
}

std::size_t StepWindow::fewest() const {
  std::size_t least = std::numeric_limits<std::size_t>::max();
  for (const auto& lane : steps_) least = std::min(least, lane.size());
  return least;
}

StepTimes StepWindow::times(std::size_t most) const {
  STRETTO_CHECK(fewest() > 0, "a rank has made no step");
  std::size_t rows = 0;
  for (const auto& lane : steps_) rows = std::max(rows, lane.size());
  rows = std::min(rows, most);
  std::vector<float> times;
  times.reserve(rows * steps_.size());
  for (std::size_t row = 0; row < rows; ++row) {
    for (const auto& lane : steps_) times.push_back(lane[row % lane.size()]);
  }
  return {static_cast<int>(steps_.size()), std::move(times)};
}

}  // namespace stretto
