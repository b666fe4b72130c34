#include "stretto/engine/instance.h"

#include <algorithm>

namespace stretto {
namespace {

std::uint64_t key_of(int peer, std::uint16_t channel) {
  return (static_cast<std::uint64_t>(static_cast<std::uint32_t>(peer)) << 16) | channel;
}

}  // namespace

PreparedSchedule::PreparedSchedule(const Schedule& schedule) : schedule_(&schedule) {
  header_of_.assign(schedule.buffers().size(), -1);
  early_of_.assign(schedule.ops().size(), -1);
  for (OpId id = 0; id < schedule.ops().size(); ++id) {
    const Op& op = schedule.op(id);
    if (op.need == 0) initial_.push_back(id);
    if (op.kind == OpKind::recv) receives_.push_back({key_of(op.peer, op.channel), id});
    if (!op.with_header) continue;
    for (BufferId buffer : {op.dst.buffer, op.src.buffer, op.other.buffer}) {
      if (buffer != kNoBuffer && header_of_[buffer] < 0) header_of_[buffer] = num_headers_++;
    }
  }
  std::sort(receives_.begin(), receives_.end(), [](const Receive& a, const Receive& b) { return a.key < b.key; });
  for (std::size_t i = 0; i < receives_.size(); ++i) early_of_[receives_[i].op] = static_cast<int>(i);
}

OpId PreparedSchedule::receive(int peer, std::uint16_t channel) const {
  const std::uint64_t key = key_of(peer, channel);
  const auto at = std::lower_bound(receives_.begin(), receives_.end(), key,
                                   [](const Receive& a, std::uint64_t k) { return a.key < k; });
  return at != receives_.end() && at->key == key ? at->op : kNoOp;
}

void Instance::reset(const PreparedSchedule& schedule, Round number, std::uint64_t word, int ranks) {
  const Schedule& plan = schedule.schedule();
  const std::size_t num_ops = plan.ops().size();
  round = number;
  note = word;
  prepared = &schedule;
  sends_out = 0;
  bodies_into_buffers = 0;
  bodies_into_blocks = 0;
  completed = false;
  missing.resize(num_ops);
  for (std::size_t i = 0; i < num_ops; ++i) missing[i] = plan.ops()[i].need;
  state.assign(num_ops, OpState::waiting);
  triggered.assign(num_ops, false);
  buffers.assign(plan.buffers().size(), RoundBuffer{});
  scratch.resize(plan.buffers().size());
  headers.resize(static_cast<std::size_t>(schedule.num_headers()));
  for (auto& header : headers) header.reset(ranks);
  early.resize(static_cast<std::size_t>(schedule.num_receives()));
  for (auto& e : early) e.begun = e.here = false;
}

void Instance::release(BlockPool& pool, FreeHeaders& free_headers) {
  for (auto& block : scratch) pool.give_back(std::exchange(block, Block{}));
  for (auto& e : early) {
    pool.give_back(std::exchange(e.block, Block{}));
    if (e.header != nullptr) free_headers.push_back(std::move(e.header));
  }
  for (auto& [op, block] : encoded) pool.give_back(std::move(block));
  encoded.clear();
  prepared = nullptr;
  ++generation;
}

std::byte* Instance::address(const Slice& slice) const {
  if (slice.buffer == kNoBuffer) return nullptr;
  const RoundBuffer& buffer = buffers[slice.buffer];
  if (buffer.data == nullptr) return nullptr;
  return buffer.data + slice.offset * size_of(prepared->schedule().buffers()[slice.buffer].type);
}

}  // namespace stretto
