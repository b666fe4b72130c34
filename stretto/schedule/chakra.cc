#include <protozero/pbf_builder.hpp>
#include <protozero/varint.hpp>

#include "stretto/base/words.h"
#include "stretto/schedule/export.h"

namespace stretto {

namespace {

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
