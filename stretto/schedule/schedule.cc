#include "stretto/schedule/schedule.h"

#include <algorithm>

#include "stretto/base/error.h"

namespace stretto {

const char* name_of(OpKind kind) {
  switch (kind) {
    case OpKind::send: return "send";
    case OpKind::recv: return "recv";
    case OpKind::reduce: return "reduce";
    case OpKind::copy: return "copy";
    case OpKind::delay: return "delay";
    case OpKind::call: return "call";
    case OpKind::nop: return "nop";
  }
  return "unknown operation";
}

const std::string& Schedule::label(OpId id) const {
  static const std::string none;
  const auto found = labels_.find(id);
  return found == labels_.end() ? none : found->second;
}

OpId Schedule::find(const std::string& label) const {
  for (const auto& [id, its] : labels_) {
    if (its == label) return id;
  }
  throw UsageError(text("schedule \"", name_, "\" of rank ", rank_, " has no operation labelled \"", label,
                        "\"; ScheduleBuilder::label() gives it one"));
}

Schedule Schedule::among(std::span<const int> members, int ranks) const {
  if (static_cast<int>(members.size()) != ranks_) {
    throw UsageError(text("schedule \"", name_, "\" of ", ranks_, " ranks among ", members.size(), " members"));
  }
  std::vector<bool> taken(static_cast<std::size_t>(std::max(ranks, 0)));
  for (const int member : members) {
    if (member < 0 || member >= ranks || taken[static_cast<std::size_t>(member)]) {
      throw UsageError(text("schedule \"", name_, "\": member ", member, " of a job of ", ranks,
                            "; expected each rank from 0 to ", ranks - 1, " once at most"));
    }
    taken[static_cast<std::size_t>(member)] = true;
  }
  Schedule out = *this;
  out.rank_ = members[static_cast<std::size_t>(rank_)];
  out.ranks_ = ranks;
  for (Op& op : out.ops_) {
    if (op.peer >= 0) op.peer = members[static_cast<std::size_t>(op.peer)];
  }
  return out;
}

std::string describe(const Schedule& schedule, OpId id) {
  const Op& op = schedule.op(id);
  std::string out = text(name_of(op.kind), " #", id);
  if (const auto& label = schedule.label(id); !label.empty()) out += text(" \"", label, "\"");
  if (op.kind == OpKind::send) out += text(" (to rank ", op.peer, ", channel ", op.channel, ")");
  if (op.kind == OpKind::recv) out += text(" (from rank ", op.peer, ", channel ", op.channel, ")");
  return out;
}

std::vector<std::vector<OpId>> predecessors_of(const Schedule& schedule) {
  std::vector<std::vector<OpId>> before(schedule.ops().size());
  for (OpId id = 0; id < before.size(); ++id) {
    for (const OpId next : schedule.successors(id)) before[next].push_back(id);
  }
  return before;
}

std::uint64_t bytes_of(const Schedule& schedule, const Op& op) {
  const Slice& slice = op.kind == OpKind::send ? op.src : op.dst;
  if (slice.buffer == kNoBuffer) return 0;
  return slice.count * size_of(schedule.buffers()[slice.buffer].type);
}

}  // namespace stretto
