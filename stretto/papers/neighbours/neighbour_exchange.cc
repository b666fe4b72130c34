#include "stretto/papers/neighbours/neighbour_exchange.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "stretto/base/defect.h"
#include "stretto/base/error.h"
#include "stretto/base/machine/pages.h"
#include "stretto/schedule/builder.h"

namespace stretto {
namespace {

constexpr std::uint16_t kDrained = kControlChannel;     // this rank makes no rounds of its own beyond `round`
constexpr std::uint16_t kNeeded = kControlChannel + 1;  // to a drained rank: rounds below `round` are needed
constexpr std::uint64_t kHead = kCacheLine;             // in front of the buckets: the word, and nothing
constexpr std::size_t kKeptPlans = 64;

std::uint64_t bytes_of(const BucketSpec& bucket) {
  return round_up(checked_bytes(bucket.type, bucket.count), kCacheLine);
}

std::string description_of(const std::vector<BucketSpec>& buckets, const NeighbourOptions& options) {
  std::string words = text("exchange with neighbours of ", buckets.size(), buckets.size() == 1 ? " bucket" : " buckets",
                           ", ", options.graph);
  if (options.block > 0) words += text(", in blocks of ", options.block, " rounds");
  for (std::size_t i = 0; i < buckets.size(); ++i) {
    words += text("\nbucket ", i, ": ", buckets[i].count, ' ', name_of(buckets[i].type));
  }
  return words;
}

}  // namespace

NeighbourExchange::NeighbourExchange(Engine& engine, std::vector<BucketSpec> buckets, NeighbourOptions options)
    : CollectiveBase(engine),
      buckets_(std::move(buckets)),
      options_(std::move(options)),
      drained_at_(static_cast<std::size_t>(engine.size())),
      told_(static_cast<std::size_t>(engine.size())) {
  if (buckets_.empty()) throw UsageError("an exchange with neighbours needs at least one bucket");
  message_bytes_ = kHead;
  for (const BucketSpec& bucket : buckets_) message_bytes_ += bytes_of(bucket);
  shown_.resize(buckets_.size());
  const std::string description = description_of(buckets_, options_);
  const Engine::Pause pause(engine);
  enroll(description);
}

NeighbourExchange::~NeighbourExchange() {
  const Engine::Pause pause(engine_);
  engine_.remove(id_);
}

// ---- the application's thread ----

std::span<std::byte> NeighbourExchange::outgoing(int bucket) {
  MutexLock lock(mutex_);
  if (!filling_) {
    if (free_.empty()) {
      free_.push_back(sets_.size());
      sets_.emplace_back(message_bytes_);
      std::memset(sets_.back().data(), 0, message_bytes_);
    }
    filling_ = free_.back();
    free_.pop_back();
  }
  std::uint64_t at = kHead;
  for (int b = 0; b < bucket; ++b) at += bytes_of(buckets_[static_cast<std::size_t>(b)]);
  const BucketSpec& spec = buckets_[static_cast<std::size_t>(bucket)];
  return {sets_[*filling_].data() + at, spec.count * size_of(spec.type)};
}

void NeighbourExchange::begin(std::uint64_t word) {
  (void)outgoing(0);
  awaited_.push_back(options_.links(begun_).in);
  {
    MutexLock lock(mutex_);
    std::memcpy(sets_[*filling_].data(), &word, sizeof word);
    to_begin_.push_back({begun_, *std::exchange(filling_, std::nullopt)});
  }
  ++begun_;
  while (whole_ < begun_ && awaited_.front().empty()) {
    awaited_.pop_front();
    ++whole_;
  }
  engine_.doorbell().ring();
}

Round NeighbourExchange::round_of(const Come& come) const {
  return defect(Defect::newest_of_a_sender) ? std::min(come.round, begun_ - 1) : come.round;
}

Result<bool> NeighbourExchange::try_take(Round whole, Add add) {
  if (auto failed = failure_.error()) return *std::move(failed);
  {
    MutexLock lock(mutex_);
    come_.insert(come_.end(), arrived_.begin(), arrived_.end());
    arrived_.clear();
  }
  std::size_t missing = 0;
  for (Round round = whole_; round < whole; ++round) missing += awaited_[round - whole_].size();
  const auto here = std::ranges::count_if(come_, [&](const Come& come) { return round_of(come) < whole; });
  if (static_cast<std::size_t>(here) < missing) return false;
  std::ranges::sort(
      come_, [](const Come& a, const Come& b) { return std::pair(a.round, a.sender) < std::pair(b.round, b.sender); });
  const auto later = std::ranges::find_if(come_, [&](const Come& come) { return round_of(come) >= begun_; });
  if (later == come_.begin()) return true;
  for (auto come = come_.begin(); come != later; ++come) hand_out(*come, add);
  {
    MutexLock lock(mutex_);
    handed_out_.insert(handed_out_.end(), come_.begin(), later);
  }
  come_.erase(come_.begin(), later);
  while (whole_ < begun_ && awaited_.front().empty()) {
    awaited_.pop_front();
    ++whole_;
  }
  engine_.doorbell().ring();
  return true;
}

void NeighbourExchange::hand_out(const Come& come, Add add) {
  if (const Round round = round_of(come); round >= whole_) std::erase(awaited_[round - whole_], come.sender);
  if (defect(Defect::drop_late_mass) && come.round + 1 < begun_) return;
  std::uint64_t at = kHead;
  for (std::size_t b = 0; b < buckets_.size(); ++b) {
    shown_[b] = {come.body + at, buckets_[b].count * size_of(buckets_[b].type)};
    at += bytes_of(buckets_[b]);
  }
  NeighbourMessage message{.round = come.round, .sender = come.sender, .buckets = shown_};
  std::memcpy(&message.word, come.body, sizeof message.word);
  add(message);
}

void NeighbourExchange::drain() {
  if (std::exchange(draining_, true)) return;
  {
    MutexLock lock(mutex_);
    to_drain_ = begun_;
  }
  engine_.doorbell().ring();
}

Result<NeighbourExchange::Next> NeighbourExchange::try_next(Add add) {
  STRETTO_CHECK(draining_, "try_next() before drain()");
  if (auto failed = failure_.error()) return *std::move(failed);
  const bool final = all_drained_.load(std::memory_order_acquire);
  if (defect(Defect::stop_with_own_batches)) return Next::over;
  if (begun_ < needed_.load(std::memory_order_acquire)) return Next::begin;
  if (!final) return Next::wait;
  const Result<bool> taken = try_take(begun_, add);
  if (!taken) return taken.error();
  if (!*taken && !defect(Defect::no_flush_at_end)) return Next::wait;
  if (*taken && in_flight_.load(std::memory_order_acquire) > 0) return Next::wait;
  over_.store(true, std::memory_order_release);
  return Next::over;
}

Result<void> NeighbourExchange::wait(Driver& driver, TimePoint deadline, std::uint64_t seen) {
  const auto anything = [&] { return news() != seen || failure_.failed() || engine_.frozen(); };
  if (!driver.wait(anything, deadline)) {
    return Error{Errc::timeout, who_is_missing(driver, Duration(0)), -1};
  }
  if (auto failed = failure_.error()) return *std::move(failed);
  if (news() == seen && engine_.frozen()) return members_changed();
  return {};
}

std::string NeighbourExchange::who_is_missing(Driver&, Duration) {
  std::string missing;
  Round round = whole_;
  for (; round < begun_; ++round) {
    for (const int sender : awaited_[round - whole_]) {
      const bool here =
          std::ranges::any_of(come_, [&](const Come& come) { return come.round == round && come.sender == sender; });
      if (!here) missing += text(missing.empty() ? "" : ", ", "rank ", sender);
    }
    if (!missing.empty()) break;
  }
  if (!missing.empty()) return text("round ", round, " of the neighbours waits for ", missing);
  if (!draining_) return text("round ", begun_, " of the neighbours waits for nobody");
  return text("round ", begun_, " of the neighbours waits to hear which ranks have more batches");
}

// ---- the driving thread ----

bool NeighbourExchange::poll(TimePoint) {
  if (!failure_.poll()) return false;
  std::vector<Begun> to_begin;
  std::vector<Come> handed_out;
  std::optional<Round> to_drain;
  {
    MutexLock lock(mutex_);
    to_begin.swap(to_begin_);
    handed_out.swap(handed_out_);
    to_drain = std::exchange(to_drain_, std::nullopt);
  }
  for (const Begun& begun : to_begin) {
    known_begun_ = begun.round + 1;
    Flight& flight = open(begun.round);
    flight.sent = begun.set;
    if (flight.plan->mine != kNoBuffer) {
      MutexLock lock(mutex_);
      engine_.bind(id_, begun.round, flight.plan->mine, {sets_[begun.set].data(), true});
    }
    engine_.trigger(id_, begun.round, flight.plan->begun);
  }
  for (const Come& come : handed_out) {
    engine_.finish(id_, come.round, flights_.at(come.round).plan->taken[come.index]);
  }
  if (to_drain) {
    for (int peer = 0; peer < engine_.size(); ++peer) {
      if (peer != engine_.rank()) engine_.send_control(id_, peer, kDrained, *to_drain, 0, {});
    }
    note_drained(engine_.rank(), *to_drain);
  }
  if (!to_begin.empty()) {
    needs(known_begun_);
    tell_the_drained();
  }
  return false;  // it starts and ends operations only
}

bool NeighbourExchange::admit(Round round, const Envelope&) {
  if (failure_.failed() || (round < known_begun_ && !engine_.is_open(id_, round))) return false;
  needs(round + 1);
  open(round);
  return true;
}

NeighbourExchange::Flight& NeighbourExchange::open(Round round) {
  if (const auto known = flights_.find(round); known != flights_.end()) return known->second;
  Links links = options_.links(round);
  Plan& plan = plan_for(links);
  ++plan.open;
  in_flight_.fetch_add(1, std::memory_order_release);
  Flight& flight = flights_[round] = {&plan, std::move(links), std::nullopt};
  engine_.open(id_, round, plan.schedule, 0);
  return flight;
}

NeighbourExchange::Plan& NeighbourExchange::plan_for(const Links& links) {
  if (const auto known = plans_.find(links); known != plans_.end()) return *known->second;
  if (plans_.size() >= kKeptPlans) {
    std::erase_if(plans_, [&](const auto& plan) {
      if (plan.second->open == 0) engine_.forget(id_, plan.second->schedule);
      return plan.second->open == 0;
    });
  }
  return *plans_.try_emplace(links, make_plan(links)).first->second;
}

std::unique_ptr<NeighbourExchange::Plan> NeighbourExchange::make_plan(const Links& links) const {
  ScheduleBuilder b("exchange with neighbours", engine_.rank(), engine_.size());
  const std::uint64_t words = message_bytes_ / sizeof(std::int32_t);
  BufferId mine = kNoBuffer;
  const OpId begun = b.nop({});
  b.external(begun);
  std::vector<OpId> all{begun}, taken;
  if (!links.out.empty()) mine = b.buffer("mine", DataType::int32, words);
  for (const int peer : links.out) all.push_back(b.send(peer, 0, b.whole(mine), {begun}));
  std::vector<BufferId> theirs;
  for (const int peer : links.in) {
    theirs.push_back(b.scratch(text("of rank ", peer), DataType::int32, words));
    const OpId recv = b.recv(peer, 0, b.whole(theirs.back()), {});
    taken.push_back(b.call(static_cast<std::uint32_t>(taken.size()), {recv}));
    all.push_back(taken.back());
  }
  auto plan = std::make_unique<Plan>(b.build(b.nop(all)), links.in.size());
  plan->mine = mine;
  plan->begun = begun;
  plan->theirs = std::move(theirs);
  plan->taken = std::move(taken);
  return plan;
}

bool NeighbourExchange::call(Round round, OpId, std::uint32_t hook) {
  const Flight& flight = flights_.at(round);
  const Come come{round, flight.links.in[hook], hook, engine_.buffer(id_, round, flight.plan->theirs[hook]).data};
  {
    MutexLock lock(mutex_);
    const auto older = std::ranges::find(arrived_, come.sender, &Come::sender);
    if (defect(Defect::mailbox_of_one) && older != arrived_.end()) {
      *older = come;
    } else {
      arrived_.push_back(come);
    }
  }
  tell_news();
  return false;  // poll() ends it when the application has been handed the message: the memory is the round's
}

void NeighbourExchange::retired(Round round) {
  const auto flight = flights_.find(round);
  --flight->second.plan->open;
  {
    MutexLock lock(mutex_);
    free_.push_back(*flight->second.sent);
  }
  flights_.erase(flight);
  in_flight_.fetch_sub(1, std::memory_order_release);
  tell_news();
}

// ---- the end ----

Round NeighbourExchange::whole_blocks(Round rounds) const {
  return options_.block > 1 ? (rounds + options_.block - 1) / options_.block * options_.block : rounds;
}

void NeighbourExchange::needs(Round rounds) {
  rounds = whole_blocks(rounds);
  if (rounds <= needed_.load(std::memory_order_relaxed)) return;
  needed_.store(rounds, std::memory_order_release);
  tell_news();
}

void NeighbourExchange::note_drained(int peer, Round rounds) {
  auto& at = drained_at_[static_cast<std::size_t>(peer)];
  if (at) return;
  at = rounds;
  needs(rounds);
  tell_the_drained();
  if (++drained_ < engine_.size()) return;
  all_drained_.store(true, std::memory_order_release);
  tell_news();
}

/// Inside a block a message of some neighbour shows a drained rank that it is needed. In a block that this rank has
/// begun alone, all must finish, and none may hear of it otherwise.
void NeighbourExchange::tell_the_drained() {
  const Round rounds = whole_blocks(known_begun_);
  if (options_.block == 0 || drained_at_[static_cast<std::size_t>(engine_.rank())]) return;
  for (int peer = 0; peer < engine_.size(); ++peer) {
    const auto& at = drained_at_[static_cast<std::size_t>(peer)];
    Round& told = told_[static_cast<std::size_t>(peer)];
    if (!at || rounds <= std::max(*at, told)) continue;
    told = rounds;
    engine_.send_control(id_, peer, kNeeded, rounds, 0, {});
  }
}

bool NeighbourExchange::hear(int peer, const Envelope& envelope, std::span<const std::byte>) {
  switch (envelope.channel) {
    case kDrained: note_drained(peer, envelope.round); return true;
    case kNeeded: needs(envelope.round); return true;
    default: return false;
  }
}

void NeighbourExchange::lost(int, const Error& reason) {
  if (over_.load(std::memory_order_acquire)) return;
  failure_.lose(reason);
}

void NeighbourExchange::left(int peer, const Error& reason) {
  // In order a rank leaves when all have drained and it has sent everything.
  if (!drained_at_[static_cast<std::size_t>(peer)] && failure_.poll()) lost(peer, reason);
}

}  // namespace stretto
