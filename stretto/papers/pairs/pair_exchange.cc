#include "stretto/papers/pairs/pair_exchange.h"

#include <algorithm>
#include <utility>

#include "stretto/base/defect.h"
#include "stretto/base/description.h"
#include "stretto/base/error.h"
#include "stretto/kernel/mix.h"
#include "stretto/schedule/builder.h"

namespace stretto {
namespace {

constexpr std::uint16_t kDone = kControlChannel;  // note: the phase of which the sender asks nothing more

std::string describe(const std::vector<BucketSpec>& buckets, const PairOptions& options) {
  const bool center = options.pairing == Pairing::center;
  std::string out = text("exchange of models ", center ? "with a center" : "in pairs", ", ", buckets.size(),
                         buckets.size() == 1 ? " bucket" : " buckets", "\nweights: ", options.weight, " and ",
                         options.back, "\nseed: ", options.seed);
  for (std::size_t i = 0; i < buckets.size(); ++i) {
    out += text("\nbucket ", i, ": ", buckets[i].count, ' ', name_of(buckets[i].type));
  }
  return out;
}

std::vector<BucketSpec> checked(std::vector<BucketSpec> buckets, const PairOptions& options) {
  if (buckets.empty()) throw UsageError("an exchange of models without buckets: give it at least one");
  for (std::size_t i = 0; i < buckets.size(); ++i) {
    if (!can_mix(buckets[i].type)) {
      throw UsageError(text("bucket ", i, " of a model that is exchanged is of ", name_of(buckets[i].type),
                            "; expected floating point numbers or int64"));
    }
    if (buckets[i].count == 0) throw UsageError(text("bucket ", i, " is empty: give it at least one element"));
  }
  for (const double weight : {options.weight, options.back}) {
    if (!(weight >= 0 && weight <= 1)) {
      throw UsageError(text("an exchange of models with weight ", weight, "; expected 0 to 1"));
    }
  }
  return buckets;
}

}  // namespace

PairExchange::PairExchange(Engine& engine, std::vector<BucketSpec> buckets, const PairOptions& options)
    : CollectiveBase(engine, words_of(describe(buckets, options))),
      buckets_(checked(std::move(buckets), options)),
      options_(options),
      description_(describe(buckets_, options)),
      model_(buckets_),
      protocol_(engine.rank(), engine.size(), options.pairing, options.seed) {
  if (options.pairing == Pairing::center && engine.rank() == 0) center_ = std::make_unique<SharedModel>(buckets_);
  if (protocol_.asks()) sent_.emplace(buckets_, 0);
  const Engine::Pause pause(engine);
  enroll(description_);
}

PairExchange::~PairExchange() {
  engine_.remove(id_);
}

std::uint64_t PairExchange::memory_bytes() const {
  const std::uint64_t model = model_.memory_bytes() / 2;
  return (2 + (sent_ ? 1 : 0) + (center_ ? 2 : 0)) * model;
}

// ---- the application's thread ----

void PairExchange::begin(std::span<const std::span<const std::byte>> model) {
  STRETTO_CHECK(phases_settled_.load(std::memory_order_acquire) == begun_, "phase ", begun_, " has not settled");
  for (int b = 0; b < num_buckets(); ++b) {
    model_.begin(b, model[static_cast<std::size_t>(b)]);
    if (center_) center_->begin(b, model[static_cast<std::size_t>(b)]);
  }
  phases_begun_.store(++begun_, std::memory_order_release);  // pairs with poll()
  engine_.doorbell().ring();                                 // exchanges may wait for it
}

std::uint64_t PairExchange::add_step(int bucket, std::span<std::byte> moved) {
  return model_.add_own(bucket, moved);
}

void PairExchange::read_center(int bucket, std::span<std::byte> to) {
  STRETTO_CHECK(center_ != nullptr, "rank ", engine_.rank(), " owns no center");
  center_->read(bucket, to);
}

Result<bool> PairExchange::try_exchange() {
  if (auto why = failure()) return *std::move(why);
  if (!protocol_.asks()) return true;
  if (center_) {
    ask_locally();
    return true;
  }
  const std::uint64_t wanted = wanted_.load(std::memory_order_relaxed);
  if (answered_.load(std::memory_order_acquire) != wanted) return false;
  for (int b = 0; b < num_buckets(); ++b) model_.read(b, sent_->bucket(b));
  wanted_.store(wanted + 1, std::memory_order_release);  // pairs with poll(): the copy is the engine's
  engine_.doorbell().ring();
  return true;
}

/// Its own engine need not come between: both models are here.
void PairExchange::ask_locally() {
  for (int b = 0; b < num_buckets(); ++b) {
    model_.read(b, sent_->bucket(b));
    center_->mix_with(b, sent_->bucket(b), options_.weight, options_.back);
    model_.subtract(b, sent_->bucket(b));
  }
  ++own_;
}

Result<bool> PairExchange::try_settle() {
  if (auto why = failure()) return *std::move(why);
  if (phases_ended_.load(std::memory_order_relaxed) != begun_) {
    phases_ended_.store(begun_, std::memory_order_release);
    engine_.doorbell().ring();
  }
  return phases_settled_.load(std::memory_order_acquire) == begun_;
}

Result<void> PairExchange::wait_for(Driver& driver, TimePoint deadline, FunctionRef<Result<bool>()> call) {
  Result<bool> done = false;
  const TimePoint called = engine_.clock().now();
  const auto over = [&] {
    done = call();
    return !done || *done || engine_.frozen();
  };
  if (!driver.wait(over, deadline)) {
    return Error{Errc::timeout,
                 text(who_is_missing(driver, Duration(0)), ", after ", seconds(engine_.clock().now() - called), " s"),
                 -1};
  }
  if (done && !*done) return members_changed();
  return done ? Result<void>() : Result<void>(done.error());
}

Result<void> PairExchange::exchange(Driver& driver, TimePoint deadline) {
  return wait_for(driver, deadline, [this] { return try_exchange(); });
}

Result<void> PairExchange::settle(Driver& driver, TimePoint deadline) {
  return wait_for(driver, deadline, [this] { return try_settle(); });
}

std::string PairExchange::who_is_missing(Driver& driver, Duration) {
  std::string out;
  driver.wait_driving([&] { return out = missing(), true; }, engine_.clock().now());
  return out;
}

std::string PairExchange::missing() const {
  std::string out = text(name_, ", phase ", protocol_.phase(), ": ");
  if (protocol_.in_flight()) return out + text("no answer from rank ", protocol_.partner(opened_ - 1));
  std::string peers;
  for (int peer = 0; peer < engine_.size(); ++peer) {
    if (protocol_.is_missing(peer)) peers += text(peers.empty() ? "rank " : ", ", peer);
  }
  return out + (peers.empty() ? "waits for no rank" : peers + " may still ask");
}

// ---- the driving thread ----

bool PairExchange::poll(TimePoint) {
  if (!failure_.poll()) return false;
  // Ended before begun, and begun before wanted: what the application has written before each of them is seen with it.
  const std::uint64_t ended = phases_ended_.load(std::memory_order_acquire);
  if (phases_begun_.load(std::memory_order_acquire) > protocol_.phase()) {
    protocol_.begin_phase();
    answer_held();
  }
  if (wanted_.load(std::memory_order_acquire) > opened_) open_ask();
  if (ended == protocol_.phase()) protocol_.end_phase();
  if (protocol_.must_tell_done()) {
    protocol_.told_done();
    for (int peer = 0; peer < engine_.size(); ++peer) {
      const bool asked = options_.pairing == Pairing::center ? peer == 0 : peer % 2 == 1 || defect(Defect::no_roles);
      if (asked && peer != engine_.rank()) engine_.send_control(id_, peer, kDone, 0, protocol_.phase(), {});
    }
  }
  if (protocol_.settled()) phases_settled_.store(protocol_.phase(), std::memory_order_release);
  if (!engine_.liveness().all_here()) look_who_has_left();
  return finish_late_averages();
}

/// Buffers b: the bucket as this rank sends it. Then, for each bucket, the answer.
const Schedule& PairExchange::asking(int partner) {
  const auto known = asking_.find(partner);
  if (known != asking_.end()) return known->second;
  ScheduleBuilder b("ask", engine_.rank(), engine_.size());
  std::vector<BufferId> mine, theirs;
  for (const BucketSpec& bucket : buckets_) mine.push_back(b.buffer("mine", bucket.type, bucket.count));
  for (const BucketSpec& bucket : buckets_) theirs.push_back(b.scratch("answer", bucket.type, bucket.count));
  std::vector<OpId> done;
  for (std::size_t i = 0; i < buckets_.size(); ++i) {
    const int channel = static_cast<int>(i);
    b.send(partner, channel, b.whole(mine[i]), {});
    done.push_back(b.call(static_cast<std::uint32_t>(i), {b.recv(partner, channel, b.whole(theirs[i]), {})}));
  }
  return asking_.emplace(partner, b.build(b.nop(done))).first->second;
}

const Schedule& PairExchange::answering(int peer) {
  const auto known = answering_.find(peer);
  if (known != answering_.end()) return known->second;
  ScheduleBuilder b("answer", engine_.rank(), engine_.size());
  std::vector<OpId> done;
  for (std::size_t i = 0; i < buckets_.size(); ++i) {
    const int channel = static_cast<int>(i);
    const Slice theirs = b.whole(b.scratch("theirs", buckets_[i].type, buckets_[i].count));
    const OpId mixed = b.call(static_cast<std::uint32_t>(i), {b.recv(peer, channel, theirs, {})});
    done.push_back(b.send(peer, channel, theirs, {mixed}));
  }
  return answering_.emplace(peer, b.build(b.nop(done))).first->second;
}

void PairExchange::open_ask() {
  const int partner = protocol_.partner(opened_);
  const Round round = opened_++ * static_cast<Round>(engine_.size()) + static_cast<Round>(engine_.rank());
  protocol_.asked();
  engine_.open(id_, round, asking(partner), protocol_.phase());
  for (int b = 0; b < num_buckets(); ++b) {
    engine_.bind(id_, round, static_cast<BufferId>(b), {sent_->bucket(b).data(), true});
  }
}

bool PairExchange::admit(Round round, const Envelope& envelope) {
  if (failure_.failed()) return false;
  if (engine_.is_open(id_, round)) return true;
  const int peer = asker_of(round);
  if (!protocol_.is_asked_by(peer)) {
    broken({Errc::bad_input, text("rank ", peer, " may not ask rank ", engine_.rank()), peer});
    return false;
  }
  open_.push_back({round, envelope.note});
  engine_.open(id_, round, answering(peer), envelope.note);
  return true;
}

bool PairExchange::call(Round round, OpId op, std::uint32_t hook) {
  const int bucket = static_cast<int>(hook);
  if (asker_of(round) == engine_.rank()) {
    apply_answer(round, bucket);
    return true;
  }
  return answer(round, op, bucket);
}

std::span<std::byte> PairExchange::scratch(Round round, int bucket) const {
  const BucketSpec& spec = buckets_[static_cast<std::size_t>(bucket)];
  const bool own = asker_of(round) == engine_.rank();
  const auto buffer = static_cast<BufferId>(own ? num_buckets() + bucket : bucket);
  return {engine_.buffer(id_, round, buffer).data, spec.count * size_of(spec.type)};
}

bool PairExchange::answer(Round round, OpId op, int bucket) {
  const auto open = std::ranges::find(open_, round, &Answering::round);
  if (!protocol_.may_answer(open->phase)) {
    held_.push_back({round, op, bucket});
    return false;
  }
  const std::span<std::byte> theirs = scratch(round, bucket);
  if (defect(Defect::averaging_not_atomic)) {
    LateAverage late{{round, op, bucket}, std::vector<std::byte>(theirs.size())};
    const BucketSpec& spec = buckets_[static_cast<std::size_t>(bucket)];
    model_.read(bucket, late.value);
    mix(spec.type, late.value.data(), theirs.data(), spec.count, options_.weight, options_.back);
    late_.push_back(std::move(late));
    return false;
  }
  (center_ ? *center_ : model_).mix_with(bucket, theirs, options_.weight, options_.back);
  return true;
}

void PairExchange::answer_held() {
  for (const Held& held : std::exchange(held_, {})) {
    if (answer(held.round, held.op, held.bucket)) engine_.finish(id_, held.round, held.op);
  }
}

void PairExchange::apply_answer(Round round, int bucket) {
  const std::span<std::byte> change = scratch(round, bucket);
  if (defect(Defect::overwritten_answer) || defect(Defect::overwritten_elastic)) {
    std::vector<std::byte> value(sent_->bucket(bucket).begin(), sent_->bucket(bucket).end());
    const BucketSpec& spec = buckets_[static_cast<std::size_t>(bucket)];
    subtract(spec.type, value.data(), change.data(), spec.count);
    return overwrite(bucket, value);
  }
  model_.subtract(bucket, change);
}

/// Planted: what the model has become meanwhile is lost.
void PairExchange::overwrite(int bucket, std::span<const std::byte> value) {
  const BucketSpec& spec = buckets_[static_cast<std::size_t>(bucket)];
  std::vector<std::byte> change(value.size());
  model_.read(bucket, change);
  subtract(spec.type, change.data(), value.data(), spec.count);
  model_.subtract(bucket, change);
}

/// Planted: the second half of an average whose first half was an access of its own.
bool PairExchange::finish_late_averages() {
  for (const LateAverage& late : std::exchange(late_, {})) {
    overwrite(late.at.bucket, late.value);
    engine_.finish(id_, late.at.round, late.at.op);
  }
  return false;
}

void PairExchange::retired(Round round) {
  if (asker_of(round) != engine_.rank()) {
    std::erase_if(open_, [round](const Answering& open) { return open.round == round; });
    return;
  }
  protocol_.answered();
  answered_.store(opened_, std::memory_order_release);  // pairs with try_exchange(): the copy is the application's
  if (defect(Defect::no_roles)) answer_held();
}

bool PairExchange::hear(int peer, const Envelope& envelope, std::span<const std::byte>) {
  if (envelope.channel != kDone) return false;
  protocol_.heard_done(peer, envelope.note);
  return true;
}

void PairExchange::look_who_has_left() {
  if (failure_.failed() || protocol_.settled()) return;
  for (int peer = 0; peer < engine_.size(); ++peer) {
    if (!engine_.liveness().has_left(peer)) continue;
    const bool asked = protocol_.in_flight() && protocol_.partner(opened_ - 1) == peer;
    if (asked || protocol_.is_missing(peer)) {
      return lost(peer, has_left(peer));
    }
  }
}

}  // namespace stretto
