#include "stretto/schedule/validate.h"

#include <algorithm>
#include <map>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "stretto/base/error.h"
#include "stretto/schedule/execution.h"

namespace stretto {

namespace {

/// A send or recv, ordered so that partners meet when the sends and the recvs of a job are both sorted.
struct End {
  int src = 0;
  int dst = 0;
  std::uint16_t channel = 0;
  OpId op = kNoOp;

  auto key() const { return std::tuple(src, dst, channel); }
};

std::vector<End> ends_of(std::span<const Schedule> schedules, OpKind kind) {
  std::vector<End> out;
  for (const Schedule& schedule : schedules) {
    const int rank = schedule.rank();
    const auto ops = schedule.ops();
    for (OpId id = 0; id < ops.size(); ++id) {
      if (ops[id].kind != kind) continue;
      const int src = kind == OpKind::send ? rank : ops[id].peer;
      const int dst = kind == OpKind::send ? ops[id].peer : rank;
      out.push_back({src, dst, ops[id].channel, id});
    }
  }
  std::sort(out.begin(), out.end(), [](const End& a, const End& b) { return a.key() < b.key(); });
  return out;
}

std::string at(std::span<const Schedule> schedules, int rank, OpId op) {
  return text("rank ", rank, "'s ", describe(schedules[static_cast<std::size_t>(rank)], op));
}

}  // namespace

std::vector<Message> messages_of(std::span<const Schedule> schedules) {
  const auto sends = ends_of(schedules, OpKind::send);
  const auto recvs = ends_of(schedules, OpKind::recv);
  std::vector<Message> out;
  auto recv = recvs.begin();
  for (const End& send : sends) {
    while (recv != recvs.end() && recv->key() < send.key()) ++recv;
    if (recv != recvs.end() && recv->key() == send.key()) out.push_back({send.src, send.op, send.dst, recv->op});
  }
  std::sort(out.begin(), out.end(),
            [](const Message& a, const Message& b) { return std::tie(a.src, a.send) < std::tie(b.src, b.send); });
  return out;
}

void validate(std::span<const Schedule> schedules) {
  const int ranks = static_cast<int>(schedules.size());
  for (int rank = 0; rank < ranks; ++rank) {
    const Schedule& schedule = schedules[static_cast<std::size_t>(rank)];
    if (schedule.rank() != rank || schedule.ranks() != ranks) {
      throw UsageError(text("schedule ", rank, " of ", ranks, " is \"", schedule.name(), "\" of rank ", schedule.rank(),
                            " of ", schedule.ranks(), "; expected one for each rank of the job, in order"));
    }
  }

  const auto messages = messages_of(schedules);
  std::vector<std::vector<bool>> matched;
  for (const Schedule& schedule : schedules) matched.emplace_back(schedule.ops().size(), false);
  for (const Message& m : messages) {
    matched[static_cast<std::size_t>(m.src)][m.send] = true;
    matched[static_cast<std::size_t>(m.dst)][m.recv] = true;
  }
  for (int rank = 0; rank < ranks; ++rank) {
    const auto ops = schedules[static_cast<std::size_t>(rank)].ops();
    for (OpId id = 0; id < ops.size(); ++id) {
      const bool sends = ops[id].kind == OpKind::send;
      if ((!sends && ops[id].kind != OpKind::recv) || matched[static_cast<std::size_t>(rank)][id]) continue;
      throw UsageError(text(at(schedules, rank, id), " has no matching ", sends ? "recv" : "send", " on rank ",
                            ops[id].peer, "; it needs one ", sends ? "from" : "to", " rank ", rank, " on channel ",
                            ops[id].channel));
    }
  }

  for (const Message& m : messages) {
    const Schedule& src = schedules[static_cast<std::size_t>(m.src)];
    const Schedule& dst = schedules[static_cast<std::size_t>(m.dst)];
    const Op& send = src.op(m.send);
    const Op& recv = dst.op(m.recv);
    if (bytes_of(src, send) != bytes_of(dst, recv)) {
      throw UsageError(text(at(schedules, m.src, m.send), " sends ", bytes_of(src, send), " bytes, ",
                            at(schedules, m.dst, m.recv), " takes ", bytes_of(dst, recv), "; they must be equal"));
    }
    if (send.with_header != recv.with_header) {
      throw UsageError(text(at(schedules, m.src, m.send), send.with_header ? " carries" : " does not carry",
                            " a header, ", at(schedules, m.dst, m.recv),
                            recv.with_header ? " expects" : " does not expect", " one; both or neither must"));
    }
  }
  Execution(schedules, kEveryRank).require_completion();
}

namespace {

std::string describe_slice(const Schedule& schedule, const Slice& slice) {
  if (slice.buffer == kNoBuffer) return text(slice.count, " elements of no buffer");
  const auto& spec = schedule.buffers()[slice.buffer];
  return text(slice.count, " ", name_of(spec.type), " of \"", spec.name, "\"");
}

void check_slice(const Schedule& schedule, OpId id, const char* side, const Slice& slice, bool may_be_none) {
  if (slice.buffer == kNoBuffer) {
    if (!may_be_none) refuse(schedule, text(describe(schedule, id), " has no ", side, "; give it a slice of a buffer"));
    if (slice.count != 0 || slice.offset != 0) {
      refuse(schedule, text(describe(schedule, id), " moves ", slice.count, " elements from offset ", slice.offset,
                            " of no buffer; without a buffer both must be 0"));
    }
    return;
  }
  if (slice.buffer >= schedule.buffers().size()) {
    refuse(schedule, text(describe(schedule, id), " names buffer ", slice.buffer, " as ", side, "; there are ",
                          schedule.buffers().size()));
  }
  const auto& spec = schedule.buffers()[slice.buffer];
  if (slice.offset > spec.count || slice.count > spec.count - slice.offset) {
    refuse(schedule, text(describe(schedule, id), ": ", side, " is ", slice.count, " elements from ", slice.offset,
                          " on, outside buffer \"", spec.name, "\" of ", spec.count));
  }
}

bool overlap(const Slice& a, const Slice& b) {
  return a.buffer == b.buffer && a.offset < b.offset + b.count && b.offset < a.offset + a.count;
}

void check_source(const Schedule& schedule, OpId id, const Slice& dst, const Slice& src) {
  check_slice(schedule, id, "source", src, false);
  const auto& buffers = schedule.buffers();
  if (dst.count != src.count || buffers[dst.buffer].type != buffers[src.buffer].type) {
    refuse(schedule, text(describe(schedule, id), ": source is ", describe_slice(schedule, src), ", destination ",
                          describe_slice(schedule, dst), "; they must have the same type and count"));
  }
}

void check_slices(const Schedule& schedule, OpId id, const Op& op) {
  const bool reduces = op.kind == OpKind::reduce;
  check_slice(schedule, id, "destination", op.dst, false);
  check_source(schedule, id, op.dst, op.src);
  if (reduces) check_source(schedule, id, op.dst, op.other);
  // A reduce may have its result in the place of one of its sources.
  const bool in_part = reduces && ((overlap(op.dst, op.src) && op.dst != op.src) ||
                                   (overlap(op.dst, op.other) && op.dst != op.other) || overlap(op.src, op.other));
  if (in_part || (!reduces && overlap(op.dst, op.src))) {
    refuse(schedule, text(describe(schedule, id), ": source and destination overlap in buffer \"",
                          schedule.buffers()[op.src.buffer].name, "\""));
  }
}

void check_message(const Schedule& schedule, OpId id, const Op& op) {
  if (op.peer < 0 || op.peer >= schedule.ranks()) {
    refuse(schedule, text(describe(schedule, id), ": its peer is outside the job; expected a rank from 0 to ",
                          schedule.ranks() - 1));
  }
  if (op.peer == schedule.rank()) {
    refuse(schedule, text(describe(schedule, id), ": its peer is the rank itself; use copy"));
  }
  const bool sends = op.kind == OpKind::send;
  const Slice& slice = sends ? op.src : op.dst;
  check_slice(schedule, id, sends ? "source" : "destination", slice, true);
  if (op.with_header && slice.buffer == kNoBuffer) {
    refuse(schedule,
           text(describe(schedule, id), ": its header belongs to a buffer; give it a slice, if an empty one"));
  }
}

void check_op(const Schedule& schedule, OpId id) {
  const Op& op = schedule.op(id);
  const bool moves = op.kind == OpKind::reduce || op.kind == OpKind::copy;
  const bool message = op.kind == OpKind::send || op.kind == OpKind::recv;
  if (moves) check_slices(schedule, id, op);
  if (message) check_message(schedule, id, op);
  if (op.with_header && !moves && !message) {
    refuse(schedule, text(describe(schedule, id), " cannot carry a header; send, recv, reduce and copy can"));
  }
  if (op.delay < Duration::zero()) {
    refuse(schedule, text(describe(schedule, id), " lasts ", op.delay.count(), " ns; expected 0 or more"));
  }
}

/// Messages of one pair of ranks are told apart by their channel alone.
void check_channels(const Schedule& schedule) {
  std::map<std::pair<OpKind, std::uint64_t>, OpId> seen;
  for (OpId id = 0; id < schedule.ops().size(); ++id) {
    const Op& op = schedule.op(id);
    if (op.kind != OpKind::send && op.kind != OpKind::recv) continue;
    const std::uint64_t place = (static_cast<std::uint64_t>(op.peer) << 16) | op.channel;
    const auto [other, fresh] = seen.try_emplace({op.kind, place}, id);
    if (!fresh) {
      refuse(schedule, text(describe(schedule, other->second), " and ", describe(schedule, id),
                            " use the same channel; each needs one of its own"));
    }
  }
}

void check_labels(const Schedule& schedule) {
  std::unordered_map<std::string, OpId> seen;
  for (OpId id = 0; id < schedule.ops().size(); ++id) {
    if (schedule.label(id).empty()) continue;
    const auto [other, fresh] = seen.try_emplace(schedule.label(id), id);
    if (!fresh) {
      refuse(schedule, text("operations ", describe(schedule, other->second), " and ", describe(schedule, id),
                            " have the same label; labels must be unique"));
    }
  }
}

/// Takes away operations that can fire, again and again; those that are left lie on cycles or behind them.
void check_cycles(const Schedule& schedule) {
  std::vector<std::uint32_t> missing;
  std::vector<OpId> ready;
  for (OpId id = 0; id < schedule.ops().size(); ++id) {
    missing.push_back(schedule.num_predecessors(id));
    if (missing.back() == 0) ready.push_back(id);
  }
  for (std::size_t i = 0; i < ready.size(); ++i) {
    for (const OpId next : schedule.successors(ready[i])) {
      if (--missing[next] == 0) ready.push_back(next);
    }
  }
  if (ready.size() == missing.size()) return;

  // Each one left has a predecessor that is left: walking back from any of them ends on a cycle.
  const auto before = predecessors_of(schedule);
  const auto left = [&](OpId id) { return missing[id] != 0; };
  OpId at = 0;
  while (!left(at)) ++at;
  std::vector<OpId> path;
  while (std::find(path.begin(), path.end(), at) == path.end()) {
    path.push_back(at);
    at = *std::find_if(before[at].begin(), before[at].end(), left);
  }
  std::string cycle = describe(schedule, at);
  for (auto it = path.rbegin(); *it != at; ++it) cycle += " → " + describe(schedule, *it);
  refuse(schedule, text("operations wait for each other: ", cycle, " → ", describe(schedule, at)));
}

}  // namespace

void refuse(const Schedule& schedule, const std::string& what) {
  throw UsageError(text("schedule \"", schedule.name(), "\" of rank ", schedule.rank(), ": ", what));
}

void check_number_of_ops(const Schedule& schedule, std::uint64_t ops) {
  if (ops > kMaxOps) refuse(schedule, text(ops, " operations; at most ", kMaxOps, " can be told apart"));
}

void check_well_formed(const Schedule& schedule) {
  for (OpId id = 0; id < schedule.ops().size(); ++id) check_op(schedule, id);
  check_channels(schedule);
  check_labels(schedule);
  check_cycles(schedule);
}

}  // namespace stretto
