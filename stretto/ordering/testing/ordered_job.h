#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <numeric>
#include <utility>
#include <vector>

#include "stretto/base/random.h"
#include "stretto/ordering/ordered_allreduce.h"
#include "stretto/simulate/virtual_ranks.h"
#include "stretto/transport/shared_arena.h"

namespace stretto {

/// For tests: runs `application` on every rank, in virtual time.
/// Every other seed they share memory.
inline void run_ordered(int ranks, std::uint64_t seed, const OrderingOptions& options, const OrdererFactory& factory,
                        const std::function<void(VirtualRank&, OrderedAllreduce&)>& application) {
  SimulatedCluster cluster(ranks, {.jitter = std::chrono::microseconds(20)}, seed);
  if (seed % 2 == 1) cluster.share_memory(SharedArena::overhead() + (std::uint64_t{8} << 20));
  VirtualRanks(cluster).run([&](VirtualRank& rank) {
    Engine engine(rank.transport(), rank.clock());
    rank.drive_engine(&engine);
    OrderedAllreduce tensors(engine, options, factory);
    application(rank, tensors);
  });
}

/// For tests: a rank that does nothing with what a step has summed.
inline const auto kNothing = [](const OrderedStep&) {};

/// For tests: an element of what a rank brings.
inline std::int64_t ordered_number(int rank, StepNumber step, std::uint64_t tensor, std::uint64_t element) {
  return static_cast<std::int64_t>(1 + static_cast<std::uint64_t>(rank) * 1'000'003 + step * 7919 + tensor * 101 +
                                   element);
}

/// For tests: one rank's memory for the tensors of a step, all of int64.
class OrderedMemory {
 public:
  explicit OrderedMemory(const std::vector<TensorDescription>& tensors) : tensors_(tensors) {
    for (const auto& tensor : tensors) {
      in.emplace_back(tensor.count);
      out.emplace_back(tensor.count, -1);
    }
  }
  void fill(int rank, StepNumber step) {
    for (std::size_t t = 0; t < in.size(); ++t) {
      for (std::size_t i = 0; i < in[t].size(); ++i) in[t][i] = ordered_number(rank, step, t, i);
    }
  }
  void submit(OrderedAllreduce& all, std::size_t t) {
    all.submit(tensors_[t], Argument::in(in[t]), Argument::out(out[t]));
  }
  void destinations(OrderedAllreduce& all) {
    for (std::size_t t = 0; t < in.size(); ++t) all.destination(tensors_[t], Argument::out(out[t]));
  }
  /// Whether each result is the sum over those ranks.
  void expect_sums(const std::vector<int>& ranks, StepNumber step) const {
    for (std::size_t t = 0; t < in.size(); ++t) {
      for (std::size_t i = 0; i < in[t].size(); ++i) {
        std::int64_t sum = 0;
        for (const int rank : ranks) sum += ordered_number(rank, step, t, i);
        ASSERT_EQ(out[t][i], sum) << "step " << step << ", " << tensors_[t].name << '[' << i << ']';
      }
    }
  }
  std::vector<std::vector<std::int64_t>> in, out;

 private:
  const std::vector<TensorDescription>& tensors_;
};

/// For tests: 0, 1, …
inline std::vector<int> ranks_from_0(int count) {
  std::vector<int> ranks(static_cast<std::size_t>(count));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

/// For tests: of `ranks` ranks, of which rank r makes `first` + r steps, the ranks that have one more after `step`.
inline std::vector<int> ranks_that_make(StepNumber step, int ranks, StepNumber first) {
  std::vector<int> some;
  for (int rank = 0; rank < ranks; ++rank) {
    if (first + static_cast<StepNumber>(rank) > step) some.push_back(rank);
  }
  return some;
}

/// For tests: 0 … count − 1 in a drawn order.
inline std::vector<std::size_t> shuffled(std::size_t count, Random& random) {
  std::vector<std::size_t> order(count);
  std::iota(order.begin(), order.end(), 0);
  for (std::size_t i = count; i > 1; --i) std::swap(order[i - 1], order[random.below(i)]);
  return order;
}

}  // namespace stretto
