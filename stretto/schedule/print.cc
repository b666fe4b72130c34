#include "stretto/schedule/print.h"

#include <algorithm>
#include <iomanip>
#include <sstream>
#include <vector>

#include "stretto/base/words.h"
#include "stretto/schedule/validate.h"

namespace stretto {
namespace {

/// The label where there is one, else the number.
std::string short_name(const Schedule& schedule, OpId id) {
  const auto& label = schedule.label(id);
  return label.empty() ? text('#', id) : label;
}

std::string slice_text(const Schedule& schedule, const Slice& slice) {
  if (slice.buffer == kNoBuffer) return "nothing";
  const auto& spec = schedule.buffers()[slice.buffer];
  if (slice.offset == 0 && slice.count == spec.count) return spec.name;
  return text(spec.name, '[', slice.offset, "..", slice.offset + slice.count, ')');
}

/// The action of an operation, without its name.
std::string action_of(const Schedule& schedule, const Op& op) {
  const char* header = op.with_header ? " with header" : "";
  const std::string dst = slice_text(schedule, op.dst);
  const std::string src = slice_text(schedule, op.src);
  switch (op.kind) {
    case OpKind::send: return text("send ", src, header, " to ", op.peer, " on ", op.channel);
    case OpKind::recv: return text("recv ", dst, header, " from ", op.peer, " on ", op.channel);
    case OpKind::reduce:
      return text(dst, " = ", name_of(op.reduce_op), '(', src, ", ", slice_text(schedule, op.other), ')', header);
    case OpKind::copy: return text(dst, " = ", src, header);
    case OpKind::delay: return text("delay ", seconds(op.delay) * 1e6, " us");
    case OpKind::call: return text("call hook ", op.hook);
    case OpKind::nop: return "nop";
  }
  return "";
}

/// How many of how many, for an operation that does not wait for all.
std::string need_text(const Schedule& schedule, OpId id) {
  const Op& op = schedule.op(id);
  const std::uint32_t most = schedule.num_predecessors(id) + (op.external ? 1 : 0);
  if (op.need == most) return "";
  return op.need == 1 ? "any of " : text(op.need, " of ", most, " of ");
}

std::string waits_text(const Schedule& schedule, OpId id, const std::vector<OpId>& before) {
  std::string list = schedule.op(id).external ? "a trigger" : "";
  for (const OpId p : before) list += (list.empty() ? "" : ", ") + short_name(schedule, p);
  return list.empty() ? "at once" : "after " + need_text(schedule, id) + list;
}

const char* colour_of(OpKind kind) {
  switch (kind) {
    case OpKind::send: return "lightblue";
    case OpKind::recv: return "palegreen";
    case OpKind::nop: return "white";
    default: return "orange";
  }
}

/// For inside the quotes of a Graphviz string.
std::string quoted(const std::string& in) {
  std::string out = "\"";
  for (const char c : in) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + '"';
}

std::string node(int rank, OpId id) {
  return text('r', rank, '_', id);
}

void write_cluster(std::ostream& out, const Schedule& schedule) {
  const int rank = schedule.rank();
  out << "  subgraph cluster_" << rank << " {\n    label=" << quoted(text("rank ", rank)) << ";\n";
  for (OpId id = 0; id < schedule.ops().size(); ++id) {
    const Op& op = schedule.op(id);
    std::string title = action_of(schedule, op);
    if (!schedule.label(id).empty()) title = schedule.label(id) + ": " + title;
    const std::string some = need_text(schedule, id);
    if (!some.empty() && op.need != 1) title += text(" (", op.need, " of ", schedule.num_predecessors(id), ')');
    out << "    " << node(rank, id) << " [label=" << quoted(title) << ", fillcolor=" << colour_of(op.kind)
        << ", style=" << (some.empty() ? "filled" : "\"filled,dashed\"");
    if (op.external) out << ", peripheries=2";
    out << "];\n";
  }
  for (OpId id = 0; id < schedule.ops().size(); ++id) {
    for (const OpId next : schedule.successors(id)) {
      out << "    " << node(rank, id) << " -> " << node(rank, next) << ";\n";
    }
  }
  out << "  }\n";
}

}  // namespace

std::string to_text(const Schedule& schedule) {
  std::ostringstream out;
  out << "schedule \"" << schedule.name() << "\" of rank " << schedule.rank() << " of " << schedule.ranks() << ": "
      << schedule.ops().size() << " operations, complete with " << short_name(schedule, schedule.completion()) << '\n';
  for (const auto& spec : schedule.buffers()) {
    out << "  " << (spec.role == BufferSpec::Role::given ? "given   " : "scratch ") << spec.name << ": " << spec.count
        << ' ' << name_of(spec.type) << '\n';
  }
  const auto before = predecessors_of(schedule);
  for (OpId id = 0; id < schedule.ops().size(); ++id) {
    const std::string label = schedule.label(id).empty() ? "" : schedule.label(id) + ": ";
    out << "  " << std::setw(4) << text('#', id) << ' ' << label << action_of(schedule, schedule.op(id)) << ", "
        << waits_text(schedule, id, before[id]) << '\n';
  }
  return std::move(out).str();
}

std::string to_dot(std::span<const Schedule> schedules) {
  std::ostringstream out;
  const std::string name = schedules.empty() ? "" : schedules.front().name();
  out << "digraph " << quoted(name) << " {\n  node [shape=ellipse, fontname=\"Helvetica\"];\n";
  for (const Schedule& schedule : schedules) write_cluster(out, schedule);
  for (const Message& m : messages_of(schedules)) {
    out << "  " << node(m.src, m.send) << " -> " << node(m.dst, m.recv)
        << " [style=dashed, color=gray, constraint=false];\n";
  }
  out << "}\n";
  return std::move(out).str();
}

}  // namespace stretto
