// How the engine executes operations; engine.cc has rounds and messages.

#include <algorithm>
#include <cstring>

#include "stretto/engine/engine.h"
#include "stretto/engine/instance.h"
#include "stretto/kernel/combine.h"

namespace stretto {

using OpState = Instance::OpState;

namespace {

/// A payload without bytes has no address.
void copy_payload(std::byte* to, const std::byte* from, std::uint64_t bytes) {
  if (to != nullptr && from != nullptr && to != from && bytes > 0) std::memcpy(to, from, bytes);
}

constexpr auto kLater = [](const auto& a, const auto& b) { return a.at > b.at; };

}  // namespace

bool Engine::run_ready() {
  const bool any = ready_begin_ < ready_.size();
  while (ready_begin_ < ready_.size()) {
    const RunningOp next = ready_[ready_begin_++];
    if (Instance* instance = alive(next)) fire(*instance, next.op);
  }
  ready_.clear();
  ready_begin_ = 0;
  return any;
}

bool Engine::run_timers(TimePoint now) {
  bool any = false;
  while (!timers_.empty() && timers_.front().at <= now) {
    const RunningOp op = timers_.front().op;
    std::pop_heap(timers_.begin(), timers_.end(), kLater);
    timers_.pop_back();
    if (Instance* instance = alive(op)) finished(*instance, op.op);
    any = true;
  }
  return any;
}

void Engine::finished(Instance& instance, OpId op) {
  instance.state[op] = OpState::finished;
  const Schedule& schedule = instance.prepared->schedule();
  for (OpId next : schedule.successors(op)) {
    // Consumable: exactly the predecessor that makes the count zero fires it; later ones count below zero.
    if (--instance.missing[next] == 0) ready_.push_back({instance.index, instance.generation, next});
  }
  if (op == schedule.completion()) {
    instance.completed = true;
    completed_.push_back(instance.index);
    collectives_[instance.collective].owner->completed(instance.round);
  }
}

void Engine::fire(Instance& instance, OpId id) {
  const Op& op = instance.prepared->schedule().op(id);
  instance.state[id] = OpState::fired;
  switch (op.kind) {
    case OpKind::send: return fire_send(instance, id);
    case OpKind::recv: {
      const auto& early = instance.early[static_cast<std::size_t>(instance.prepared->early_of(id))];
      if (early.here) accept(instance, id, false);
      return;
    }
    case OpKind::reduce: fire_reduce(instance, op); break;
    case OpKind::copy: fire_copy(instance, op); break;
    case OpKind::delay:
      timers_.push_back({clock_.now() + op.delay, {instance.index, instance.generation, id}});
      std::push_heap(timers_.begin(), timers_.end(), kLater);
      return;
    case OpKind::call: {
      const std::uint32_t generation = instance.generation;
      const bool done = collectives_[instance.collective].owner->call(instance.round, id, op.hook);
      if (!done || instance.generation != generation) return;
      break;
    }
    case OpKind::nop: break;
  }
  finished(instance, id);
}

void Engine::fire_send(Instance& instance, OpId id) {
  const PreparedSchedule& prepared = *instance.prepared;
  const Op& op = prepared.schedule().op(id);
  head_.clear();
  if (op.with_header) {
    const RoundHeader& header = instance.headers[static_cast<std::size_t>(prepared.header_of(op.src.buffer))];
    head_.resize(header.wire_bytes());
    header.write(head_.data());
  }
  std::span<const std::byte> body;
  if (op.src.buffer != kNoBuffer && instance.buffers[op.src.buffer].present) {
    body = {instance.address(op.src), prepared.bytes(op.src)};
    if (BodyCodec* const codec = collectives_[instance.collective].codec; codec != nullptr && !body.empty()) {
      body = encoded(instance, id, *codec, body);
    }
  }
  const Envelope envelope{.description = collectives_[instance.collective].hash,
                          .round = instance.round,
                          .note = instance.note,
                          .collective = instance.collective,
                          .channel = op.channel};
  ++instance.sends_out;
  send(op.peer, envelope, head_, body, token_of(instance, id));
}

/// Where the header of a message of receive `id` belongs: with its buffer, or, while earlier operations may still use
/// that, by itself.
RoundHeader& Engine::header_for(Instance& instance, OpId id) {
  const PreparedSchedule& prepared = *instance.prepared;
  if (instance.state[id] == OpState::fired) {
    return instance.headers[static_cast<std::size_t>(prepared.header_of(prepared.schedule().op(id).dst.buffer))];
  }
  std::unique_ptr<RoundHeader>& header = instance.early[static_cast<std::size_t>(prepared.early_of(id))].header;
  if (header == nullptr && free_headers_.empty()) free_headers_.push_back(std::make_unique<RoundHeader>());
  if (header == nullptr) {
    header = std::move(free_headers_.back());
    free_headers_.pop_back();
  }
  return *header;
}

/// The message of receive `id` is here and the receive has fired: puts it where it belongs.
void Engine::accept(Instance& instance, OpId id, bool in_place) {
  const PreparedSchedule& prepared = *instance.prepared;
  const Op& op = prepared.schedule().op(id);
  Instance::Early& early = instance.early[static_cast<std::size_t>(prepared.early_of(id))];
  if (early.header != nullptr) {
    std::swap(instance.headers[static_cast<std::size_t>(prepared.header_of(op.dst.buffer))], *early.header);
    free_headers_.push_back(std::move(early.header));
  }
  if (op.dst.buffer != kNoBuffer) {
    RoundBuffer& buffer = instance.buffers[op.dst.buffer];
    if (early.present && !in_place && early.block) {
      if (prepared.is_all_of_scratch(op.dst)) {
        std::swap(instance.scratch[op.dst.buffer], early.block);
        buffer.data = instance.scratch[op.dst.buffer].data();
      } else {
        provide(instance, op.dst.buffer);
        std::memcpy(instance.address(op.dst), early.block.data(), prepared.bytes(op.dst));
      }
    }
    if (op.dst.count > 0) buffer.present = early.present;
  }
  pool_.give_back(std::exchange(early.block, Block{}));
  finished(instance, id);
}

/// Makes sure that a scratch buffer has memory.
void Engine::provide(Instance& instance, BufferId id) {
  const BufferSpec& spec = instance.prepared->schedule().buffers()[id];
  RoundBuffer& buffer = instance.buffers[id];
  if (buffer.data != nullptr || !transport_.carries_payload()) return;
  STRETTO_CHECK(spec.role == BufferSpec::Role::scratch, "round ", instance.round, ": buffer ", spec.name,
                " is used before it is bound");
  instance.scratch[id] = pool_.take(spec.count * size_of(spec.type));
  buffer.data = instance.scratch[id].data();
}

void Engine::fire_reduce(Instance& instance, const Op& op) {
  const PreparedSchedule& prepared = *instance.prepared;
  if (op.with_header) {
    const auto header = [&](BufferId buffer) -> RoundHeader& {
      return instance.headers[static_cast<std::size_t>(prepared.header_of(buffer))];
    };
    for (const BufferId source : {op.src.buffer, op.other.buffer}) {
      if (source != op.dst.buffer) header(op.dst.buffer).merge(header(source));
    }
  }
  const bool first = instance.buffers[op.src.buffer].present, second = instance.buffers[op.other.buffer].present;
  if (!first && !second) return;
  provide(instance, op.dst.buffer);
  instance.buffers[op.dst.buffer].present = true;
  std::byte* const to = instance.address(op.dst);
  if (first && second) {
    reduce(prepared.schedule().buffers()[op.dst.buffer].type, op.reduce_op, to, instance.address(op.src),
           instance.address(op.other), op.dst.count);
    return;
  }
  copy_payload(to, instance.address(first ? op.src : op.other), prepared.bytes(op.dst));
}

void Engine::fire_copy(Instance& instance, const Op& op) {
  const PreparedSchedule& prepared = *instance.prepared;
  if (op.with_header) {
    instance.headers[static_cast<std::size_t>(prepared.header_of(op.dst.buffer))] =
        instance.headers[static_cast<std::size_t>(prepared.header_of(op.src.buffer))];
  }
  RoundBuffer& dst = instance.buffers[op.dst.buffer];
  const RoundBuffer& src = instance.buffers[op.src.buffer];
  if (op.dst.count > 0) dst.present = src.present;
  if (!src.present) return;
  provide(instance, op.dst.buffer);
  copy_payload(instance.address(op.dst), instance.address(op.src), prepared.bytes(op.dst));
}

}  // namespace stretto
