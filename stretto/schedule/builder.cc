#include "stretto/schedule/builder.h"

#include <algorithm>

#include "stretto/base/error.h"
#include "stretto/schedule/validate.h"

namespace stretto {
ScheduleBuilder::ScheduleBuilder(std::string name, int rank, int ranks) {
  if (ranks < 1 || rank < 0 || rank >= ranks) {
    throw UsageError(text("schedule \"", name, "\": rank ", rank, " of ", ranks,
                          " ranks; expected at least one rank and a rank from 0 to ranks − 1"));
  }
  schedule_.name_ = std::move(name);
  schedule_.rank_ = rank;
  schedule_.ranks_ = ranks;
}

BufferId ScheduleBuilder::add_buffer(std::string name, DataType type, std::uint64_t count, BufferSpec::Role role) {
  if (count > kMaxBufferBytes / size_of(type)) {
    refuse(schedule_,
           text("buffer \"", name, "\" of ", count, ' ', name_of(type), " is larger than ", kMaxBufferBytes, " bytes"));
  }
  schedule_.buffers_.push_back({std::move(name), type, count, role});
  return static_cast<BufferId>(schedule_.buffers_.size() - 1);
}

BufferId ScheduleBuilder::buffer(std::string name, DataType type, std::uint64_t count) {
  return add_buffer(std::move(name), type, count, BufferSpec::Role::given);
}

BufferId ScheduleBuilder::scratch(std::string name, DataType type, std::uint64_t count) {
  return add_buffer(std::move(name), type, count, BufferSpec::Role::scratch);
}

const BufferSpec& ScheduleBuilder::spec(BufferId buffer) const {
  if (buffer >= schedule_.buffers_.size()) {
    refuse(schedule_, text("there is no buffer ", buffer, "; so far there are ", schedule_.buffers_.size()));
  }
  return schedule_.buffers_[buffer];
}

Slice ScheduleBuilder::whole(BufferId buffer) const {
  return {buffer, 0, spec(buffer).count};
}

OpId ScheduleBuilder::add(const Op& op, const After& after) {
  check_number_of_ops(schedule_, schedule_.ops_.size() + 1);
  const auto id = static_cast<OpId>(schedule_.ops_.size());
  schedule_.ops_.push_back(op);
  wanted_.push_back(Need::all().value);
  for (const OpId predecessor : after.ops()) {
    if (predecessor != kNoOp) add_after(id, predecessor);
  }
  return id;
}

OpId ScheduleBuilder::add_message(OpKind kind, int peer, int channel, Slice slice, const After& after) {
  if (channel < 0 || channel >= kNumChannels) {
    refuse(schedule_, text("channel ", channel, " of ", name_of(kind), " #", schedule_.ops_.size(), " with rank ", peer,
                           "; expected 0 to ", kNumChannels - 1));
  }
  Op op{.kind = kind, .channel = static_cast<std::uint16_t>(channel), .peer = peer};
  (kind == OpKind::send ? op.src : op.dst) = slice;
  return add(op, after);
}

OpId ScheduleBuilder::send(int peer, int channel, Slice src, After after) {
  return add_message(OpKind::send, peer, channel, src, after);
}

OpId ScheduleBuilder::recv(int peer, int channel, Slice dst, After after) {
  return add_message(OpKind::recv, peer, channel, dst, after);
}

OpId ScheduleBuilder::reduce(Slice dst, Slice first, Slice second, ReduceOp op, After after) {
  if (dst.buffer < schedule_.buffers_.size()) check_reduction(schedule_.buffers_[dst.buffer].type, op);
  return add({.kind = OpKind::reduce, .reduce_op = op, .dst = dst, .src = first, .other = second}, after);
}

OpId ScheduleBuilder::copy(Slice dst, Slice src, After after) {
  return add({.kind = OpKind::copy, .dst = dst, .src = src}, after);
}

OpId ScheduleBuilder::delay(Duration duration, After after) {
  return add({.kind = OpKind::delay, .delay = duration}, after);
}

OpId ScheduleBuilder::call(std::uint32_t hook, After after) {
  return add({.kind = OpKind::call, .hook = hook}, after);
}

OpId ScheduleBuilder::nop(After after) {
  return add({.kind = OpKind::nop}, after);
}

Op& ScheduleBuilder::existing(OpId op) {
  if (op >= schedule_.ops_.size()) {
    refuse(schedule_, text("there is no operation #", op, "; so far there are ", schedule_.ops_.size()));
  }
  return schedule_.ops_[op];
}

void ScheduleBuilder::add_after(OpId op, OpId predecessor) {
  existing(op);
  existing(predecessor);
  edges_.emplace_back(predecessor, op);
}

ScheduleBuilder& ScheduleBuilder::need(OpId op, Need need) {
  existing(op);
  wanted_[op] = need.value;
  return *this;
}

ScheduleBuilder& ScheduleBuilder::external(OpId op) {
  existing(op).external = true;
  return *this;
}

ScheduleBuilder& ScheduleBuilder::with_header(OpId op) {
  existing(op).with_header = true;
  return *this;
}

ScheduleBuilder& ScheduleBuilder::label(OpId op, std::string label) {
  existing(op);
  schedule_.labels_[op] = std::move(label);
  return *this;
}

Schedule ScheduleBuilder::build(OpId completion) const {
  Schedule out = schedule_;
  const auto num_ops = static_cast<OpId>(out.ops_.size());
  if (completion >= num_ops) {
    refuse(out, text("completion is operation #", completion, "; there are ", num_ops, " operations"));
  }
  out.completion_ = completion;

  auto edges = edges_;
  std::sort(edges.begin(), edges.end());
  edges.erase(std::unique(edges.begin(), edges.end()), edges.end());
  out.first_edge_.assign(num_ops + 1, 0);
  out.num_predecessors_.assign(num_ops, 0);
  for (const auto& [from, to] : edges) {
    ++out.first_edge_[from + 1];
    ++out.num_predecessors_[to];
    out.edges_.push_back(to);
  }
  for (OpId id = 0; id < num_ops; ++id) out.first_edge_[id + 1] += out.first_edge_[id];

  for (OpId id = 0; id < num_ops; ++id) {
    Op& op = out.ops_[id];
    const std::uint32_t most = out.num_predecessors_[id] + (op.external ? 1 : 0);
    const int wanted = wanted_[id];
    if (wanted != Need::all().value && (wanted < 1 || static_cast<std::uint32_t>(wanted) > most)) {
      refuse(out, text(describe(out, id), " needs ", wanted, " of ", most, " predecessors; expected 1 to ", most));
    }
    op.need = wanted == Need::all().value ? most : static_cast<std::uint32_t>(wanted);
    if (op.kind == OpKind::send || op.kind == OpKind::recv) {
      out.num_channels_ = std::max<std::uint16_t>(out.num_channels_, op.channel + 1);
    }
  }
  check_well_formed(out);
  return out;
}

}  // namespace stretto
