#include "stretto/predict/measured/collected_times.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "stretto/imbalance/duration.h"

namespace stretto {
namespace {

constexpr int kMaxRanks = 100'000;
constexpr float kMissing = -1;
constexpr std::size_t kMost = 1 << 20;
/// Steps that follow one another and stay or go together: what lasts for some steps is seen in them. So many of the
/// most ranks fit.
constexpr std::uint64_t kStretch = 10;
static_assert(kStretch * kMaxRanks <= kMost);

}  // namespace

std::string CollectedTimes::take(std::uint64_t step, int rank, double seconds) {
  if (rank >= kMaxRanks) return text("rank ", rank, " is not one of 0 … ", kMaxRanks - 1);
  ranks_ = std::max(ranks_, rank + 1);
  if (const double most = stretto::seconds(kLongestDuration); seconds > most) {
    return text("step ", step, " of rank ", rank, " takes ", seconds, " s; expected at most ", most, " s");
  }
  if (!stays(step)) return {};
  std::vector<float>& row = rows_[step];
  const auto index = static_cast<std::size_t>(rank);
  if (row.size() <= index) {
    kept_ += index + 1 - row.size();
    row.resize(index + 1, kMissing);
  }
  if (row[index] != kMissing) return text("a second row for step ", step, " and rank ", rank);
  row[index] = static_cast<float>(seconds);
  while (kept_ > kMost) thin_out();
  return {};
}

Result<StepTimes> CollectedTimes::result() {
  if (rows_.empty()) return wrong("has no rows step,rank,seconds");
  if (!is_whole(rows_.rbegin()->second)) rows_.erase(std::prev(rows_.end()));
  std::vector<float> all;
  for (const auto& [step, row] : rows_) {
    if (!is_whole(row)) {
      const auto missing = std::ranges::find(row, kMissing) - row.begin();
      return wrong(text("has no time of rank ", missing, " in step ", step, ", of ", ranks_, " ranks"));
    }
    all.insert(all.end(), row.begin(), row.end());
  }
  if (all.empty()) return wrong("has not one step of all its ranks");
  if (std::ranges::all_of(all, [](float time) { return time == 0; })) {
    return wrong("says that no step took any time; expected seconds");
  }
  return StepTimes(ranks_, std::move(all));
}

Error CollectedTimes::wrong(const std::string& what) const {
  return {Errc::bad_input, text("'", source_, "' ", what)};
}

bool CollectedTimes::is_whole(const std::vector<float>& row) const {
  return row.size() == static_cast<std::size_t>(ranks_) && std::ranges::count(row, kMissing) == 0;
}

bool CollectedTimes::stays(std::uint64_t step) const {
  return step / kStretch % stride_ == 0;
}

void CollectedTimes::thin_out() {
  stride_ *= 2;
  std::erase_if(rows_, [this](const auto& row) {
    const bool goes = !stays(row.first);
    if (goes) kept_ -= row.second.size();
    return goes;
  });
}

}  // namespace stretto
