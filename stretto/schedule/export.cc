#include "stretto/schedule/export.h"

#include <algorithm>
#include <sstream>

#include "stretto/base/error.h"
#include "stretto/base/words.h"
#include "stretto/schedule/execution.h"
#include "stretto/schedule/print.h"
#include "stretto/schedule/validate.h"

namespace stretto {

namespace {

constexpr std::uint64_t kBytesPerNanosecond = 8;

std::uint64_t nanoseconds_of(const Schedule& schedule, const Op& op) {
  if (op.kind == OpKind::delay) return static_cast<std::uint64_t>(op.delay.count());
  return (bytes_of(schedule, op) + kBytesPerNanosecond - 1) / kBytesPerNanosecond;
}

ExportNode node_of(const Schedule& schedule, OpId id) {
  const Op& op = schedule.op(id);
  ExportNode node{.id = id, .name = schedule.label(id).empty() ? name_of(op.kind) : schedule.label(id)};
  if (op.kind == OpKind::send || op.kind == OpKind::recv) {
    node.kind = op.kind == OpKind::send ? ExportNode::Kind::send : ExportNode::Kind::recv;
    node.peer = op.peer;
    node.bytes = std::max<std::uint64_t>(1, bytes_of(schedule, op));
  } else {
    node.nanoseconds = nanoseconds_of(schedule, op);
  }
  return node;
}

}  // namespace

std::vector<std::vector<ExportNode>> export_of(std::span<const Schedule> schedules, int initiator) {
  validate(schedules);
  const int ranks = static_cast<int>(schedules.size());
  if (initiator < 0 || initiator >= ranks) {
    throw UsageError(text("initiator ", initiator, " is outside the job; expected a rank from 0 to ", ranks - 1));
  }
  const Execution execution(schedules, initiator);
  execution.require_completion();

  std::vector<std::vector<std::uint32_t>> tags;
  std::vector<std::vector<bool>> kept;
  for (int rank = 0; rank < ranks; ++rank) {
    const auto num_ops = schedules[static_cast<std::size_t>(rank)].ops().size();
    tags.emplace_back(num_ops);
    kept.emplace_back(num_ops);
    for (OpId id = 0; id < num_ops; ++id) kept.back()[id] = execution.fate(rank, id).finished;
  }
  std::uint64_t num_tags = 0;
  for (const Message& m : messages_of(schedules)) {
    if (!kept[static_cast<std::size_t>(m.src)][m.send]) continue;
    if (num_tags == kMostTags)
      throw UsageError(text("more than ", kMostTags, " messages; each needs a tag of 31 bits"));
    const auto tag = static_cast<std::uint32_t>(num_tags++);
    tags[static_cast<std::size_t>(m.src)][m.send] = tags[static_cast<std::size_t>(m.dst)][m.recv] = tag;
    kept[static_cast<std::size_t>(m.dst)][m.recv] = true;
  }

  std::vector<std::vector<ExportNode>> out(schedules.size());
  for (int rank = 0; rank < ranks; ++rank) {
    const auto at = static_cast<std::size_t>(rank);
    for (OpId id = 0; id < schedules[at].ops().size(); ++id) {
      if (!kept[at][id]) continue;
      ExportNode node = node_of(schedules[at], id);
      node.tag = tags[at][id];
      // A recv that is there for its message alone waits for nothing.
      if (execution.fate(rank, id).finished) node.after = execution.fate(rank, id).required;
      out[at].push_back(std::move(node));
    }
  }
  return out;
}

std::string goal_of_rank(int rank, std::span<const ExportNode> nodes) {
  std::ostringstream out;
  out << "\nrank " << rank << " {\n";
  for (const ExportNode& node : nodes) {
    out << 'l' << node.id << ": ";
    if (node.kind == ExportNode::Kind::compute) {
      out << "calc " << node.nanoseconds << '\n';
    } else {
      const bool sends = node.kind == ExportNode::Kind::send;
      out << (sends ? "send " : "recv ") << node.bytes << (sends ? "b to " : "b from ") << node.peer << " tag "
          << node.tag << '\n';
    }
  }
  for (const ExportNode& node : nodes)
    for (const std::uint32_t before : node.after) out << 'l' << node.id << " requires l" << before << '\n';
  out << "}\n";
  return std::move(out).str();
}

std::string to_goal(std::span<const Schedule> schedules, int initiator) {
  const auto ranks = export_of(schedules, initiator);
  std::string out = text("num_ranks ", ranks.size(), '\n');
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) out += goal_of_rank(static_cast<int>(rank), ranks[rank]);
  return out;
}

}  // namespace stretto
