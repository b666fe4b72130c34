#include "stretto/papers/servers/server_node.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "stretto/base/defect.h"
#include "stretto/base/error.h"
#include "stretto/base/words.h"
#include "stretto/schedule/builder.h"

namespace stretto {
namespace {

using Kind = MessageId::Kind;

constexpr const char* kWhat = "parameter server";

constexpr OpId kArrived = 1;  // of the schedule that receives a gradient: holds it until the shard has taken it

std::string describe(const std::vector<BucketSpec>& buckets, const ServerOptions& options) {
  std::uint64_t elements = 0;
  for (const BucketSpec& bucket : buckets) elements += bucket.count;
  std::string text =
      stretto::text("parameter server of ", buckets.size(), buckets.size() == 1 ? " bucket of " : " buckets of ",
                    elements, ' ', name_of(buckets.front().type), ", ", options.to_string());
  for (std::size_t i = 0; i < buckets.size(); ++i) {
    text += stretto::text("\nbucket ", i, ": ", buckets[i].count, ' ', name_of(buckets[i].type));
  }
  return text;
}

Inquiry::Answer to_bytes(const std::string& words) {
  const auto bytes = std::as_bytes(std::span(words)).first(std::min(words.size(), kMaxHeadBytes));
  return {bytes.begin(), bytes.end()};
}

}  // namespace

ServerNode::ServerNode(Engine& engine, std::vector<BucketSpec> buckets, const ServerOptions& options,
                       ServerUpdate update)
    : CollectiveBase(engine),
      buckets_(std::move(buckets)),
      options_(options),
      update_(std::move(update)),
      description_(describe(buckets_, options)),
      inquiry_(engine, kWhoWaits, [this](std::uint64_t) { return to_bytes(shards_wait_for()); }),
      askings_(buckets_.size()),
      pushed_(buckets_.size()),
      wishes_(buckets_.size()) {
  for (int bucket = 0; bucket < num_buckets(); ++bucket) {
    if (!mine(bucket)) continue;
    const auto b = static_cast<std::size_t>(bucket);
    pushed_[b].resize(static_cast<std::size_t>(engine.size()));
    ServedBucketHost& host = *this;
    served_.push_back(std::make_unique<ServedBucket>(bucket, buckets_[b], engine.size(),
                                                     Shard(options, engine.size(), bucket == 0), host, update_));
  }
  enroll(description_);
  inquiry_.enroll(id_);
}

ServedBucket* ServerNode::served_here(int bucket) const {
  const auto found = std::ranges::find(served_, bucket, [](const auto& served) { return served->bucket(); });
  return found == served_.end() ? nullptr : found->get();
}

bool ServerNode::poll(TimePoint) {
  if (!failure_.poll()) return false;
  inquiry_.poll();
  const std::uint64_t begun = phases_begun_.load(std::memory_order_acquire);
  if (begun == 0) return false;
  if (begun != looked_at_) {
    looked_at_ = begun;
    if (lost_) return failure_.lose(*lost_, kWhat), true;
    requests_.insert(requests_.begin(), std::move_iterator(early_.begin()), std::move_iterator(early_.end()));
    early_.clear();
  }
  bool did = false;
  for (bool more = true; more && !failure_.failed(); did |= more) {
    more = serve();
    for (int bucket = 0; bucket < num_buckets(); ++bucket) more |= work(bucket);
  }
  if (!engine_.liveness().all_here()) look_who_has_left();
  const auto is_over = [this](const auto& served) { return served->shard().phases() > phase_; };
  // All gradients of the phase have been dealt with then: the others are of the next one, and wait for it.
  const bool none_on_the_way = open_rounds_ == untaken_;
  if (finals_ == num_buckets() && none_on_the_way && std::ranges::all_of(served_, is_over)) end_phase();
  return did;
}

void ServerNode::end_phase() {
  ++phase_;
  finals_ = 0;
  for (Asking& asking : askings_) asking.done = false;
  phases_over_.store(phase_, std::memory_order_release);
}

// ---- what this rank asks of the servers ----

bool ServerNode::work(int bucket) {
  Asking& asking = askings_[static_cast<std::size_t>(bucket)];
  const std::uint64_t wanted = wish(bucket).wanted.load(std::memory_order_acquire);
  if (asking.pushed < wanted) return send_push(bucket), true;
  if (asking.asked < wanted) return send_get(bucket);
  const bool end = phases_ended_.load(std::memory_order_acquire) > phase_ && !asking.done;
  if (!end || defect(Defect::no_done)) return false;
  send_done(bucket);
  return true;
}

void ServerNode::send_push(int bucket) {
  Asking& asking = askings_[static_cast<std::size_t>(bucket)];
  const MessageId id{Kind::push, bucket, engine_.rank(), asking.pushed++};
  std::byte* gradient = wish(bucket).gradient;
  const bool passed = wish(bucket).passed;
  if (!mine(bucket) && passed) {
    if (!defect(Defect::pass_in_silence)) {
      engine_.send_control(id_, server_of(bucket), kPass, round_of(id), asking.base, {});
    }
    wish(bucket).left.fetch_add(1, std::memory_order_release);
    return;
  }
  if (!mine(bucket)) {
    return open(round_of(id), schedule(true, true, server_of(bucket), bucket), asking.base, gradient, true);
  }
  requests_.push_back({.kind = Request::Kind::push,
                       .bucket = bucket,
                       .rank = id.worker,
                       .clock = id.clock,
                       .version = asking.base,
                       .gradient = gradient,
                       .passed = passed});
}

/// sync, k_sync: the version after the one that the gradient was computed on. k_sync: the answer of bucket 0 names the
/// version of the step; the other buckets are asked for that one.
bool ServerNode::send_get(int bucket) {
  Asking& asking = askings_[static_cast<std::size_t>(bucket)];
  Version version = asking.base + 1;
  if (options_.mode == ServerMode::k_sync && bucket != 0) {
    if (wish(0).answered.load(std::memory_order_relaxed) < asking.pushed) return false;
    version = asking.base = askings_[0].base;
  }
  const MessageId id{Kind::value, bucket, engine_.rank(), asking.pushed};
  asking.asked = asking.pushed;
  if (mine(bucket)) {
    requests_.push_back(
        {.kind = Request::Kind::get, .bucket = bucket, .rank = id.worker, .clock = id.clock, .version = version});
  } else {
    open(round_of(id), schedule(false, false, server_of(bucket), bucket), 0, wish(bucket).value, false);
    engine_.send_control(id_, server_of(bucket), kGet, round_of(id), version, {});
  }
  return true;
}

void ServerNode::send_done(int bucket) {
  Asking& asking = askings_[static_cast<std::size_t>(bucket)];
  asking.done = true;
  const MessageId id{Kind::final, bucket, engine_.rank(), phase_};
  if (mine(bucket)) {
    requests_.push_back({.kind = Request::Kind::done, .bucket = bucket, .rank = id.worker, .clock = asking.pushed});
  } else {
    open(round_of(id), schedule(false, false, server_of(bucket), bucket), 0, wish(bucket).value, false);
    engine_.send_control(id_, server_of(bucket), kDone, round_of(id), asking.pushed, {});
  }
}

void ServerNode::value_here(int bucket, Version version, bool last) {
  Asking& asking = askings_[static_cast<std::size_t>(bucket)];
  const bool named = options_.mode == ServerMode::k_sync && bucket != 0;  // by the answer of bucket 0
  if (!named || last) asking.base = version;
  if (last) {
    ++finals_;
  } else {
    wish(bucket).answered.store(asking.pushed, std::memory_order_release);
  }
}

// ---- what the servers do ----

/// Of a phase that the own application has not begun. Those of one phase come in any order but COMMIT, which a server
/// sends once a rank has the last values of the phase before from all shards.
bool ServerNode::is_early(const Request& request) const {
  const bool commit = request.kind == Request::Kind::commit;
  const Shard& shard = (commit ? served_.back().get() : served_here(request.bucket))->shard();
  return shard.phases() >= looked_at_ && !defect(Defect::push_before_round_over);
}

bool ServerNode::serve() {
  bool any = false;
  while (!requests_.empty() && !failure_.failed()) {
    Request request = std::move(requests_.front());
    requests_.pop_front();
    if (is_early(request)) {
      early_.push_back(std::move(request));
      continue;
    }
    any = true;
    if (request.kind == Request::Kind::commit) {
      for (const auto& served : served_) {
        served->shard().committed(request.clock, request.ranks, request.last);
        served->act();
      }
      continue;
    }
    ServedBucket& served = *served_here(request.bucket);
    switch (request.kind) {
      case Request::Kind::get: served.shard().asked(request.rank, request.clock, request.version); break;
      case Request::Kind::done: served.shard().ended(request.rank, request.clock); break;
      case Request::Kind::push: {
        Pushed& pushed = pushed_[static_cast<std::size_t>(request.bucket)][static_cast<std::size_t>(request.rank)];
        pushed = {round_of({Kind::push, request.bucket, request.rank, request.clock}), request.clock, request.version,
                  request.passed};
        served.gradient(request.rank, request.gradient, !request.passed);
        served.shard().pushed(request.rank, request.clock, request.version);
        break;
      }
      case Request::Kind::commit: break;
    }
    served.act();
  }
  return any;
}

void ServerNode::answer(int bucket, const ShardAction& action, std::span<const std::byte> value, int pin) {
  const Version version = served_here(bucket)->shard().version();
  if (action.rank == engine_.rank()) {
    if (std::byte* to = wish(bucket).value; to != nullptr) std::memcpy(to, value.data(), value.size());
    served_here(bucket)->unpin(pin);
    return value_here(bucket, version, action.last);
  }
  const MessageId id{action.last ? Kind::final : Kind::value, bucket, action.rank, action.clock};
  sending_[round_of(id)] = {bucket, pin};
  // The engine only reads what is sent.
  open(round_of(id), schedule(true, false, action.rank, bucket), version, const_cast<std::byte*>(value.data()), true);
}

void ServerNode::release(int bucket, int rank, std::optional<Version> into) {
  const Pushed& pushed = pushed_[static_cast<std::size_t>(bucket)][static_cast<std::size_t>(rank)];
  if (pushed.passed) {
    // Nothing that would be counted.
  } else if (into) {
    counts_.ages.add(*into - 1 - pushed.base);
  } else {
    ++counts_.dropped;
  }
  if (observer_ != nullptr) observer_->released(bucket, rank, pushed.clock, pushed.base, into);
  if (rank == engine_.rank()) {
    wish(bucket).left.fetch_add(1, std::memory_order_release);
  } else if (!pushed.passed) {
    --untaken_;
    engine_.finish(id_, pushed.round, kArrived);
  }
}

void ServerNode::commit(const ShardAction& action) {
  const auto words = bits_of(action.ranks, engine_.size());
  const int servers = std::min(options_.num_servers(engine_.size()), num_buckets());
  for (int bucket = 1; bucket < servers; ++bucket) {  // the first of each other server
    engine_.send_control(id_, server_of(bucket), kCommit, action.version, action.last ? 1 : 0,
                         std::as_bytes(std::span(words)));
  }
  requests_.push_back(
      {.kind = Request::Kind::commit, .clock = action.version, .ranks = action.ranks, .last = action.last});
}

// ---- messages ----

const Schedule& ServerNode::schedule(bool sends, bool push, int peer, int bucket) {
  const std::uint64_t key =
      ((static_cast<std::uint64_t>(peer) * buckets_.size() + static_cast<std::uint64_t>(bucket)) << 2) |
      (sends ? 2 : 0) | (push ? 1 : 0);
  auto& known = schedules_[key];
  if (known != nullptr) return *known;
  const BucketSpec& spec = buckets_[static_cast<std::size_t>(bucket)];
  ScheduleBuilder b(push ? "push" : "value", engine_.rank(), engine_.size());
  if (sends) {
    known = std::make_unique<Schedule>(b.build(b.send(peer, 0, b.whole(b.buffer("body", spec.type, spec.count)), {})));
  } else if (push) {  // into memory of the engine's, which the call keeps
    const OpId here = b.recv(peer, 0, b.whole(b.scratch("gradient", spec.type, spec.count)), {});
    known = std::make_unique<Schedule>(b.build(b.call(0, {here})));
  } else {
    known = std::make_unique<Schedule>(b.build(b.recv(peer, 0, b.whole(b.buffer("value", spec.type, spec.count)), {})));
  }
  return *known;
}

void ServerNode::open(Round round, const Schedule& schedule, std::uint64_t note, std::byte* memory, bool present) {
  ++open_rounds_;
  engine_.open(id_, round, schedule, note);
  engine_.bind(id_, round, 0, {memory, present});
}

bool ServerNode::admit(Round round, const Envelope& envelope) {
  if (failure_.failed()) return false;
  const MessageId id = id_of(round);
  if (id.kind != Kind::push) {  // the round was opened with the request
    if (!engine_.is_open(id_, round)) return false;
    askings_[static_cast<std::size_t>(id.bucket)].incoming = envelope.note;
    return true;
  }
  if (!mine(id.bucket) || id.worker == engine_.rank()) return false;
  if (engine_.is_open(id_, round)) return true;
  coming_[round] = envelope.note;
  ++open_rounds_;
  ++untaken_;
  engine_.open(id_, round, schedule(false, true, id.worker, id.bucket), 0);
  return true;
}

bool ServerNode::call(Round round, OpId, std::uint32_t) {
  const MessageId id = id_of(round);
  const auto base = coming_.extract(round);
  requests_.push_back({.kind = Request::Kind::push,
                       .bucket = id.bucket,
                       .rank = id.worker,
                       .clock = id.clock,
                       .version = base.mapped(),
                       .gradient = engine_.buffer(id_, round, 0).data});
  engine_.doorbell().ring();
  return false;
}

void ServerNode::completed(Round round) {
  const MessageId id = id_of(round);
  const bool received = id.kind != Kind::push && id.worker == engine_.rank();
  if (!received) return;
  value_here(id.bucket, askings_[static_cast<std::size_t>(id.bucket)].incoming, id.kind == Kind::final);
}

void ServerNode::retired(Round round) {
  --open_rounds_;
  const MessageId id = id_of(round);
  const bool from_here = id.worker == engine_.rank();
  if (id.kind == Kind::push && from_here) wish(id.bucket).left.fetch_add(1, std::memory_order_release);
  if (const auto sent = sending_.extract(round)) served_here(sent.mapped().bucket)->unpin(sent.mapped().pin);
}

bool ServerNode::hear(int peer, const Envelope& envelope, std::span<const std::byte> head) {
  const MessageId id = id_of(envelope.round);
  switch (envelope.channel) {
    case kGet:
    case kDone:
      if (id.worker != peer || !mine(id.bucket)) break;
      requests_.push_back({.kind = envelope.channel == kGet ? Request::Kind::get : Request::Kind::done,
                           .bucket = id.bucket,
                           .rank = peer,
                           .clock = envelope.channel == kGet ? id.clock : envelope.note,
                           .version = envelope.note});
      return true;
    case kPass:
      if (id.kind != Kind::push || id.worker != peer || !mine(id.bucket)) break;
      requests_.push_back({.kind = Request::Kind::push,
                           .bucket = id.bucket,
                           .rank = peer,
                           .clock = id.clock,
                           .version = envelope.note,
                           .passed = true});
      return true;
    case kCommit: {
      std::vector<std::uint64_t> words(head.size() / sizeof(std::uint64_t));
      std::memcpy(words.data(), head.data(), words.size() * sizeof(std::uint64_t));
      requests_.push_back({.kind = Request::Kind::commit,
                           .clock = envelope.round,
                           .ranks = ranks_of(words, engine_.size()),
                           .last = envelope.note != 0});
      return true;
    }
    default: return inquiry_.control(peer, envelope, head);
  }
  return false;
}

// ---- what goes wrong, and who is missing ----

void ServerNode::lost(int, const Error& reason) {
  if (phase_ == 0 || !between_phases()) return failure_.lose(reason, kWhat);
  lost_ = reason;  // there may be no other phase
}

/// A rank leaves in order after a phase; one that leaves when another phase is under way is lost.
void ServerNode::look_who_has_left() {
  if (between_phases() || failure_.failed() || !requests_.empty()) return;
  for (int peer = 0; peer < engine_.size(); ++peer) {
    if (!engine_.liveness().has_left(peer)) continue;
    bool needed = std::ranges::any_of(
        served_, [&](const auto& served) { return !served->shard().idle() && !served->shard().has_ended(peer); });
    for (int bucket = 0; bucket < num_buckets(); ++bucket) {
      if (server_of(bucket) != peer) continue;
      const Asking& asking = askings_[static_cast<std::size_t>(bucket)];
      const Round round = asking.done ? round_of({Kind::final, bucket, engine_.rank(), phase_})
                                      : round_of({Kind::value, bucket, engine_.rank(), asking.asked});
      needed |= engine_.lacks(id_, round, peer);
    }
    if (needed) return failure_.lose(has_left(peer), kWhat);
  }
}

std::string ServerNode::shards_wait_for() const {
  if (!early_.empty()) return text("rank ", engine_.rank(), " has not begun the next phase");
  for (const auto& served : served_) {
    const std::vector<int> ranks = served->shard().waits_for();
    if (ranks.empty() || served->shard().idle()) continue;
    return text("bucket ", served->bucket(), " on rank ", engine_.rank(), " waits for ", ranks_in_words(ranks),
                " (version ", served->shard().version(), ")");
  }
  return "";
}

std::string ServerNode::who_is_missing(Driver& driver, Duration timeout) {
  std::string who;
  driver.wait_driving([&] { return who = shards_wait_for(), true; }, driver.clock().now());
  for (const auto& answer : inquiry_.ask_others(driver, timeout, 0, [this] { return failure_.failed(); })) {
    if (!answer || answer->empty()) continue;
    who +=
        text(who.empty() ? "" : "; ", std::string_view(reinterpret_cast<const char*>(answer->data()), answer->size()));
  }
  return who.empty() ? "no server says that it waits for a rank" : who;
}

}  // namespace stretto
