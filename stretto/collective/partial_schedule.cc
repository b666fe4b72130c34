#include "stretto/collective/partial_schedule.h"

#include <vector>

#include "stretto/base/error.h"

namespace stretto {
namespace {

constexpr int kActivationChannel = 0;
constexpr int kFirstDataChannel = 1;

/// Any of the triggers, then a message to all neighbours. Returns "activated".
OpId append_activation(ScheduleBuilder& b) {
  std::vector<int> neighbours;
  for (int distance = 1; distance < b.ranks(); distance *= 2) {
    if ((b.rank() ^ distance) < b.ranks()) neighbours.push_back(b.rank() ^ distance);
  }
  const OpId internal = b.nop({});
  b.external(internal).label(internal, "internal");
  std::vector<OpId> triggers{internal};
  for (const int peer : neighbours) {
    triggers.push_back(b.recv(peer, kActivationChannel, {}, {}));
    b.label(triggers.back(), text("activate.from.", peer));
  }
  const OpId activated = b.nop(triggers);
  b.need(activated, Need::any()).label(activated, "activated");
  for (const int peer : neighbours) {
    const OpId send = b.send(peer, kActivationChannel, {}, {activated});
    b.label(send, text("activate.to.", peer));
  }
  return activated;
}

}  // namespace

AllreduceAlgorithm algorithm_for(const BucketSpec& bucket, SumOrder order) {
  if (bucket.count * size_of(bucket.type) < kLargeBucketBytes) return AllreduceAlgorithm::recursive_doubling;
  return order == SumOrder::fixed ? AllreduceAlgorithm::halving_doubling : AllreduceAlgorithm::direct;
}

Schedule partial_allreduce_schedule(int rank, int ranks, std::span<const BucketSpec> buckets, ReduceOp op,
                                    SumOrder order, Activation activation) {
  if (buckets.empty()) throw UsageError("a partial allreduce of no buckets; expected at least one");
  ScheduleBuilder b("partial_allreduce", rank, ranks);
  std::vector<BufferId> contributions, sums;
  for (std::size_t i = 0; i < buckets.size(); ++i) {
    contributions.push_back(b.buffer(text("x.", i), buckets[i].type, buckets[i].count));
  }
  for (std::size_t i = 0; i < buckets.size(); ++i) {
    sums.push_back(b.buffer(text("sum.", i), buckets[i].type, buckets[i].count));
  }

  std::vector<OpId> before_join;
  if (activation == Activation::flood) before_join.push_back(append_activation(b));
  const OpId join = b.call(kJoinHook, before_join);
  b.label(join, "join");
  OpId before = join;
  int channel = kFirstDataChannel;
  for (std::size_t i = 0; i < buckets.size(); ++i) {
    const OpId ready = b.call(kFirstReadyHook + static_cast<std::uint32_t>(i), {before});
    b.label(ready, text("ready.", i));
    const AllreducePlan plan = append_allreduce(b,
                                                {.algorithm = algorithm_for(buckets[i], order),
                                                 .contribution = contributions[i],
                                                 .result = sums[i],
                                                 .op = op,
                                                 .first_channel = channel,
                                                 .headers = i == 0},
                                                ready);
    before = plan.done;
    channel += plan.num_channels;
  }
  const OpId complete = b.nop({before});
  b.label(complete, "complete");
  return b.build(complete);
}

}  // namespace stretto
