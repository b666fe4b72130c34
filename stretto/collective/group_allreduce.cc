#include "stretto/collective/group_allreduce.h"

#include "stretto/base/defect.h"
#include "stretto/base/machine/pages.h"
#include "stretto/collective/probes.h"
#include "stretto/collective/protocol/ticket.h"
#include "stretto/collective/rounds/groups/group_board_rounds.h"
#include "stretto/collective/rounds/groups/group_rounds.h"
#include "stretto/collective/rounds/groups/spanning_rounds.h"
#include "stretto/collective/rounds/groups/standing_rounds.h"

namespace stretto {

class GroupAllreduce::Impl {
 public:
  explicit Impl(std::unique_ptr<StandingRounds> runs_on)
      : owned(std::move(runs_on)), rounds(*owned), ticket(rounds.options().late == LateRank::jumps) {}
  ~Impl() {
    const Engine::Pause pause(rounds.engine());
    rounds.withdraw();
  }

  const std::unique_ptr<StandingRounds> owned;
  StandingRounds& rounds;
  GroupTicket ticket;
  Contribution* filling = nullptr;    // given out by acquire() and not published
  Contribution* unsettled = nullptr;  // published, and to be put on what stands
  std::optional<Round> came;          // the full round at which the rank arrived last, without batches
  bool arrived = false;               // at the round that the exchange waits for
  bool waiting = false;
  bool draining = false;
  int taken = 0;  // results passed on in the current call

  /// Passes on a result that has not been used, if there is one: the newest, or that of round `iteration`; with
  /// GroupOptions::moves as follow().
  void take(Apply apply, Round iteration);
  std::optional<StandingSum> read(Round iteration);
  /// With GroupOptions::moves: passes on what stands, where the application does not have it. Of a rank without batches
  /// the results of full rounds alone.
  void follow(Apply apply);
  void tell_ticket();
  Error members_changed() const {
    return {Errc::members_changed,
            text("the members of the job change after round ", ticket.used(), " on rank ", rounds.engine().rank()), -1};
  }
};

namespace {

std::unique_ptr<StandingRounds> rounds_for(Engine& engine, std::vector<BucketSpec> buckets,
                                           const GroupOptions& options) {
  if (buckets.empty()) throw UsageError("a group allreduce needs at least one bucket");
  if (options.seats < 0 || options.seats > engine.size()) {
    throw UsageError(text("seats ", options.seats, " with ", engine.size(), " ranks: use 1 to ", engine.size(),
                          ", or 0 for all of them"));
  }
  if (options.seats > 1 && engine.host().arena == nullptr) {
    throw UsageError(text("seats ", options.seats, ", but the ranks share no memory: use 1, or 0"));
  }
  if (options.piece_bytes == 0 || options.piece_bytes % kCacheLine != 0) {
    throw UsageError(text("piece_bytes ", options.piece_bytes, ": use a multiple of ", kCacheLine));
  }
  if (options.seats > 1 && options.late_sum == LateSum::own) {
    throw UsageError(text("seats ", options.seats,
                          ", and sums of the own iteration, which are kept by messages alone: use 1, or 0"));
  }
  const bool by_messages = options.seats == 1 || options.late_sum == LateSum::own;
  if (by_messages || engine.host().arena == nullptr) {
    return std::make_unique<GroupRounds>(engine, std::move(buckets), options);
  }
  const int boards = Seating(engine.members(), engine.rank(), options.seats).boards();
  if (boards == engine.size()) return std::make_unique<GroupRounds>(engine, std::move(buckets), options);
  if (boards > 1) return std::make_unique<SpanningRounds>(engine, std::move(buckets), options);
  return std::make_unique<GroupBoardRounds>(engine, std::move(buckets), options);
}

}  // namespace

GroupAllreduce::GroupAllreduce(Engine& engine, std::vector<BucketSpec> buckets, GroupOptions options) {
  const Engine::Pause pause(engine);
  impl_ = std::make_unique<Impl>(rounds_for(engine, std::move(buckets), options));
}

GroupAllreduce::~GroupAllreduce() = default;

Contribution& GroupAllreduce::acquire() {
  if (impl_->filling != nullptr || impl_->unsettled != nullptr) {
    throw UsageError("acquire() before the model it returned last has been published");
  }
  impl_->filling = &impl_->rounds.acquire();
  return *impl_->filling;
}

void GroupAllreduce::publish(Contribution& contribution, const DepositInfo& info) {
  Impl& my = *impl_;
  if (&contribution != my.filling) {
    throw UsageError(text("publish() of model ", contribution.index(),
                          ", which acquire() has not returned, or which has been published already"));
  }
  const Round base = my.ticket.next();
  contribution.facts = {.batches = info.batches,
                        .samples = info.samples,
                        .oldest_base = base,
                        .sum_of_bases = base * info.batches,
                        .times = {.batches = static_cast<std::uint16_t>(std::min<std::uint64_t>(info.batches, 65'535)),
                                  .computed = static_cast<float>(seconds(info.computed)),
                                  .waited = static_cast<float>(seconds(info.waited))}};
  Contribution& model = *std::exchange(my.filling, nullptr);
  if (my.rounds.options().moves != nullptr && my.rounds.versions() > 0) {
    my.unsettled = &model;
  } else {
    my.rounds.publish(model, base);
  }
}

void GroupAllreduce::Impl::tell_ticket() {
  rounds.set_ticket(ticket.next());
  rounds.set_jumped(ticket.jumped());
}

/// A rank without batches has no iterations of its own: it takes the newest.
std::optional<StandingSum> GroupAllreduce::Impl::read(Round iteration) {
  if (rounds.options().late_sum == LateSum::own && !draining) return rounds.read_of(iteration);
  return rounds.read(defect(Defect::group_used_again) ? 0 : ticket.used());
}

void GroupAllreduce::Impl::take(Apply apply, Round iteration) {
  if (rounds.options().moves != nullptr) return follow(apply);
  const std::optional<StandingSum> sum = read(iteration);
  if (!sum) return;
  ticket.used(sum->round + 1);
  if (draining) ticket.follow();
  tell_ticket();
  const bool full = rounds.full(sum->round);
  const std::uint64_t versions = rounds.versions();
  bool fresh = full || sum->own_version == versions;
  if (defect(Defect::group_fresh_by_arrival)) fresh = full || arrived;
  if (defect(Defect::group_always_average)) fresh = true;
  if (defect(Defect::group_always_stale)) fresh = full;
  apply({.round = sum->round,
         .full = full,
         .header = sum->header,
         .members = sum->members,
         .fresh = fresh,
         .sum = sum->buckets,
         .own = sum->own});
  if ((full || draining) && rounds.versions() == versions) {
    throw UsageError(text("no publish() in the apply function of round ", sum->round, ", which is ",
                          full ? "full" : "taken after drain()", ": expected the model that stands from now on"));
  }
  ++taken;
  rounds.release(ticket.used() - 1);
}

void GroupAllreduce::Impl::follow(Apply apply) {
  const Round complete = rounds.complete();
  if (complete <= ticket.used() && draining) return;
  const bool full = complete > ticket.used() && rounds.full(complete - 1);
  const auto stands = draining && !full ? std::nullopt : rounds.follow(full);
  ticket.used(complete);
  if (draining) ticket.follow();
  tell_ticket();
  if (stands) {
    apply({.round = complete == 0 ? 0 : complete - 1,
           .full = full,
           .header = stands->header,
           .members = stands->members,
           .fresh = true,
           .sum = stands->buckets,
           .own = nullptr});
    ++taken;
  }
  if (complete > 0) rounds.release(complete - 1);
}

Result<GroupAllreduce::Progress> GroupAllreduce::try_exchange(Apply apply) {
  Impl& my = *impl_;
  if (my.draining) throw UsageError("exchange() after drain(): this rank has said that it has no more batches");
  if (my.rounds.engine().frozen()) return my.members_changed();
  if (my.rounds.versions() == 0 && !defect(Defect::group_no_initial)) {
    throw UsageError("exchange() before the first publish(): expected the initial model to stand");
  }
  if (my.rounds.failed()) return *my.rounds.failure();
  if (my.unsettled != nullptr) {
    if (!my.rounds.settle(*my.unsettled, my.ticket.next())) return Progress::waiting;
    my.unsettled = nullptr;
  }
  if (!my.waiting) {
    my.arrived = !my.ticket.late(my.rounds.complete());
    if (my.arrived) my.rounds.set_arrived(my.ticket.next());
    my.waiting = true;
  }
  if (my.rounds.complete() <= my.ticket.next()) return Progress::waiting;
  my.waiting = false;
  const Round iteration = my.ticket.next();
  my.ticket.passed(my.rounds.complete());
  my.tell_ticket();
  my.take(apply, iteration);
  return Progress::done;
}

void GroupAllreduce::drain() {
  Impl& my = *impl_;
  if (my.waiting) {
    throw UsageError("drain() while an exchange waits: call exchange() until its round is complete, or abort()");
  }
  my.draining = true;
  my.ticket.follow();
  my.tell_ticket();
  my.rounds.set_drained();
}

Result<GroupAllreduce::Progress> GroupAllreduce::try_finish(Apply apply) {
  Impl& my = *impl_;
  if (my.rounds.engine().frozen()) return my.members_changed();
  if (my.rounds.failed()) return *my.rounds.failure();
  if (!my.draining) throw UsageError("finish() before drain(): expected the last model to be published in between");
  // Read before the results, so that all are taken once this says so.
  const bool over = my.rounds.over();
  const std::optional<Round> full = my.rounds.full_to_come();
  my.take(apply, my.ticket.next());
  if (full && full != my.came) {
    my.came = full;
    my.rounds.set_arrived(*full);
  }
  return over ? Progress::done : Progress::waiting;
}

Result<int> GroupAllreduce::exchange(Driver& driver, TimePoint deadline, Apply apply) {
  Impl& my = *impl_;
  my.taken = 0;
  for (;;) {
    const auto progress = try_exchange(apply);
    if (!progress) return progress.error();
    if (*progress == Progress::done) return my.taken;
    const auto over = [&] {
      if (my.rounds.failed() || my.rounds.engine().frozen()) return true;
      return my.unsettled != nullptr ? my.rounds.may_settle() : my.rounds.complete() > my.ticket.next();
    };
    if (!driver.wait(over, deadline, Driver::Looking::first, my.rounds.signal())) {
      return Error{Errc::timeout, who_is_missing(driver, std::chrono::milliseconds(200)), -1};
    }
  }
}

Result<int> GroupAllreduce::finish(Driver& driver, TimePoint deadline, Apply apply) {
  Impl& my = *impl_;
  my.taken = 0;
  for (;;) {
    const Round before = my.rounds.complete();
    const auto progress = try_finish(apply);
    if (!progress) return progress.error();
    if (*progress == Progress::done) return my.taken;
    const auto moved = [&] {
      const std::optional<Round> full = my.rounds.full_to_come();
      return my.rounds.complete() > before || (full && full != my.came) || my.rounds.over() || my.rounds.failed() ||
             my.rounds.engine().frozen();
    };
    if (!driver.wait(moved, deadline, Driver::Looking::first, my.rounds.signal())) {
      return Error{Errc::timeout, who_is_missing(driver, std::chrono::milliseconds(200)), -1};
    }
  }
}

void GroupAllreduce::abort(Driver& driver, const Error& why) {
  impl_->rounds.abort(driver, why);
}

std::optional<Error> GroupAllreduce::failure() const {
  return impl_->rounds.failure();
}

std::string GroupAllreduce::who_is_missing(Driver& driver, Duration timeout) {
  return impl_->rounds.who_is_missing(driver, timeout);
}

int GroupAllreduce::num_buckets() const {
  return static_cast<int>(impl_->rounds.buckets().size());
}
const GroupOptions& GroupAllreduce::options() const {
  return impl_->rounds.options();
}
Round GroupAllreduce::next() const {
  return impl_->ticket.next();
}
bool GroupAllreduce::next_is_full() const {
  return impl_->rounds.full(impl_->ticket.next());
}
Round GroupAllreduce::handed() const {
  return impl_->ticket.used();
}
int GroupAllreduce::num_models() const {
  return impl_->rounds.num_models();
}
int GroupAllreduce::num_sums() const {
  return impl_->rounds.num_sums();
}
std::uint64_t GroupAllreduce::memory_bytes() const {
  return static_cast<std::uint64_t>(num_models() + num_sums()) * impl_->rounds.bytes_per_set();
}

void GroupProbe::observe(GroupObserver& observer) {
  collective_.impl_->rounds.observe(observer);
}
ProtocolState GroupProbe::state() const {
  return collective_.impl_->rounds.state();
}
std::uint64_t GroupProbe::versions() const {
  return collective_.impl_->rounds.versions();
}

bool GroupProbe::unsettled() const {
  return collective_.impl_->unsettled != nullptr;
}

std::span<const std::byte> GroupProbe::stands() const {
  return collective_.impl_->rounds.stands();
}

bool GroupProbe::may_acquire() const {
  return collective_.impl_->rounds.may_acquire();
}

}  // namespace stretto
