#include "stretto/ordering/options/ordering_statistics.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

namespace stretto {
namespace {

template <class T>
void keep(std::deque<T>& newest, T value) {
  if (newest.size() == OrderingStatistics::kKept) newest.pop_front();
  newest.push_back(value);
}

/// A buffer over all ranks.
struct JointBuffer {
  std::size_t ranks = 0;        // that have kept it
  std::vector<TimePoint> last;  // by tensor: handed over by the last of them
};

}  // namespace

void OrderingStatistics::note_oversleep(Duration late) {
  keep(oversleeps, late);
}

void OrderingStatistics::note_cycle(Duration whole) {
  keep(cycle_times, whole);
}

void OrderingStatistics::note_arrival(TimePoint when) {
  ++syncs;
  keep(arrivals, when);
}

void OrderingStatistics::note_buffer(BufferTimes times) {
  timed_tensors += times.submitted.size();
  buffer_times.push_back(std::move(times));
  while (timed_tensors > kKeptTensors) {
    timed_tensors -= buffer_times.front().submitted.size();
    buffer_times.pop_front();
  }
}

void OrderingStatistics::tell_by_clock_behind(Duration ahead) {
  const auto move = [ahead](TimePoint& time) {
    if (time != TimePoint::never()) time = time - ahead;
  };
  std::ranges::for_each(arrivals, move);
  for (BufferTimes& buffer : buffer_times) {
    move(buffer.begun);
    std::ranges::for_each(buffer.submitted, move);
  }
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

std::vector<double> mean_stalls(std::span<const OrderingStatistics> ranks) {
  std::map<std::pair<int, std::uint64_t>, JointBuffer> joint;
  std::map<int, std::size_t> members;
  for (const OrderingStatistics& rank : ranks) {
    std::set<int> sets;
    for (const BufferTimes& buffer : rank.buffer_times) {
      sets.insert(buffer.set);
      JointBuffer& all = joint[{buffer.set, buffer.number}];
      ++all.ranks;
      all.last.resize(buffer.submitted.size());
      for (std::size_t i = 0; i < all.last.size(); ++i) {
        if (buffer.submitted[i] != TimePoint::never()) all.last[i] = std::max(all.last[i], buffer.submitted[i]);
      }
    }
    for (const int set : sets) ++members[set];
  }
  std::vector<double> means;
  for (const OrderingStatistics& rank : ranks) {
    double sum = 0;
    std::size_t tensors = 0;
    for (const BufferTimes& buffer : rank.buffer_times) {
      const JointBuffer& all = joint[{buffer.set, buffer.number}];
      if (all.ranks < members[buffer.set]) continue;
      for (std::size_t i = 0; i < buffer.submitted.size(); ++i) {
        if (buffer.submitted[i] == TimePoint::never()) continue;
        ++tensors;
        sum += std::max(0.0, seconds(std::min(all.last[i], buffer.begun) - buffer.submitted[i]));
      }
    }
    means.push_back(tensors == 0 ? 0 : sum / static_cast<double>(tensors));
  }
  return means;
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
