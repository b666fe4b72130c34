#include "stretto/collective/group_allreduce.h"

#include "stretto/base/defect.h"
#include "stretto/collective/group_allreduce_probe.h"
#include "stretto/collective/protocol/group_ticket.h"
#include "stretto/collective/rounds/group_rounds.h"

namespace stretto {

class GroupAllreduce::Impl {
 public:
  Impl(Engine& engine, std::vector<BucketSpec> buckets, const GroupOptions& options)
      : rounds(engine, std::move(buckets), options), ticket(options.late == LateRank::jumps) {}
  ~Impl() {
    const Engine::Pause pause(rounds.engine());
    rounds.withdraw();
  }

  GroupRounds rounds;
  GroupTicket ticket;
  StandingModel* filling = nullptr;  // given out by acquire() and not published
  bool arrived = false;              // at the round that the exchange waits for
  bool waiting = false;
  bool draining = false;
  int taken = 0;  // results passed on in the current call

  /// Passes on a result that has not been used: the newest, or that of round `iteration`. Returns whether there was
  /// one.
  bool take(Apply apply, Round iteration);
  const GroupSum* read(Round iteration);
  void tell_ticket();
};

GroupAllreduce::GroupAllreduce(Engine& engine, std::vector<BucketSpec> buckets, GroupOptions options) {
  const Engine::Pause pause(engine);
  impl_ = std::make_unique<Impl>(engine, std::move(buckets), options);
}

GroupAllreduce::~GroupAllreduce() = default;

Contribution& GroupAllreduce::acquire() {
  if (impl_->filling != nullptr) throw UsageError("acquire() before the model it returned last has been published");
  impl_->filling = &impl_->rounds.models().acquire();
  return impl_->filling->contribution;
}

void GroupAllreduce::publish(Contribution& contribution, const DepositInfo& info) {
  Impl& my = *impl_;
  if (my.filling == nullptr || &contribution != &my.filling->contribution) {
    throw UsageError(text("publish() of model ", contribution.index(),
                          ", which acquire() has not returned, or which has been published already"));
  }
  const Round base = my.ticket.next();
  contribution.facts = {.batches = info.batches,
                        .samples = info.samples,
                        .oldest_base = base,
                        .sum_of_bases = base * info.batches,
                        .times = {.computed = static_cast<float>(seconds(info.computed)),
                                  .waited = static_cast<float>(seconds(info.waited))}};
  my.rounds.models().publish(*std::exchange(my.filling, nullptr), base);
  my.rounds.freed();
}

void GroupAllreduce::Impl::tell_ticket() {
  rounds.set_ticket(ticket.next());
  rounds.set_jumped(ticket.jumped());
}

/// A rank without batches has no iterations of its own: it takes the newest.
const GroupSum* GroupAllreduce::Impl::read(Round iteration) {
  if (rounds.options().late_sum == LateSum::own && !draining) return rounds.models().read_of(iteration);
  return rounds.models().read(defect(Defect::group_used_again) ? 0 : ticket.used());
}

bool GroupAllreduce::Impl::take(Apply apply, Round iteration) {
  StandingModels& models = rounds.models();
  const GroupSum* sum = read(iteration);
  if (sum == nullptr) return false;
  ticket.used(sum->round + 1);
  if (draining) ticket.follow();
  tell_ticket();
  const bool full = rounds.full(sum->round);
  bool fresh = full || sum->own_version == models.versions();
  if (defect(Defect::group_fresh_by_arrival)) fresh = full || arrived;
  if (defect(Defect::group_always_average)) fresh = true;
  if (defect(Defect::group_always_stale)) fresh = full;
  const std::uint64_t versions = models.versions();
  apply({.round = sum->round,
         .full = full,
         .header = &sum->header,
         .members = sum->members,
         .fresh = fresh,
         .sum = sum->buckets,
         .own = sum->pins_own ? &sum->own->contribution : nullptr});
  if ((full || draining) && models.versions() == versions) {
    throw UsageError(text("no publish() in the apply function of round ", sum->round, ", which is ",
                          full ? "full" : "taken after drain()", ": expected the model that stands from now on"));
  }
  ++taken;
  models.release(ticket.next());
  rounds.set_took(ticket.used());
  rounds.freed();
  if (full) rounds.engine().doorbell().ring();  // the next block may begin
  return true;
}

Result<GroupAllreduce::Progress> GroupAllreduce::try_exchange(Apply apply) {
  Impl& my = *impl_;
  if (my.draining) throw UsageError("exchange() after drain(): this rank has said that it has no more batches");
  if (my.rounds.models().versions() == 0 && !defect(Defect::group_no_initial)) {
    throw UsageError("exchange() before the first publish(): expected the initial model to stand");
  }
  if (my.rounds.failure().failed()) return *my.rounds.failure().error();
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
  if (my.rounds.failure().failed()) return *my.rounds.failure().error();
  if (!my.draining) throw UsageError("finish() before drain(): expected the last model to be published in between");
  // Read before the results, so that all are taken once this says so.
  const bool over = my.rounds.over();
  const Round complete = my.rounds.complete();
  my.take(apply, my.ticket.next());
  if (!my.rounds.stopped() && my.rounds.full(complete) && my.ticket.used() >= complete) my.rounds.set_arrived(complete);
  return over ? Progress::done : Progress::waiting;
}

Result<int> GroupAllreduce::exchange(Driver& driver, TimePoint deadline, Apply apply) {
  Impl& my = *impl_;
  my.taken = 0;
  for (;;) {
    const auto progress = try_exchange(apply);
    if (!progress) return progress.error();
    if (*progress == Progress::done) return my.taken;
    const auto over = [&] { return my.rounds.complete() > my.ticket.next() || my.rounds.failure().failed(); };
    if (!driver.wait(over, deadline)) {
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
      return my.rounds.complete() > before || my.rounds.over() || my.rounds.failure().failed();
    };
    if (!driver.wait(moved, deadline)) {
      return Error{Errc::timeout, who_is_missing(driver, std::chrono::milliseconds(200)), -1};
    }
  }
}

void GroupAllreduce::abort(Driver& driver, const std::string& reason) {
  impl_->rounds.failure().abort(driver, reason);
}

std::optional<Error> GroupAllreduce::failure() const {
  return impl_->rounds.failure().error();
}

std::string GroupAllreduce::who_is_missing(Driver& driver, Duration timeout) {
  GroupRounds& rounds = impl_->rounds;
  const Round open = rounds.complete();
  return rounds.query().who_is_missing(driver, timeout, open, text("round ", open, rounds.full(open) ? " (full)" : ""),
                                       [&rounds] { return rounds.failure().failed(); });
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
  return impl_->rounds.models().num_models();
}
int GroupAllreduce::num_sums() const {
  return impl_->rounds.models().num_sums();
}
std::uint64_t GroupAllreduce::memory_bytes() const {
  return static_cast<std::uint64_t>(num_models() + num_sums()) * impl_->rounds.models().bytes_per_set();
}

void GroupProbe::observe(GroupObserver& observer) {
  collective_.impl_->rounds.observe(observer);
}
ProtocolState GroupProbe::state() const {
  return collective_.impl_->rounds.state();
}
std::uint64_t GroupProbe::versions() const {
  return collective_.impl_->rounds.models().versions();
}

}  // namespace stretto
