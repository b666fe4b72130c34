#include "stretto/ordering/ordering_statistics.h"

#include <algorithm>

namespace stretto {
namespace {

template <class T>
void keep(std::deque<T>& newest, T value) {
  if (newest.size() == OrderingStatistics::kKept) newest.pop_front();
  newest.push_back(value);
}

}  // namespace

void OrderingStatistics::note_oversleep(Duration late) {
  keep(oversleeps, late);
}

void OrderingStatistics::note_arrival(TimePoint when) {
  ++syncs;
  keep(arrivals, when);
}

SyncSkew sync_skew(std::span<const OrderingStatistics> ranks) {
  SyncSkew skew;
  skew.arrivals.resize(ranks.size());
  if (ranks.empty()) return skew;
  std::uint64_t first = 0, end = ranks.front().syncs;
  for (const OrderingStatistics& rank : ranks) {
    first = std::max(first, rank.syncs - rank.arrivals.size());
    end = std::min(end, rank.syncs);
  }
  const auto arrival = [](const OrderingStatistics& rank, std::uint64_t sync) {
    return rank.arrivals[sync - (rank.syncs - rank.arrivals.size())];
  };
  for (std::uint64_t sync = first; sync < end; ++sync) {
    const TimePoint origin = arrival(ranks.front(), sync);
    TimePoint earliest = origin, latest = origin;
    double sum = 0;
    for (const OrderingStatistics& rank : ranks) {
      const TimePoint at = arrival(rank, sync);
      earliest = std::min(earliest, at);
      latest = std::max(latest, at);
      sum += seconds(at - origin);
    }
    skew.spread.push_back(latest - earliest);
    const double mean = sum / static_cast<double>(ranks.size());
    for (std::size_t i = 0; i < ranks.size(); ++i) {
      skew.arrivals[i].push_back(seconds(arrival(ranks[i], sync) - origin) - mean);
    }
  }
  return skew;
}

double autocorrelation(std::span<const double> numbers, std::size_t lag) {
  if (numbers.size() <= lag) return 0;
  double mean = 0;
  for (const double x : numbers) mean += x / static_cast<double>(numbers.size());
  double squares = 0, products = 0;
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    squares += (numbers[i] - mean) * (numbers[i] - mean);
    if (i + lag < numbers.size()) products += (numbers[i] - mean) * (numbers[i + lag] - mean);
  }
  return squares == 0 ? 0 : products / squares;
}

}  // namespace stretto
