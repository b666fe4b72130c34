#include "stretto/engine/engine.h"

#include <algorithm>

#include "stretto/base/defect.h"
#include "stretto/engine/instance.h"
#include "stretto/engine/prepared.h"

namespace stretto {

using OpState = Instance::OpState;

Engine::Engine(Transport& transport, const Clock& clock) : transport_(transport), clock_(clock) {
  arriving_.resize(static_cast<std::size_t>(transport.size()));
  last_heard_.resize(static_cast<std::size_t>(transport.size()), clock.now());
}

Engine::~Engine() = default;

CollectiveId Engine::add(RoundOwner& owner) {
  if (driven_)
    throw UsageError("a collective is made while a thread drives the engine: make all before the EngineDriver");
  collectives_.push_back({&owner, {}, {}});
  return static_cast<CollectiveId>(collectives_.size() - 1);
}

Instance* Engine::find(CollectiveId id, Round round) const {
  for (std::uint32_t index : collectives_[id].open) {
    if (instances_[index]->round == round) return instances_[index].get();
  }
  return nullptr;
}

Instance& Engine::get(CollectiveId id, Round round) const {
  Instance* instance = find(id, round);
  STRETTO_CHECK(instance != nullptr, "collective ", id, " has no open round ", round);
  return *instance;
}

const PreparedSchedule& Engine::prepare(const Schedule& schedule) {
  for (const auto& known : prepared_) {
    if (&known->schedule() == &schedule) return *known;
  }
  prepared_.push_back(std::make_unique<PreparedSchedule>(schedule));
  return *prepared_.back();
}

void Engine::open(CollectiveId id, Round round, const Schedule& schedule, std::uint64_t note) {
  STRETTO_CHECK(find(id, round) == nullptr, "collective ", id, " round ", round, " is open already");
  if (free_.empty()) {
    free_.push_back(static_cast<std::uint32_t>(instances_.size()));
    instances_.push_back(std::make_unique<Instance>());
    instances_.back()->index = free_.back();
  }
  const std::uint32_t index = free_.back();
  free_.pop_back();
  Instance& instance = *instances_[index];
  instance.collective = id;
  instance.reset(prepare(schedule), round, note, size());
  collectives_[id].open.push_back(index);
  for (OpId op : instance.prepared->initial()) ready_.push_back({index, instance.generation, op});
  take_kept(instance);
}

bool Engine::is_open(CollectiveId id, Round round) const {
  return find(id, round) != nullptr;
}

void Engine::bind(CollectiveId id, Round round, BufferId buffer, RoundBuffer memory) {
  Instance& instance = get(id, round);
  STRETTO_CHECK(instance.prepared->schedule().buffers()[buffer].role == BufferSpec::Role::given, "buffer ", buffer);
  instance.buffers[buffer] = memory;
}

RoundBuffer Engine::buffer(CollectiveId id, Round round, BufferId buffer) const {
  return get(id, round).buffers[buffer];
}

RoundHeader& Engine::header(CollectiveId id, Round round, BufferId buffer) {
  Instance& instance = get(id, round);
  const int index = instance.prepared->header_of(buffer);
  STRETTO_CHECK(index >= 0, "buffer ", buffer, " carries no header");
  return instance.headers[static_cast<std::size_t>(index)];
}

void Engine::trigger(CollectiveId id, Round round, OpId op) {
  Instance& instance = get(id, round);
  if (instance.triggered[op]) return;
  instance.triggered[op] = true;
  if (--instance.missing[op] == 0) ready_.push_back({instance.index, instance.generation, op});
}

void Engine::finish(CollectiveId id, Round round, OpId op) {
  Instance& instance = get(id, round);
  STRETTO_CHECK(instance.state[op] == OpState::fired, "round ", round, " operation ", op, " is not waiting");
  finished(instance, op);
}

void Engine::send_control(CollectiveId id, int peer, std::uint16_t channel, Round round, std::uint64_t note,
                          std::span<const std::byte> head) {
  STRETTO_CHECK(channel >= kControlChannel, "channel ", channel);
  const Envelope envelope{.round = round, .note = note, .collective = id, .channel = channel};
  transport_.send(peer, envelope, head, {}, kNoToken);
}

bool Engine::step() {
  bool did = !unclaimed_.empty() && claim();
  did |= transport_.poll(*this);
  const TimePoint now = clock_.now();
  did |= run_timers(now);
  for (auto& collective : collectives_) did |= collective.owner->poll(now);
  did |= run_ready();
  retire_completed();
  return did;
}

TimePoint Engine::step_by() const {
  TimePoint by = transport_.poll_by();
  if (!timers_.empty()) by = std::min(by, timers_.front().at);
  for (const auto& collective : collectives_) by = std::min(by, collective.owner->poll_by());
  return by;
}

std::byte* Engine::begin(int peer, const Envelope& received, std::span<const std::byte> head) {
  Envelope envelope = received;
  if (defect(Defect::round_modulo_4)) mistake_round(envelope);
  Arriving& arriving = arriving_[static_cast<std::size_t>(peer)];
  arriving.to = Arriving::To::nowhere;
  last_heard_[static_cast<std::size_t>(peer)] = clock_.now();
  const CollectiveId id = envelope.collective;
  const bool known = id < collectives_.size();
  if (known && envelope.channel >= kControlChannel) {
    collectives_[id].owner->control(peer, envelope, head);
    return nullptr;
  }
  if (known && !collectives_[id].owner->admit(envelope.round, envelope)) return nullptr;
  if (Instance* instance = known ? find(id, envelope.round) : nullptr) {
    return begin_receive(*instance, peer, envelope, head, arriving);
  }
  arriving.to = Arriving::To::kept;
  const std::uint64_t bytes = transport_.carries_payload() ? envelope.body_bytes : 0;
  arriving.kept = {peer, envelope, {head.begin(), head.end()}, pool_.take(bytes)};
  return arriving.kept.body.data();
}

/// Planted: takes a message for one of the oldest open round with the same number modulo 4.
void Engine::mistake_round(Envelope& envelope) const {
  if (envelope.collective >= collectives_.size() || envelope.channel >= kControlChannel) return;
  for (std::uint32_t index : collectives_[envelope.collective].open) {
    const Round open = instances_[index]->round;
    if (open < envelope.round && open % 4 == envelope.round % 4) envelope.round = open;
  }
}

std::byte* Engine::begin_receive(Instance& instance, int peer, const Envelope& envelope,
                                 std::span<const std::byte> head, Arriving& arriving) {
  const PreparedSchedule& prepared = *instance.prepared;
  const OpId id = prepared.receive(peer, envelope.channel);
  STRETTO_CHECK(id != kNoOp, "round ", envelope.round, " expects nothing from rank ", peer, " on channel ",
                envelope.channel);
  if (instance.completed && instance.state[id] == OpState::finished) return nullptr;
  const Op& op = prepared.schedule().op(id);
  const std::uint64_t bytes = prepared.bytes(op.dst);
  STRETTO_CHECK(envelope.body_bytes == 0 || envelope.body_bytes == bytes, "round ", envelope.round, " expects ", bytes,
                " bytes from rank ", peer, " on channel ", envelope.channel, ", ", envelope.body_bytes, " came");
  Instance::Early& early = instance.early[static_cast<std::size_t>(prepared.early_of(id))];
  arriving.op = {instance.index, instance.generation, id};
  arriving.present = envelope.body_bytes > 0;
  if (op.with_header) {
    STRETTO_CHECK(early.header.read(head, size()), "round ", envelope.round, " from rank ", peer, ": bad header");
  }
  if (instance.state[id] == OpState::fired && arriving.present && op.dst.buffer != kNoBuffer) {
    provide(instance, op.dst.buffer);
    arriving.to = Arriving::To::buffer;
    return instance.address(op.dst);
  }
  arriving.to = Arriving::To::early;
  if (arriving.present && transport_.carries_payload()) early.block = pool_.take(bytes);
  return early.block.data();
}

void Engine::end(int peer) {
  Arriving& arriving = arriving_[static_cast<std::size_t>(peer)];
  const Arriving::To to = std::exchange(arriving.to, Arriving::To::nowhere);
  if (to == Arriving::To::nowhere) return;
  if (to == Arriving::To::kept) {
    const CollectiveId id = arriving.kept.envelope.collective;
    if (id >= collectives_.size()) {
      unclaimed_.push_back(std::move(arriving.kept));
      return;
    }
    collectives_[id].kept.push_back(std::move(arriving.kept));
    if (Instance* instance = find(id, collectives_[id].kept.back().envelope.round)) take_kept(*instance);
    return;
  }
  Instance* instance = alive(arriving.op);
  if (instance == nullptr) return;
  const OpId id = arriving.op.op;
  Instance::Early& early = instance->early[static_cast<std::size_t>(instance->prepared->early_of(id))];
  early.here = true;
  early.present = arriving.present;
  if (instance->state[id] == OpState::fired) accept(*instance, id, to == Arriving::To::buffer);
}

void Engine::take_kept(Instance& instance) {
  auto& kept = collectives_[instance.collective].kept;
  for (std::size_t i = 0; i < kept.size();) {
    if (kept[i].envelope.round != instance.round) {
      ++i;
      continue;
    }
    Kept message = std::move(kept[i]);
    kept.erase(kept.begin() + static_cast<std::ptrdiff_t>(i));
    redeliver(std::move(message));
  }
}

void Engine::redeliver(Kept message) {
  Arriving& arriving = arriving_[static_cast<std::size_t>(message.peer)];
  Arriving interrupted = std::exchange(arriving, Arriving{});
  std::byte* to = begin(message.peer, message.envelope, message.head);
  if (to != nullptr && message.body) std::copy_n(message.body.data(), message.envelope.body_bytes, to);
  pool_.give_back(std::move(message.body));
  end(message.peer);
  arriving = std::move(interrupted);
}

bool Engine::claim() {
  bool any = false;
  for (std::size_t i = 0; i < unclaimed_.size();) {
    if (unclaimed_[i].envelope.collective >= collectives_.size()) {
      ++i;
      continue;
    }
    Kept message = std::move(unclaimed_[i]);
    unclaimed_.erase(unclaimed_.begin() + static_cast<std::ptrdiff_t>(i));
    redeliver(std::move(message));
    any = true;
  }
  return any;
}

void Engine::sent(SendToken token) {
  const Ready op{static_cast<std::uint32_t>(token >> 40), static_cast<std::uint32_t>(token >> 16) & 0xffffffu,
                 static_cast<OpId>(token & 0xffffu)};
  Instance* instance = alive(op);
  STRETTO_CHECK(instance != nullptr, "a send completes after its round has ended");
  --instance->sends_out;
  finished(*instance, op.op);
}

void Engine::lost(int peer, const Error& reason) {
  arriving_[static_cast<std::size_t>(peer)].to = Arriving::To::nowhere;
  for (auto& collective : collectives_) collective.owner->lost(peer, reason);
}

Instance* Engine::alive(const Ready& op) const {
  Instance* instance = instances_[op.instance].get();
  return (instance->generation & 0xffffffu) == (op.generation & 0xffffffu) && instance->prepared != nullptr ? instance
                                                                                                            : nullptr;
}

void Engine::retire_completed() {
  for (std::size_t i = 0; i < completed_.size();) {
    Instance& instance = *instances_[completed_[i]];
    if (instance.sends_out > 0) {
      ++i;
      continue;
    }
    completed_.erase(completed_.begin() + static_cast<std::ptrdiff_t>(i));
    Collective& collective = collectives_[instance.collective];
    collective.open.erase(std::find(collective.open.begin(), collective.open.end(), instance.index));
    const Round round = instance.round;
    instance.release(pool_);
    free_.push_back(instance.index);
    collective.owner->retired(round);
  }
}

}  // namespace stretto
