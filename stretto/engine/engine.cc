#include "stretto/engine/engine.h"

#include <algorithm>
#include <limits>

#include "stretto/base/defect.h"
#include "stretto/base/description.h"
#include "stretto/engine/instance.h"

namespace stretto {

using OpState = Instance::OpState;

namespace {

bool into_round(Arriving::To to) {
  return to == Arriving::To::buffer || to == Arriving::To::early;
}

std::uint32_t& bodies_on_their_way(Instance& instance, Arriving::To to) {
  return to == Arriving::To::buffer ? instance.bodies_into_buffers : instance.bodies_into_blocks;
}

}  // namespace

Engine::Engine(Transport& transport, const Clock& clock, InboxLimits limits)
    : transport_(transport), clock_(clock), inbox_(limits, clock.now()), liveness_(transport.size()) {}

Engine::~Engine() = default;

Engine::Pause::Pause(Engine& engine) : engine_(engine) {
  if (engine_.pauses_++ == 0 && engine_.stepper_ != nullptr) engine_.stepper_->pause();
}

Engine::Pause::~Pause() {
  if (--engine_.pauses_ == 0 && engine_.stepper_ != nullptr) engine_.stepper_->resume();
}

CollectiveId Engine::add(EngineClient& client, RoundOwner* owner, std::string description) {
  if (stepper_ != nullptr && pauses_ == 0) {
    throw UsageError(
        "a collective is made while a thread drives the engine: make it before the EngineDriver, or inside "
        "an Engine::Pause");
  }
  constexpr std::size_t kMaxCollectives = std::numeric_limits<CollectiveId>::max() + std::size_t{1};
  if (collectives_.size() == kMaxCollectives) {
    throw UsageError(text("a rank makes at most ", kMaxCollectives, " collectives on one engine"));
  }
  alive_.push_back(static_cast<CollectiveId>(collectives_.size()));
  Collective& collective = collectives_.emplace_back();
  collective.client = &client;
  collective.owner = owner;
  collective.hash = hash_of(description);
  collective.description = std::move(description);
  const CollectiveId id = alive_.back();
  if (size() > 1) send_control(id, (rank() + 1) % size(), kDescriptionChannel, 0, 0, {});
  return id;
}

void Engine::remove(CollectiveId id) {
  const Pause pause(*this);
  Collective removed = std::exchange(collectives_[id], Collective{});
  Stop none = Stop::none;
  if (!removed.open.empty()) stop_.compare_exchange_strong(none, Stop::halted, std::memory_order_seq_cst);
  (void)inbox_.forget(id);
  pool_ = BlockPool();  // may be as large as what it sent; other collectives take theirs anew
  std::erase(alive_, id);
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

const PreparedSchedule& Engine::prepare(CollectiveId id, const Schedule& schedule) {
  auto& known = collectives_[id].prepared[&schedule];
  if (known == nullptr) known = std::make_unique<PreparedSchedule>(schedule);
  return *known;
}

void Engine::open(CollectiveId id, Round round, const Schedule& schedule, std::uint64_t note) {
  STRETTO_CHECK(find(id, round) == nullptr, "collective ", id, " round ", round, " is open already");
  if (free_.empty()) {
    STRETTO_CHECK(instances_.size() < kMaxInstances, instances_.size(), " rounds in flight");
    free_.push_back(static_cast<std::uint32_t>(instances_.size()));
    instances_.push_back(std::make_unique<Instance>());
    instances_.back()->index = free_.back();
  }
  const std::uint32_t index = free_.back();
  free_.pop_back();
  Instance& instance = *instances_[index];
  instance.collective = id;
  instance.reset(prepare(id, schedule), round, note, size());
  collectives_[id].open.push_back(index);
  for (OpId op : instance.prepared->initial()) ready_.push_back({index, instance.generation, op});
  take_kept(instance);
}

void Engine::forget(CollectiveId id, const Schedule& schedule) {
  auto& prepared = collectives_[id].prepared;
  const auto known = prepared.find(&schedule);
  if (known == prepared.end()) return;
  for (const std::uint32_t index : collectives_[id].open) {
    STRETTO_CHECK(instances_[index]->prepared != known->second.get(), "round ", instances_[index]->round,
                  " of collective ", id, " still runs on a schedule that is forgotten");
  }
  prepared.erase(known);
}

bool Engine::is_open(CollectiveId id, Round round) const {
  return find(id, round) != nullptr;
}

bool Engine::lacks(CollectiveId id, Round round, int peer) const {
  const Instance* instance = find(id, round);
  if (instance == nullptr || instance->completed) return false;
  const auto ops = instance->prepared->schedule().ops();
  for (OpId op = 0; op < ops.size(); ++op) {
    if (ops[op].kind != OpKind::recv || ops[op].peer != peer) continue;
    const auto place = static_cast<std::size_t>(instance->prepared->early_of(op));
    if (!instance->early[place].begun) return true;
  }
  return false;
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
  const Envelope envelope{
      .description = collectives_[id].hash, .round = round, .note = note, .collective = id, .channel = channel};
  send(peer, envelope, head, {}, kNoToken);
}

void Engine::send(int peer, const Envelope& envelope, std::span<const std::byte> head, std::span<const std::byte> body,
                  SendToken token) {
  traffic_.add(sizeof envelope + head.size(), body.size());
  transport_.send(peer, envelope, head, body, token);
}

void Engine::freeze() {
  Stop seen = stop_.load(std::memory_order_seq_cst);
  // Without a thread that may be stepping at this moment nothing is waited for.
  const Stop next = stepper_ == nullptr || seen == Stop::halted ? Stop::frozen : Stop::freezing;
  while (seen < Stop::freezing && !stop_.compare_exchange_weak(seen, next, std::memory_order_seq_cst)) {
  }
  if (stepper_ == nullptr) return;
  // Wakes the thread that steps, be it the helper or the application: its next step says that it is none.
  doorbell().ring();
  stop_.wait(Stop::freezing, std::memory_order_seq_cst);
}

/// In place of a step: tells a thread that waits in freeze().
void Engine::do_not_step() {
  Stop freezing = Stop::freezing;
  if (stop_.compare_exchange_strong(freezing, Stop::frozen, std::memory_order_seq_cst)) stop_.notify_all();
}

bool Engine::step() {
  if (stop_.load(std::memory_order_relaxed) != Stop::none && !defect(Defect::carried_steps_after_report)) {
    do_not_step();
    return false;
  }
  bool did = claim();
  did |= transport_.poll(*this);
  did |= tell_departures();
  if (flood_) tell_of_flood();
  const TimePoint now = clock_.now();
  did |= run_timers(now);
  for (const CollectiveId id : alive_) did |= collectives_[id].client->poll(now);
  did |= run_ready();
  retire_completed();
  return did;
}

TimePoint Engine::step_by() const {
  if (stop_.load(std::memory_order_relaxed) != Stop::none) return TimePoint::never();
  TimePoint by = transport_.poll_by();
  if (!timers_.empty()) by = std::min(by, timers_.front().at);
  for (const CollectiveId id : alive_) by = std::min(by, collectives_[id].client->poll_by());
  return by;
}

std::byte* Engine::begin(int peer, const Envelope& received, std::span<const std::byte> head) {
  Envelope envelope = received;
  if (defect(Defect::round_modulo_4)) mistake_round(envelope);
  Arriving& arriving = inbox_.arriving(peer);
  arriving.to = Arriving::To::nowhere;
  inbox_.heard(peer, clock_.now());
  if (envelope.collective >= collectives_.size()) return keep(arriving, peer, envelope, head);
  const Collective& collective = collectives_[envelope.collective];
  if (collective.client == nullptr) return nullptr;  // removed
  if (envelope.description != collective.hash) {
    disagree(peer, envelope, head);
    return nullptr;
  }
  if (envelope.channel >= kControlChannel) {
    if (envelope.channel == kDescriptionChannel) return nullptr;  // of a rank that agrees with us, and not with a third
    collective.client->control(peer, envelope, head);
    return nullptr;
  }
  if (collective.owner == nullptr) {
    broken(collective, envelope, peer, "it belongs to a schedule, and here no schedule runs");
    return nullptr;
  }
  if (!collective.owner->admit(envelope.round, envelope)) return begin_unwanted(peer, envelope, arriving);
  Instance* instance = find(envelope.collective, envelope.round);
  if (instance == nullptr) return keep(arriving, peer, envelope, head);
  return begin_receive(*instance, peer, envelope, head, arriving);
}

std::byte* Engine::keep(Arriving& arriving, int peer, const Envelope& envelope, std::span<const std::byte> head) {
  const std::uint64_t bytes = transport_.carries_payload() ? envelope.body_bytes : 0;
  if (inbox_.reserve(peer, bytes)) {
    arriving.to = Arriving::To::kept;
    arriving.kept = {peer, envelope, {head.begin(), head.end()}, pool_.take(bytes)};
    return arriving.kept.body.data();
  }
  const InboxLimits& limits = inbox_.limits();
  Error error{Errc::bad_input,
              text(name_of(peer), " is too far ahead: more than ", limits.messages, " messages or ", limits.bytes,
                   " bytes of it wait for rounds that this rank has not begun"),
              peer};
  if (envelope.collective < collectives_.size()) {
    collectives_[envelope.collective].client->broken(error);
  } else if (!flood_) {
    flood_ = std::move(error);
  }
  return nullptr;
}

/// Nobody knows which collective the messages are for.
void Engine::tell_of_flood() {
  for (; told_of_flood_ < collectives_.size(); ++told_of_flood_) {
    if (EngineClient* client = collectives_[told_of_flood_].client) client->broken(*flood_);
  }
}

void Engine::broken(const Collective& collective, const Envelope& envelope, int peer, const std::string& what) const {
  collective.client->broken(
      {Errc::bad_input,
       text(name_of(peer), " has sent a message of round ", envelope.round, " on channel ", envelope.channel,
            " that does not fit: ", what,
            ". Every rank must make the same collectives in the same order, of schedules that validate() "
            "(schedule/validate.h) finds to belong together"),
       peer});
}

/// A rank that meets another description sends its own to all, so that every rank comes to hear of one that is not its
/// own.
void Engine::describe(CollectiveId id) {
  Collective& collective = collectives_[id];
  if (std::exchange(collective.described, true)) return;
  const auto text = std::as_bytes(std::span(collective.description));
  for (int peer = 0; peer < size(); ++peer) {
    if (peer == rank()) continue;
    send_control(id, peer, kDescriptionChannel, 0, 0, text.first(std::min(text.size(), kMaxHeadBytes)));
  }
}

void Engine::disagree(int peer, const Envelope& envelope, std::span<const std::byte> head) {
  describe(envelope.collective);
  // What it has instead, the peer says when it has heard of ours.
  if (envelope.channel != kDescriptionChannel || head.empty()) return;
  Collective& collective = collectives_[envelope.collective];
  const std::string_view theirs(reinterpret_cast<const char*>(head.data()), head.size());
  collective.client->broken(
      {Errc::bad_input, disagreement_between(peer, theirs, rank(), collective.description), peer});
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
  if (instance.completed) return begin_unwanted(peer, envelope, arriving);  // the round did not need it
  const Collective& collective = collectives_[instance.collective];
  const PreparedSchedule& prepared = *instance.prepared;
  const auto refuse = [&](const std::string& what) {
    broken(collective, envelope, peer, what);
    return nullptr;
  };
  const OpId id = prepared.receive(peer, envelope.channel);
  if (id == kNoOp) return refuse("no operation here receives it");
  const Op& op = prepared.schedule().op(id);
  const std::uint64_t bytes = prepared.bytes(op.dst);
  const bool is_shorter = envelope.body_bytes < bytes && collective.codec != nullptr;
  if (envelope.body_bytes != 0 && envelope.body_bytes != bytes && !is_shorter) {
    return refuse(text("it has ", envelope.body_bytes, " bytes, and ", bytes, " are received here"));
  }
  Instance::Early& early = instance.early[static_cast<std::size_t>(prepared.early_of(id))];
  if (early.begun) return refuse("it is the second one");
  if (op.with_header && !header_for(instance, id).read(head, size())) return refuse("its header is none");
  early.begun = true;
  arriving.op = {instance.index, instance.generation, id};
  arriving.present = envelope.body_bytes > 0;
  const bool is_seen = collective.codec != nullptr && collective.codec->sees_all() && transport_.carries_payload();
  if (arriving.present && (is_shorter || is_seen)) return begin_encoded(peer, envelope, arriving.op, arriving);
  const bool fired = instance.state[id] == OpState::fired && arriving.present && op.dst.buffer != kNoBuffer;
  if (fired && !prepared.is_all_of_scratch(op.dst)) {
    provide(instance, op.dst.buffer);
    arriving.to = Arriving::To::buffer;
    ++instance.bodies_into_buffers;
    return instance.address(op.dst);
  }
  arriving.to = Arriving::To::early;
  ++instance.bodies_into_blocks;
  if (arriving.present && transport_.carries_payload()) early.block = pool_.take(bytes);
  return early.block.data();
}

void Engine::end(int peer) {
  Arriving& arriving = inbox_.arriving(peer);
  const Arriving::To to = std::exchange(arriving.to, Arriving::To::nowhere);
  if (to == Arriving::To::kept) return kept(std::move(arriving.kept));
  if (to == Arriving::To::encoded) return end_encoded(arriving);
  if (to == Arriving::To::left) pool_.give_back(std::move(arriving.kept.body));
  Instance* instance = into_round(to) ? alive(arriving.op) : nullptr;
  if (instance == nullptr) return;
  --bodies_on_their_way(*instance, to);
  if (instance->completed) return;
  const OpId id = arriving.op.op;
  Instance::Early& early = instance->early[static_cast<std::size_t>(instance->prepared->early_of(id))];
  early.here = true;
  early.present = arriving.present;
  if (instance->state[id] == OpState::fired) accept(*instance, id, to == Arriving::To::buffer);
}

void Engine::kept(Kept message) {
  const CollectiveId id = message.envelope.collective;
  if (id >= collectives_.size()) return inbox_.keep_unclaimed(std::move(message));
  if (collectives_[id].client == nullptr) {
    inbox_.release(message);
    return pool_.give_back(std::move(message.body));
  }
  const Envelope& envelope = message.envelope;
  const Collective& collective = collectives_[id];
  const bool may_be_late = collective.codec != nullptr && find(id, envelope.round) == nullptr;
  if (may_be_late && !collective.owner->admit(envelope.round, envelope)) {
    // Its round has come and gone while the body was coming; a codec may have to see that.
    inbox_.release(message);
    return redeliver(std::move(message));
  }
  const Instance* instance = find(id, envelope.round);
  inbox_.keep(std::move(message));
  if (instance != nullptr) take_kept(*instance);
}

void Engine::take_kept(const Instance& instance) {
  for (Kept& message : inbox_.take(instance.collective, instance.round)) redeliver(std::move(message));
}

void Engine::redeliver(Kept message) {
  Arriving& arriving = inbox_.arriving(message.peer);
  Arriving interrupted = std::exchange(arriving, Arriving{});
  std::byte* to = begin(message.peer, message.envelope, message.head);
  if (to != nullptr && message.body) std::copy_n(message.body.data(), message.envelope.body_bytes, to);
  pool_.give_back(std::move(message.body));
  end(message.peer);
  arriving = std::move(interrupted);
}

bool Engine::claim() {
  std::vector<Kept> claimed = inbox_.claim(collectives_.size());
  for (Kept& message : claimed) redeliver(std::move(message));
  return !claimed.empty();
}

void Engine::sent(SendToken token) {
  const SentOp op = op_of(token);
  Instance& instance = *instances_[op.instance];
  STRETTO_CHECK(instance.prepared != nullptr && token == token_of(instance, op.op),
                "a send completes after its round has ended");
  --instance.sends_out;
  if (!instance.encoded.empty()) give_back_encoded(instance, op.op);
  finished(instance, op.op);
}

void Engine::lost(int peer, const Error& reason) {
  depart({peer, false, reason});
}

std::string Engine::name_of(int rank) const {
  return names_.empty() ? text("rank ", rank) : names_[static_cast<std::size_t>(rank)];
}

void Engine::left(int peer) {
  depart({peer, true, {Errc::lost_peer, text(name_of(peer), " has left"), peer}});
}

void Engine::depart(Departure departure) {
  // What the peer was in the middle of never ends.
  Arriving arriving = std::exchange(inbox_.arriving(departure.peer), Arriving{});
  if (arriving.to == Arriving::To::kept) inbox_.release(arriving.kept);
  pool_.give_back(std::move(arriving.kept.body));
  Instance* instance = into_round(arriving.to) ? alive(arriving.op) : nullptr;
  if (instance != nullptr) --bodies_on_their_way(*instance, arriving.to);
  liveness_.set(departure.peer, departure.in_order ? Liveness::Fate::left : Liveness::Fate::lost);
  departures_.push_back(std::move(departure));
  tell_departures();
}

/// Tells each collective of the peers that are gone; one that was made since hears of all of them.
bool Engine::tell_departures() {
  bool any = false;
  for (std::size_t i = 0; i < alive_.size(); ++i) {
    Collective& collective = collectives_[alive_[i]];
    for (; collective.told < departures_.size(); any = true) {
      const Departure departure = departures_[collective.told++];
      EngineClient& client = *collective.client;
      departure.in_order ? client.left(departure.peer, departure.reason)
                         : client.lost(departure.peer, departure.reason);
    }
  }
  return any;
}

Instance* Engine::alive(const RunningOp& op) const {
  Instance* instance = instances_[op.instance].get();
  return instance->generation == op.generation && instance->prepared != nullptr ? instance : nullptr;
}

void Engine::retire_completed() {
  for (std::size_t i = 0; i < completed_.size();) {
    Instance& instance = *instances_[completed_[i]];
    const bool written_to = instance.bodies_into_buffers > 0 && !defect(Defect::retire_in_mid_body);
    if (instance.sends_out > 0 || written_to) {
      ++i;
      continue;
    }
    completed_.erase(completed_.begin() + static_cast<std::ptrdiff_t>(i));
    Collective& collective = collectives_[instance.collective];
    collective.open.erase(std::find(collective.open.begin(), collective.open.end(), instance.index));
    const Round round = instance.round;
    if (instance.bodies_into_blocks > 0 && !defect(Defect::retire_in_mid_body)) leave_bodies_behind(instance);
    instance.release(pool_, free_headers_);
    free_.push_back(instance.index);
    collective.owner->retired(round);
  }
}

/// The blocks that transports still write to go to no other round before the bodies have ended.
void Engine::leave_bodies_behind(Instance& instance) {
  inbox_.each_arriving([&](Arriving& arriving) {
    if (arriving.to != Arriving::To::early || alive(arriving.op) != &instance) return;
    const int place = instance.prepared->early_of(arriving.op.op);
    arriving.to = Arriving::To::left;
    arriving.kept.body = std::exchange(instance.early[static_cast<std::size_t>(place)].block, Block{});
  });
}

}  // namespace stretto
