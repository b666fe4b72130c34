#include "stretto/train/simulated/simulated_process.h"

#include <utility>

#include "stretto/membership/rank_end.h"

namespace stretto {

std::unique_ptr<Following> SimulatedMembers::Process::follow(WorldBeside beside) {
  return std::make_unique<Follower>(*this, std::move(beside));
}

std::unique_ptr<Following> SimulatedMembers::Process::follow_comers(std::function<void(std::shared_ptr<World>)> asked) {
  return std::make_unique<FollowerOfComers>(*this, std::move(asked));
}

void SimulatedMembers::Process::hear(const MasterWords& words) {
  switch (words.kind) {
    case MasterWords::Kind::freeze: freeze(words.epoch); break;
    case MasterWords::Kind::tell:
      member_.tell(words.content);
      begin_late();
      // No world of two hears by itself that one of them is lost.
      if (is_given_beside() && !member_.newest()->has(giver_)) part_->world.engine().freeze();
      for (Follower* follower : followers_) follower->look();
      break;
    case MasterWords::Kind::batch:
      batches_.push_back(words.batch);
      if (words.batch) ++taken_;
      break;
    case MasterWords::Kind::refuse: refused_ = words.why; break;
    default: break;
  }
  place_.notify();
}

void SimulatedMembers::Process::begin_late() {
  const auto next = member_.next();
  if (enters_late_ && next && !next->is_awaited()) {
    job_.hear(*this, {.kind = ProcessWords::Kind::begun, .epoch = next->epoch});
  }
}

/// The engine stops before what the process holds is counted, and nothing of its world is counted afterwards.
void SimulatedMembers::Process::freeze(std::uint64_t epoch) {
  if (!member_.freeze(epoch)) return job_.hear(*this, {.hello = member_.hello()});
  if (part_ != nullptr && given_in_ == nullptr && epoch >= member_.view().epoch) {
    part_->world.engine().freeze();
    changing_ = true;
  }
  ReportWords report = member_.report(epoch, holding());
  report.gives = enters_late_;
  job_.hear(*this, {.kind = ProcessWords::Kind::report, .report = report});
}

Holding SimulatedMembers::Process::holding() const {
  if (holding_) return holding_();
  const View& view = member_.view();
  const auto place = view.place_of(member_.number());
  if (!place) return {};
  return {.held = member_.has_begun() ? static_cast<RoundsHeld>(view.complete) : view.members[*place].held};
}

void SimulatedMembers::Process::require_present() const {
  if (!refused_.empty()) throw Failure({Errc::bad_input, text("this process is not let in: ", refused_)});
  if (member_.has_gone(told_to_leave_)) throw Left();
  member_.require_present();
}

void SimulatedMembers::Process::enter() {
  for (;;) {
    place_.wait_until([this] {
      require_present();
      const bool is_spare = member_.view().epoch == 0 && job_.master_.known()->view.epoch > 0 && !member_.next();
      if (is_spare && told_to_leave_) throw Left();
      return has_finished() || member_.next() != nullptr;
    });
    if (has_finished()) throw Left("the job has ended before this process came in");
    const std::shared_ptr<const View> entered = member_.next();
    const View& view = *entered;
    if (!enters_late_ && !view.gives.empty() && view.members[*view.place_of(number())].held == kNoModel) {
      if (ask_for_state(entered)) return;
      continue;
    }
    Gathering& gathering = job_.gathering(view);
    auto part = std::make_unique<Part>(
        job_.cluster_.enter(gathering.world, static_cast<int>(*view.place_of(member_.number()))), place_);
    job_.come(gathering, view, member_.number());
    place_.wait_until([&] {
      require_present();
      return is_over(view) || (gathering.complete && place_.clock().now() >= *gathering.complete);
    });
    if (is_over(view)) continue;
    std::swap(part_, part);
    part_->world.engine().name_ranks(view.names());
    place_.drive_engine(&part_->world.engine(), job_.options_.progress_by);
    if (part != nullptr && given_in_ == nullptr) old_.push_back(std::move(part));
    given_in_ = nullptr;
    member_.enter();
    changing_ = false;
    return;
  }
}

bool SimulatedMembers::Process::ask_for_state(const std::shared_ptr<const View>& view) {
  const auto [giver, within] = asked_givers_.next(*view, number());
  const TimePoint late = place_.clock().now() + within;
  giver_ = giver;
  job_.cluster_.at(late, place(), [&cluster = job_.cluster_, at = place()] { cluster.wake_by(at, cluster.now()); });
  job_.ask(giver, *this);
  place_.wait_until([&] {
    require_present();
    return is_over(*view) || asked_ != nullptr || place_.clock().now() >= late;
  });
  if (is_over(*view) || asked_ == nullptr) return false;
  std::swap(part_, asked_);
  place_.drive_engine(&part_->world.engine(), job_.options_.progress_by);
  asked_ = nullptr;
  given_in_ = view;
  return true;
}

bool SimulatedMembers::Process::begin() {
  if (given_in_ != nullptr) {
    enters_late_ = changing_ = true;
    begin_late();
    return true;
  }
  if (!member_.begin()) return false;
  job_.hear(*this, {.kind = ProcessWords::Kind::begun, .epoch = view().epoch});
  old_.clear();
  return true;
}

bool SimulatedMembers::Process::finish() {
  if (!member_.finish()) return false;
  job_.hear(*this, {.kind = ProcessWords::Kind::done, .epoch = view().epoch});
  place_.wait_until([this] {
    require_present();
    return has_finished() || changing_;
  });
  return has_finished();
}

void SimulatedMembers::Process::leave() {
  if (member_.is_leaving()) return;
  member_.leave();
  job_.hear(*this, {.kind = ProcessWords::Kind::leaving});
}

std::optional<std::uint64_t> SimulatedMembers::Process::take(std::uint64_t batches, std::uint64_t plan) {
  job_.hear(
      *this,
      {.kind = ProcessWords::Kind::take, .batches = batches, .plan = plan, .taken = taken_, .computed = handed_over_});
  place_.wait_until([this] {
    require_present();
    return !batches_.empty();
  });
  const auto batch = batches_.front();
  batches_.pop_front();
  return batch;
}

}  // namespace stretto
