#include "stretto/collective/base/scheduled_collective.h"

#include <set>
#include <utility>

#include "stretto/base/description.h"
#include "stretto/base/error.h"

namespace stretto {
namespace {

constexpr std::uint16_t kMade = kControlChannel;        // to rank 0: this rank has made the collective
constexpr std::uint16_t kAgreed = kControlChannel + 1;  // from rank 0: all have, and the same one

std::string shape_of(const Schedule& schedule, const std::string& shape) {
  return schedule.name() + (shape.empty() ? "" : " of " + shape);
}

bool needs_all(const Schedule& schedule) {
  for (OpId op = 0; op < schedule.ops().size(); ++op) {
    if (schedule.op(op).need != schedule.num_predecessors(op)) return false;
  }
  return true;
}

}  // namespace

ScheduledCollective::ScheduledCollective(Engine& engine, Schedule schedule, const std::string& shape)
    : CollectiveBase(engine, words_of(shape_of(schedule, shape))),
      schedule_(std::move(schedule)),
      needs_all_(needs_all(schedule_)),
      made_(engine.size()) {
  if (schedule_.rank() != engine.rank() || schedule_.ranks() != engine.size()) {
    throw UsageError(text("schedule \"", schedule_.name(), "\" is for rank ", schedule_.rank(), " of ",
                          schedule_.ranks(), "; this is rank ", engine.rank(), " of ", engine.size()));
  }
  for (BufferId id = 0; id < schedule_.buffers().size(); ++id) {
    if (schedule_.buffers()[id].role == BufferSpec::Role::given) given_.push_back(id);
  }
  const Engine::Pause pause(engine);
  enroll(shape_of(schedule_, shape));
}

ScheduledCollective::~ScheduledCollective() {
  engine_.remove(id_);
}

// ---- the application's thread ----

void ScheduledCollective::check(const std::vector<Argument>& arguments) const {
  if (arguments.size() != given_.size()) {
    throw UsageError(text(name_, ": ", arguments.size(), " arguments; it has ", given_.size(), " given buffers"));
  }
  for (std::size_t i = 0; i < given_.size(); ++i) {
    const BufferSpec& spec = schedule_.buffers()[given_[i]];
    if (arguments[i].type() != spec.type || arguments[i].count() != spec.count) {
      throw UsageError(text(name_, ": \"", spec.name, "\" was given ", arguments[i].count(), ' ',
                            name_of(arguments[i].type()), "; expected ", spec.count, ' ', name_of(spec.type)));
    }
  }
}

void ScheduledCollective::start(std::vector<Argument> arguments) {
  check(arguments);
  if (started_ != retired_.load(std::memory_order_acquire)) {
    throw UsageError(text(name_, ": round ", started_ - 1, " has not finished"));
  }
  arguments_ = std::move(arguments);
  begun_ = engine_.clock().now();
  wanted_.store(++started_, std::memory_order_release);
}

Result<bool> ScheduledCollective::finished() const {
  if (retired_.load(std::memory_order_acquire) == started_) return true;
  if (auto why = failure()) return *std::move(why);
  return false;
}

Result<void> ScheduledCollective::run(Driver& driver, TimePoint deadline, std::vector<Argument> arguments) {
  if (auto why = failure()) return *std::move(why);
  if (engine_.frozen()) return members_changed();
  if (!resumes_ && started_ == retired_.load(std::memory_order_acquire)) {
    start(std::move(arguments));
  } else if (arguments != arguments_) {
    throw UsageError(text(name_, ": round ", started_ - 1, " has not finished; call again with the same arguments"));
  }
  const TimePoint called = engine_.clock().now();
  const auto retired = [&] { return retired_.load(std::memory_order_acquire) == started_; };
  resumes_ = !driver.wait([&] { return retired() || failure_.failed() || engine_.frozen(); }, deadline);
  if (!resumes_) {
    if (!retired() && !failure_.failed()) return members_changed();
    const auto result = finished();
    return result.ok() ? Result<void>() : Result<void>(result.error());
  }
  return Error{Errc::timeout, text(name_, ", round ", started_ - 1, ": not complete after ",
                                   seconds(engine_.clock().now() - called), " s; ", silent_peers(driver))};
}

std::string ScheduledCollective::who_is_missing(Driver& driver, Duration) {
  if (started_ == 0) return name_ + ": no round has been started";
  return text(name_, ", round ", started_ - 1, ": ", silent_peers(driver));
}

std::string ScheduledCollective::silent_peers(Driver& driver) const {
  std::string silent;
  driver.wait_driving([&] { return silent = silent_peers(begun_), true; }, engine_.clock().now());
  return silent;
}

std::string ScheduledCollective::silent_peers(TimePoint since) const {
  std::set<int> peers;
  if (agreed_) {
    for (const Op& op : schedule_.ops()) {
      if (op.kind == OpKind::recv && engine_.last_heard(op.peer) < since) peers.insert(op.peer);
    }
  } else if (engine_.rank() == 0) {
    for (int peer = 1; peer < engine_.size(); ++peer) {
      if (!made_.contains(peer)) peers.insert(peer);
    }
  } else {
    return text(engine_.name_of(0), " has not heard from every rank yet");
  }
  std::string list;
  for (const int peer : peers) list += text(list.empty() ? "nothing has come from " : ", ", engine_.name_of(peer));
  return list.empty() ? "its neighbours wait, too" : list;
}

// ---- the driving thread ----

bool ScheduledCollective::poll(TimePoint) {
  if (failure_.poll()) go_on();
  if (!engine_.liveness().all_here()) look_who_has_left();
  return false;  // it starts operations only
}

void ScheduledCollective::go_on() {
  if (!introduced_) {
    introduced_ = true;
    if (engine_.rank() == 0) {
      made(0);
    } else {
      engine_.send_control(id_, 0, kMade, 0, 0, {});
    }
  }
  if (!agreed_ || opened_ == wanted_.load(std::memory_order_acquire)) return;
  const Round round = opened_++;
  engine_.open(id_, round, schedule_, 0);
  for (std::size_t i = 0; i < given_.size(); ++i) engine_.bind(id_, round, given_[i], arguments_[i].memory());
}

void ScheduledCollective::look_who_has_left() {
  const Round wanted = wanted_.load(std::memory_order_acquire);
  if (failure_.failed() || wanted == retired_.load(std::memory_order_relaxed)) return;
  for (int peer = 0; peer < engine_.size(); ++peer) {
    if (!engine_.liveness().has_left(peer)) continue;
    // Before the ranks agree rank 0 needs all, and the others need rank 0. A round that needs k of n messages may do
    // without those of a rank that has left.
    const bool needed = agreed_ ? needs_all_ && engine_.lacks(id_, wanted - 1, peer)
                                : peer == 0 || (engine_.rank() == 0 && !made_.contains(peer));
    if (needed) return lost(peer, has_left(peer));
  }
}

/// The engine has compared the descriptions.
void ScheduledCollective::made(int peer) {
  made_.insert(peer);
  if (made_.all()) agree();
}

void ScheduledCollective::agree() {
  agreed_ = true;
  if (engine_.rank() != 0) return;
  for (int peer = 1; peer < engine_.size(); ++peer) engine_.send_control(id_, peer, kAgreed, 0, 0, {});
}

bool ScheduledCollective::hear(int peer, const Envelope& envelope, std::span<const std::byte>) {
  if (envelope.channel == kMade) return made(peer), true;
  if (envelope.channel == kAgreed) return agree(), true;
  return false;
}

bool ScheduledCollective::admit(Round round, const Envelope&) {
  // A message that a round did not need may come when it is over.
  return !failure_.failed() && (round >= opened_ || engine_.is_open(id_, round));
}

bool ScheduledCollective::call(Round, OpId, std::uint32_t hook) {
  on_call_(hook);
  return true;
}

void ScheduledCollective::retired(Round round) {
  retired_.store(round + 1, std::memory_order_release);
}

}  // namespace stretto
