#include "stretto/collective/testing/schedule_executor.h"

#include <algorithm>

#include "stretto/base/error.h"
#include "stretto/schedule/validate.h"

namespace stretto {
namespace {

template <class T>
void combine(const Op& op, std::span<std::byte> dst, std::span<const std::byte> first,
             std::span<const std::byte> second) {
  for (std::size_t at = 0; at < dst.size(); at += sizeof(T)) {
    T a, b;
    std::memcpy(&a, first.data() + at, sizeof(T));
    std::memcpy(&b, second.data() + at, sizeof(T));
    T c{};
    switch (op.reduce_op) {
      case ReduceOp::sum: c = a + b; break;
      case ReduceOp::min: c = a < b ? a : b; break;
      case ReduceOp::max: c = a > b ? a : b; break;
      case ReduceOp::bit_and:
        if constexpr (std::is_integral_v<T>) c = a & b;
        break;
    }
    std::memcpy(dst.data() + at, &c, sizeof(T));
  }
}

}  // namespace

ScheduleExecutor::ScheduleExecutor(std::span<const Schedule> schedules, std::uint64_t seed)
    : schedules_(schedules), random_(seed, 77) {
  const int size = static_cast<int>(schedules.size());
  slow_rank_ = static_cast<int>(random_.below(schedules.size()));
  recv_of_.resize(schedules.size());
  for (const auto& m : messages_of(schedules)) recv_of_[index(m.src)][m.send] = m.recv;
  for (int rank = 0; rank < size; ++rank) {
    const Schedule& schedule = schedules[index(rank)];
    Rank& state = ranks_.emplace_back();
    for (const auto& spec : schedule.buffers()) {
      state.buffers.push_back({std::vector<std::byte>(spec.count * size_of(spec.type), std::byte{0xcb}), false});
      state.headers.emplace_back(size);
    }
    for (OpId id = 0; id < schedule.ops().size(); ++id) {
      state.ops.push_back({.missing = schedule.op(id).need});
      if (schedule.op(id).need == 0) events_.push_back({Event::Kind::fire, rank, -1, id});
    }
  }
}

void ScheduleExecutor::run() {
  while (!events_.empty()) {
    const Event event = draw();
    switch (event.kind) {
      case Event::Kind::fire: fire(event.rank, event.op); break;
      case Event::Kind::leave: leave(event.rank, event.peer); break;
      case Event::Kind::arrive: arrive(event.peer, event.rank); break;
    }
  }
}

ScheduleExecutor::Event ScheduleExecutor::draw() {
  std::swap(events_[random_.below(events_.size())], events_.back());
  if (events_.back().rank == slow_rank_) {
    const auto other =
        std::find_if(events_.begin(), events_.end(), [&](const Event& e) { return e.rank != slow_rank_; });
    if (other != events_.end()) std::swap(*other, events_.back());
  }
  const Event event = events_.back();
  events_.pop_back();
  return event;
}

void ScheduleExecutor::count_down(int rank, OpId op) {
  if (--ranks_[index(rank)].ops[op].missing == 0) events_.push_back({Event::Kind::fire, rank, -1, op});
}

void ScheduleExecutor::finish(int rank, OpId op) {
  ranks_[index(rank)].ops[op].finished = true;
  for (const OpId next : schedules_[index(rank)].successors(op)) count_down(rank, next);
}

std::span<std::byte> ScheduleExecutor::memory(int rank, const Slice& slice) {
  if (slice.buffer == kNoBuffer) return {};
  const std::size_t size = size_of(schedules_[index(rank)].buffers()[slice.buffer].type);
  return std::span(ranks_[index(rank)].buffers[slice.buffer].bytes).subspan(slice.offset * size, slice.count * size);
}

void ScheduleExecutor::fire(int rank, OpId id) {
  const Op& op = schedules_[index(rank)].op(id);
  Rank& state = ranks_[index(rank)];
  STRETTO_CHECK(!state.ops[id].fired, "operation ", id, " of rank ", rank, " fires twice");
  state.ops[id].fired = true;
  switch (op.kind) {
    case OpKind::send: {
      Message message{.send = id, .recv = recv_of_[index(rank)].at(id)};
      message.present = op.src.buffer != kNoBuffer && op.src.count > 0 && state.buffers[op.src.buffer].present;
      if (op.with_header) message.header = state.headers[op.src.buffer];
      posted_[{rank, op.peer}].push_back(std::move(message));
      events_.push_back({Event::Kind::leave, rank, op.peer, id});
      return;
    }
    case OpKind::recv:
      if (state.ops[id].arrived) accept(rank, id);
      return;
    case OpKind::reduce:
    case OpKind::copy: move(rank, op); break;
    case OpKind::call: on_call(rank, id); break;
    case OpKind::delay:
    case OpKind::nop: break;
  }
  finish(rank, id);
}

void ScheduleExecutor::leave(int src, int dst) {
  auto& queue = posted_[{src, dst}];
  Message message = std::move(queue.front());
  queue.pop_front();
  const OpId send = message.send;
  if (message.present) {
    const auto body = memory(src, schedules_[index(src)].op(send).src);
    message.body.assign(body.begin(), body.end());
  }
  ++ranks_[index(src)].messages;
  ranks_[index(src)].bytes += message.body.size();
  left_[{src, dst}].push_back(std::move(message));
  events_.push_back({Event::Kind::arrive, dst, src, kNoOp});
  finish(src, send);
}

void ScheduleExecutor::arrive(int src, int dst) {
  auto& queue = left_[{src, dst}];
  const OpId recv = queue.front().recv;
  OpState& state = ranks_[index(dst)].ops[recv];
  state.message = std::move(queue.front());
  queue.pop_front();
  state.arrived = true;
  if (state.fired) accept(dst, recv);
}

void ScheduleExecutor::accept(int rank, OpId id) {
  const Op& op = schedules_[index(rank)].op(id);
  Rank& state = ranks_[index(rank)];
  const Message& message = state.ops[id].message;
  if (op.with_header) state.headers[op.dst.buffer] = message.header;
  if (op.dst.count > 0) {
    state.buffers[op.dst.buffer].present = message.present;
    if (message.present) std::memcpy(memory(rank, op.dst).data(), message.body.data(), message.body.size());
  }
  finish(rank, id);
}

void ScheduleExecutor::copy(int rank, const Op& op, const Slice& from) {
  const auto dst = memory(rank, op.dst), src = memory(rank, from);
  if (!src.empty()) std::memmove(dst.data(), src.data(), src.size());
}

void ScheduleExecutor::move(int rank, const Op& op) {
  Rank& state = ranks_[index(rank)];
  RoundHeader& header = state.headers[op.dst.buffer];
  bool& present = state.buffers[op.dst.buffer].present;
  const bool src_present = state.buffers[op.src.buffer].present;
  if (op.kind == OpKind::copy) {
    if (op.with_header) header = state.headers[op.src.buffer];
    if (src_present) copy(rank, op, op.src);
    if (op.dst.count > 0) present = src_present;
    return;
  }
  for (const BufferId source : {op.src.buffer, op.other.buffer}) {
    if (op.with_header && source != op.dst.buffer) header.merge(state.headers[source]);
  }
  const bool other_present = state.buffers[op.other.buffer].present;
  present |= src_present || other_present;
  if (!src_present || !other_present) {
    if (src_present || other_present) copy(rank, op, src_present ? op.src : op.other);
    return;
  }
  const auto dst = memory(rank, op.dst), first = memory(rank, op.src), second = memory(rank, op.other);
  switch (schedules_[index(rank)].buffers()[op.dst.buffer].type) {
    case DataType::float32: return combine<float>(op, dst, first, second);
    case DataType::float64: return combine<double>(op, dst, first, second);
    case DataType::int32: return combine<std::int32_t>(op, dst, first, second);
    case DataType::int64: return combine<std::int64_t>(op, dst, first, second);
    case DataType::bfloat16: return combine<BFloat16>(op, dst, first, second);
    case DataType::float16: return combine<Float16>(op, dst, first, second);
  }
}

}  // namespace stretto
