#include "stretto/collective/schedules/group_schedule.h"

#include <algorithm>

#include "stretto/base/error.h"
#include "stretto/collective/protocol/group_protocol.h"
#include "stretto/collective/schedules/binomial_tree.h"
#include "stretto/collective/schedules/partial_schedule.h"

namespace stretto {

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
