#include "stretto/engine/instance.h"

namespace stretto {

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

void Instance::release(BlockPool& pool) {
  for (auto& block : scratch) pool.give_back(std::exchange(block, Block{}));
  for (auto& e : early) pool.give_back(std::exchange(e.block, Block{}));
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
