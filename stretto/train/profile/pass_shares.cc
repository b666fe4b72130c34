#include "stretto/train/profile/pass_shares.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "stretto/base/error.h"

namespace stretto {
namespace {

double sum(const std::vector<double>& numbers) {
  return std::accumulate(numbers.begin(), numbers.end(), 0.0);
}

}  // namespace

void PassShares::Stretch::add(std::vector<double> seconds) {
  traced.push_back(std::move(seconds));
  usual.clear();
  for (std::size_t layer = 0; layer < traced.front().size(); ++layer) {
    std::vector<double> sorted;
    for (const auto& trace : traced) sorted.push_back(trace[layer]);
    std::ranges::sort(sorted);
    const std::size_t count = sorted.size();
    usual.push_back((sorted[(count - 1) / 2] + sorted[count / 2]) / 2);
  }
}

PassShares::PassShares(std::vector<double> otherwise) : otherwise_(std::move(otherwise)) {
  STRETTO_CHECK(sum(otherwise_) > 0, "one number a layer, not all 0");
}

bool PassShares::in_order(const std::vector<double>& ready) const {
  double before = 0;
  for (const int layer : order_) {
    const double at = ready[static_cast<std::size_t>(layer)];
    if (!(at >= before)) return false;  // NaN, too
    before = at;
  }
  return true;
}

void PassShares::add(std::span<const PassMark> marks, const std::vector<double>& ready) {
  const std::size_t layers = otherwise_.size();
  if (between_.empty()) {
    for (std::size_t i = 0; i < layers; ++i) {
      if (!std::isnan(ready[i])) order_.push_back(static_cast<int>(i));
    }
    std::ranges::stable_sort(order_, {}, [&](int layer) { return ready[static_cast<std::size_t>(layer)]; });
    between_.resize(order_.size() + 1);
  }
  const bool usual = in_order(ready);
  const auto interval_of = [&](double at) {
    const auto over = [&](int layer) { return ready[static_cast<std::size_t>(layer)] < at; };
    return static_cast<std::size_t>(std::ranges::partition_point(order_, over) - order_.begin());
  };
  std::vector<double> all(layers, 0);
  std::vector<std::vector<double>> between(between_.size(), all);
  double before = 0;
  std::size_t unknown = 0;  // the first mark whose layer is still to be found
  int last = -1;
  const auto give = [&](std::size_t from, std::size_t to, int layer) {
    const auto index = static_cast<std::size_t>(layer);
    for (std::size_t i = from; i < to; ++i) {
      const double seconds = marks[i].at - before;
      before = marks[i].at;
      all[index] += seconds;
      if (usual) between[interval_of(marks[i].at)][index] += seconds;
    }
  };
  for (std::size_t i = 0; i < marks.size(); ++i) {
    if (marks[i].layer < 0) continue;
    last = marks[i].layer;
    give(unknown, i + 1, last);
    unknown = i + 1;
  }
  if (last >= 0) give(unknown, marks.size(), last);
  all_.add(std::move(all));
  for (std::size_t i = 0; usual && i < between.size(); ++i) between_[i].add(std::move(between[i]));
}

std::vector<double> PassShares::divide(const std::vector<double>& ready, double length) const {
  std::vector<double> seconds(otherwise_.size(), 0);
  const auto share_out = [&](double time, const std::vector<double>& by) {
    const double whole = sum(by);
    for (std::size_t i = 0; i < seconds.size(); ++i) seconds[i] += time * by[i] / whole;
  };
  const std::vector<double>& overall = sum(all_.usual) > 0 ? all_.usual : otherwise_;
  if (order_.empty() || !in_order(ready) || ready[static_cast<std::size_t>(order_.back())] > length) {
    share_out(length, overall);
    return seconds;
  }
  double before = 0;
  for (std::size_t i = 0; i < between_.size(); ++i) {
    const bool rest = i == order_.size();
    const int layer = order_[rest ? i - 1 : i];
    const double end = rest ? length : ready[static_cast<std::size_t>(layer)];
    if (sum(between_[i].usual) > 0) {
      share_out(end - before, between_[i].usual);
    } else {
      seconds[static_cast<std::size_t>(layer)] += end - before;
    }
    before = end;
  }
  return seconds;
}

}  // namespace stretto
