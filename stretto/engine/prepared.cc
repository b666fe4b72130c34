#include "stretto/engine/prepared.h"

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
    for (BufferId buffer : {op.dst.buffer, op.src.buffer}) {
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

}  // namespace stretto
