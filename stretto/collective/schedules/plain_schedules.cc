#include "stretto/collective/schedules/plain_schedules.h"

#include <algorithm>
#include <vector>

#include "stretto/base/error.h"

namespace stretto {
namespace {

Schedule complete_after(ScheduleBuilder& b, const std::vector<OpId>& ops) {
  const OpId complete = b.nop(ops);
  b.label(complete, "complete");
  return b.build(complete);
}

}  // namespace

Schedule broadcast_schedule(int rank, int ranks, int root, DataType type, std::uint64_t count, std::uint64_t piece) {
  ScheduleBuilder b("broadcast", rank, ranks);
  if (root < 0 || root >= ranks) {
    throw UsageError(text("broadcast from rank ", root, "; expected a rank from 0 to ", ranks - 1));
  }
  const BufferId data = b.buffer("data", type, count);
  const BinomialTree tree = binomial_tree(rank, ranks, root);
  std::vector<OpId> ops, sent(tree.children.size(), kNoOp);
  int channel = 0;
  std::uint64_t done = 0;
  do {
    const Slice slice{data, done, piece == 0 ? count : std::min(piece, count - done)};
    OpId here = kNoOp;
    if (tree.parent >= 0) {
      here = b.recv(tree.parent, channel, slice, {});
      ops.push_back(here);
    }
    for (std::size_t i = 0; i < sent.size(); ++i) {
      sent[i] = b.send(tree.children[i], channel, slice, {here, sent[i]});
      ops.push_back(sent[i]);
    }
    ++channel;
    done += slice.count;
  } while (done < count);
  return complete_after(b, ops);
}

Schedule barrier_schedule(int rank, int ranks) {
  ScheduleBuilder b("barrier", rank, ranks);
  std::vector<OpId> ops;
  OpId heard = kNoOp;
  for (int distance = 1; distance < ranks; distance *= 2) {
    const OpId sent = b.send((rank + distance) % ranks, 0, {}, {heard});
    heard = b.recv((rank + ranks - distance) % ranks, 0, {}, {heard});
    ops.insert(ops.end(), {sent, heard});
  }
  return complete_after(b, ops);
}

Schedule allgather_schedule(int rank, int ranks, DataType type, std::uint64_t count) {
  ScheduleBuilder b("allgather", rank, ranks);
  const BufferId mine = b.buffer("mine", type, count);
  const BufferId all = b.buffer("all", type, count * static_cast<std::uint64_t>(ranks));
  const auto blocks = [&](int begin, int end) {
    return Slice{all, static_cast<std::uint64_t>(begin) * count, static_cast<std::uint64_t>(end - begin) * count};
  };
  std::vector<OpId> ops{b.copy(blocks(rank, rank + 1), b.whole(mine), {})};
  std::vector<OpId> here = ops;
  for (int distance = 1; distance < ranks; distance *= 2) {
    // The blocks [first, first + len) modulo P lie in one piece or two; both sides cut them alike.
    const int len = std::min(distance, ranks - distance);
    const int to = (rank + ranks - distance) % ranks;
    const int from = (rank + distance) % ranks;
    const int send_to_end = std::min(len, ranks - rank);
    const int recv_to_end = std::min(len, ranks - from);
    ops.push_back(b.send(to, 0, blocks(rank, rank + send_to_end), here));
    if (send_to_end < len) ops.push_back(b.send(to, 1, blocks(0, len - send_to_end), here));
    const OpId got = b.recv(from, 0, blocks(from, from + recv_to_end), {});
    here.push_back(got);
    ops.push_back(got);
    if (recv_to_end < len) {
      const OpId rest = b.recv(from, 1, blocks(0, len - recv_to_end), {});
      here.push_back(rest);
      ops.push_back(rest);
    }
  }
  return complete_after(b, ops);
}

Schedule allreduce_schedule(int rank, int ranks, DataType type, std::uint64_t count, ReduceOp op,
                            AllreduceAlgorithm algorithm) {
  ScheduleBuilder b("allreduce", rank, ranks);
  const BufferId mine = b.buffer("mine", type, count);
  const BufferId sum = b.buffer("sum", type, count);
  const AllreducePlan plan = append_allreduce(
      b, {.algorithm = algorithm, .contribution = mine, .result = sum, .op = op, .in_place = true}, kNoOp);
  b.label(plan.done, "complete");
  return b.build(plan.done);
}

}  // namespace stretto
