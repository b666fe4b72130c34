#include "stretto/collective/schedules/round_schedules.h"

#include <algorithm>
#include <vector>

#include "stretto/base/error.h"
#include "stretto/collective/protocol/group_protocol.h"
#include "stretto/collective/protocol/protocol.h"
#include "stretto/collective/schedules/plain_schedules.h"

namespace stretto {
namespace {

constexpr int kActivationChannel = 0;
constexpr int kFirstDataChannel = 1;

struct Neighbours {
  std::vector<int> listens_to, tells;
};

Neighbours neighbours_of(int rank, int ranks, const Activation& activation) {
  Neighbours out;
  if (activation.how == Activation::How::tree) {
    const BinomialTree tree = binomial_tree(rank, ranks, activation.root);
    if (tree.parent >= 0) out.listens_to.push_back(tree.parent);
    out.tells = tree.children;
    return out;
  }
  for (int distance = 1; distance < ranks; distance *= 2) {
    if ((rank ^ distance) < ranks) out.tells.push_back(rank ^ distance);
  }
  out.listens_to = out.tells;
  return out;
}

/// Any of the triggers, then a message to all neighbours. Returns "activated".
OpId append_activation(ScheduleBuilder& b, const Activation& activation) {
  const auto [listens_to, tells] = neighbours_of(b.rank(), b.ranks(), activation);
  const OpId internal = b.nop({});
  b.external(internal).label(internal, "internal");
  std::vector<OpId> triggers{internal};
  for (const int peer : listens_to) {
    triggers.push_back(b.recv(peer, kActivationChannel, {}, {}));
    b.label(triggers.back(), text("activate.from.", peer));
  }
  const OpId activated = b.nop(triggers);
  b.need(activated, Need::any()).label(activated, "activated");
  for (const int peer : tells) {
    const OpId send = b.send(peer, kActivationChannel, {}, {activated});
    b.label(send, text("activate.to.", peer));
  }
  return activated;
}

}  // namespace

Activation activation_of(const Policy& policy) {
  switch (policy.kind) {
    case Policy::Kind::full: return Activation::none();
    case Policy::Kind::solo: return Activation::flood();
    case Policy::Kind::majority: return Activation::tree(static_cast<int>(policy.initiator));
    case Policy::Kind::quorum:
    case Policy::Kind::deadline: break;
  }
  return Activation::tree(RoundProtocol::counter());
}

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
  if (activation != Activation::none()) before_join.push_back(append_activation(b, activation));
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

Schedule group_allreduce_schedule(int rank, const Groups& groups, Round round, DataType type, std::uint64_t count,
                                  ReduceOp op, AllreduceAlgorithm algorithm) {
  if (rank < 0 || rank >= groups.ranks()) {
    throw UsageError(text("rank ", rank, " of a group allreduce; expected one from 0 to ", groups.ranks() - 1));
  }
  const std::vector<int> members = groups.members(rank, round);
  const auto position = std::ranges::find(members, rank) - members.begin();
  ScheduleBuilder b("group_allreduce", static_cast<int>(position), static_cast<int>(members.size()));
  const BufferId mine = b.buffer("mine", type, count);
  const BufferId sum = b.buffer("sum", type, count);
  const AllreducePlan plan =
      append_allreduce(b, {.algorithm = algorithm, .contribution = mine, .result = sum, .op = op}, kNoOp);
  b.label(plan.done, "complete");
  return b.build(plan.done).among(members, groups.ranks());
}

Schedule group_round_schedule(int rank, std::span<const int> members, int ranks, std::span<const BucketSpec> buckets) {
  const auto position = std::ranges::find(members, rank) - members.begin();
  return partial_allreduce_schedule(static_cast<int>(position), static_cast<int>(members.size()), buckets,
                                    ReduceOp::sum, SumOrder::fixed, Activation::none())
      .among(members, ranks);
}

std::vector<int> activation_neighbours(int rank, int ranks, int quorum) {
  if (quorum != 0) return binomial_tree(rank, ranks, GroupProtocol::counter()).children;
  std::vector<int> out;
  for (int distance = 1; distance < ranks; distance *= 2) {
    if ((rank ^ distance) < ranks) out.push_back(rank ^ distance);
  }
  return out;
}

}  // namespace stretto
