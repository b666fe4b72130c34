#include "stretto/schedule/export.h"

#include <algorithm>
#include <protozero/pbf_builder.hpp>
#include <protozero/varint.hpp>
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

// Numbers of the schema of Chakra 0.0.4; docs/other_simulators.md says where they are from.
constexpr const char* kVersion = "0.0.4";

enum class Metadata : protozero::pbf_tag_type { version = 1 };
enum class Node : protozero::pbf_tag_type { id = 1, name = 2, type = 3, data_deps = 5, duration_micros = 7, attr = 10 };
enum class Attribute : protozero::pbf_tag_type { name = 1, int32 = 7, int64 = 9, uint64 = 13, boolean = 27 };

enum NodeType : std::int32_t { kCompute = 4, kSend = 5, kRecv = 6, kCollective = 7 };
constexpr std::int64_t kAllReduce = 0;

using Builder = protozero::pbf_builder<Node>;

/// An attribute of a node: a message of its own, with a name and a value of one of many types.
protozero::pbf_builder<Attribute> attribute(Builder& node, const char* name) {
  protozero::pbf_builder<Attribute> out(node, Node::attr);
  out.add_string(Attribute::name, name);
  return out;
}

NodeType type_of(ExportNode::Kind kind) {
  switch (kind) {
    case ExportNode::Kind::send: return kSend;
    case ExportNode::Kind::recv: return kRecv;
    case ExportNode::Kind::allreduce: return kCollective;
    case ExportNode::Kind::compute: break;
  }
  return kCompute;
}

std::string encoded(int rank, const ExportNode& node) {
  constexpr std::uint64_t kMicrosecond = 1000;
  std::string out;
  Builder builder(out);
  builder.add_uint64(Node::id, node.id);
  builder.add_string(Node::name, node.name);
  builder.add_enum(Node::type, type_of(node.kind));
  builder.add_packed_uint64(Node::data_deps, node.after.begin(), node.after.end());
  // Without it a reader takes a node for one of the host's processor, which does not communicate.
  attribute(builder, "is_cpu_op").add_bool(Attribute::boolean, false);
  if (node.kind == ExportNode::Kind::compute) {
    builder.add_uint64(Node::duration_micros, (node.nanoseconds + kMicrosecond / 2) / kMicrosecond);
    attribute(builder, "duration_nanos").add_uint64(Attribute::uint64, node.nanoseconds);
    return out;
  }
  attribute(builder, "comm_size").add_int64(Attribute::int64, static_cast<std::int64_t>(node.bytes));
  if (node.kind == ExportNode::Kind::allreduce) {
    attribute(builder, "comm_type").add_int64(Attribute::int64, kAllReduce);
    return out;
  }
  const bool sends = node.kind == ExportNode::Kind::send;
  attribute(builder, "comm_src").add_int32(Attribute::int32, sends ? rank : node.peer);
  attribute(builder, "comm_dst").add_int32(Attribute::int32, sends ? node.peer : rank);
  attribute(builder, "comm_tag").add_int32(Attribute::int32, static_cast<std::int32_t>(node.tag));
  return out;
}

void append(std::string& file, const std::string& message) {
  protozero::add_varint_to_buffer(&file, message.size());
  file += message;
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

std::string chakra_file(const std::string& name, int rank) {
  return text(name, '.', rank, ".et");
}

std::string chakra_of_rank(int rank, std::span<const ExportNode> nodes) {
  std::string metadata;
  protozero::pbf_builder<Metadata>(metadata).add_string(Metadata::version, kVersion);
  std::string file;
  append(file, metadata);
  for (const ExportNode& node : nodes) append(file, encoded(rank, node));
  return file;
}

}  // namespace stretto
