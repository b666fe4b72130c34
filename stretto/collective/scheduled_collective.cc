#include "stretto/collective/scheduled_collective.h"

#include <set>
#include <utility>

#include "stretto/base/error.h"

namespace stretto {
namespace {

constexpr std::uint16_t kShape = kControlChannel;       // to rank 0: this is mine
constexpr std::uint16_t kAgreed = kControlChannel + 1;  // from rank 0: all have the same
constexpr std::uint16_t kFailed = kControlChannel + 2;  // to all: note is code and rank, head the message

std::uint64_t note_of(const Error& error) {
  return static_cast<std::uint64_t>(error.code) << 32 | static_cast<std::uint32_t>(error.rank);
}

Error error_of(std::uint64_t note, std::string message) {
  return {static_cast<Errc>(note >> 32), std::move(message), static_cast<int>(static_cast<std::uint32_t>(note))};
}

}  // namespace

ScheduledCollective::ScheduledCollective(Engine& engine, Schedule schedule, std::string shape)
    : engine_(engine),
      schedule_(std::move(schedule)),
      shape_(schedule_.name() + (shape.empty() ? "" : " of " + shape)),
      compared_(engine.size()) {
  if (schedule_.rank() != engine.rank() || schedule_.ranks() != engine.size()) {
    throw UsageError(text("schedule \"", schedule_.name(), "\" is for rank ", schedule_.rank(), " of ",
                          schedule_.ranks(), "; this is rank ", engine.rank(), " of ", engine.size()));
  }
  if (shape_.size() > kMaxHeadBytes) {
    throw UsageError(text("the shape of \"", schedule_.name(), "\" is described in ", shape_.size(), " bytes; at most ",
                          kMaxHeadBytes, " travel"));
  }
  for (BufferId id = 0; id < schedule_.buffers().size(); ++id) {
    if (schedule_.buffers()[id].role == BufferSpec::Role::given) given_.push_back(id);
  }
  id_ = engine.add(*this);
  // Where some collectives meet in shared memory and others do not, this is where a rank that has made another sees it.
  if (SharedArena* arena = engine.arena()) {
    (void)arena->take(0, shape_);
    regions_ = arena->taken();
  }
}

// ---- the application's thread ----

void ScheduledCollective::check(const std::vector<Argument>& arguments) const {
  if (arguments.size() != given_.size()) {
    throw UsageError(text(shape_, ": ", arguments.size(), " arguments; it has ", given_.size(), " given buffers"));
  }
  for (std::size_t i = 0; i < given_.size(); ++i) {
    const BufferSpec& spec = schedule_.buffers()[given_[i]];
    if (arguments[i].type() != spec.type || arguments[i].count() != spec.count) {
      throw UsageError(text(shape_, ": \"", spec.name, "\" was given ", arguments[i].count(), ' ',
                            name_of(arguments[i].type()), "; expected ", spec.count, ' ', name_of(spec.type)));
    }
  }
}

void ScheduledCollective::start(std::vector<Argument> arguments) {
  check(arguments);
  if (started_ != retired_.load(std::memory_order_acquire)) {
    throw UsageError(text(shape_, ": round ", started_ - 1, " has not finished"));
  }
  arguments_ = std::move(arguments);
  wanted_.store(++started_, std::memory_order_release);
}

Result<bool> ScheduledCollective::finished() const {
  if (retired_.load(std::memory_order_acquire) == started_) return true;
  if (auto why = failure()) return *std::move(why);
  return false;
}

std::optional<Error> ScheduledCollective::failure() const {
  if (!failed_.load(std::memory_order_acquire)) return std::nullopt;
  MutexLock lock(mutex_);
  return failure_;
}

Result<void> ScheduledCollective::run(EngineDriver& driver, TimePoint deadline, std::vector<Argument> arguments) {
  if (auto why = failure()) return *std::move(why);
  if (started_ == retired_.load(std::memory_order_acquire)) {
    start(std::move(arguments));
  } else if (arguments != arguments_) {
    throw UsageError(text(shape_, ": round ", started_ - 1, " has not finished; call again with the same arguments"));
  }
  const TimePoint begun = engine_.clock().now();
  const auto over = [&] {
    return retired_.load(std::memory_order_acquire) == started_ || failed_.load(std::memory_order_acquire);
  };
  if (driver.wait(over, deadline)) {
    const auto result = finished();
    return result.ok() ? Result<void>() : Result<void>(result.error());
  }
  // The second call comes from between two steps: until then somebody else may be driving.
  std::string silent;
  int calls = 0;
  driver.wait([&] { return calls++ > 0 && (silent = silent_peers(begun), true); }, engine_.clock().now());
  return Error{Errc::timeout, text(shape_, ", round ", started_ - 1, ": not complete after ",
                                   seconds(engine_.clock().now() - begun), " s; ", silent)};
}

std::string ScheduledCollective::silent_peers(TimePoint since) const {
  std::set<int> peers;
  if (agreed_) {
    for (const Op& op : schedule_.ops()) {
      if (op.kind == OpKind::recv && engine_.last_heard(op.peer) < since) peers.insert(op.peer);
    }
  } else if (engine_.rank() == 0) {
    for (int peer = 1; peer < engine_.size(); ++peer) {
      if (!compared_.contains(peer)) peers.insert(peer);
    }
  } else {
    return "rank 0 has not heard from every rank yet";
  }
  std::string list;
  for (const int peer : peers) list += text(list.empty() ? "nothing has come from rank " : ", ", peer);
  return list.empty() ? "its neighbours wait, too" : list;
}

// ---- the driving thread ----

bool ScheduledCollective::poll(TimePoint) {
  if (!failed_.load(std::memory_order_relaxed)) go_on();
  return false;  // what it starts are operations
}

void ScheduledCollective::go_on() {
  if (!agreed_ && engine_.arena() != nullptr) {
    if (auto disagreement = engine_.arena()->disagreement(regions_)) return fail(*disagreement, false);
  }
  if (!introduced_) {
    introduced_ = true;
    if (engine_.rank() == 0) {
      compare_shapes(0, shape_);
    } else {
      engine_.send_control(id_, 0, kShape, 0, 0, std::as_bytes(std::span(shape_)));
    }
  }
  if (!agreed_ || opened_ == wanted_.load(std::memory_order_acquire)) return;
  const Round round = opened_++;
  engine_.open(id_, round, schedule_, 0);
  for (std::size_t i = 0; i < given_.size(); ++i) engine_.bind(id_, round, given_[i], arguments_[i].memory());
}

void ScheduledCollective::compare_shapes(int peer, const std::string& shape) {
  if (shape != shape_) {
    return fail({Errc::bad_input,
                 text("rank ", peer, " runs \"", shape, "\" where rank 0 runs \"", shape_,
                      "\"; every rank must make the same collectives in the same order"),
                 peer},
                true);
  }
  compared_.insert(peer);
  if (compared_.full()) agree();
}

void ScheduledCollective::agree() {
  agreed_ = true;
  if (engine_.rank() == 0) tell_others(kAgreed, 0, "");
}

void ScheduledCollective::control(int peer, const Envelope& envelope, std::span<const std::byte> head) {
  const std::string words(reinterpret_cast<const char*>(head.data()), head.size());
  switch (envelope.channel) {
    case kShape: return compare_shapes(peer, words);
    case kAgreed: return agree();
    case kFailed: return fail(error_of(envelope.note, words), false);
    default: STRETTO_CHECK(false, shape_, ": control message ", envelope.channel, " from rank ", peer);
  }
}

bool ScheduledCollective::admit(Round round, const Envelope&) {
  // What a round did not need may come when it is over.
  return !failed_.load(std::memory_order_relaxed) && (round >= opened_ || engine_.is_open(id_, round));
}

bool ScheduledCollective::call(Round, OpId, std::uint32_t hook) {
  on_call_(hook);
  return true;
}

void ScheduledCollective::retired(Round round) {
  retired_.store(round + 1, std::memory_order_release);
}

void ScheduledCollective::lost(int peer, const Error& reason) {
  fail({Errc::lost_peer, text(shape_, ": ", reason.message), peer}, true);
}

void ScheduledCollective::fail(Error error, bool tell) {
  if (failed_.load(std::memory_order_relaxed)) return;
  if (tell) tell_others(kFailed, note_of(error), error.message.substr(0, kMaxHeadBytes));
  {
    MutexLock lock(mutex_);
    failure_ = std::move(error);
  }
  failed_.store(true, std::memory_order_release);
}

void ScheduledCollective::tell_others(std::uint16_t channel, std::uint64_t note, const std::string& words) {
  for (int peer = 0; peer < engine_.size(); ++peer) {
    if (peer != engine_.rank()) engine_.send_control(id_, peer, channel, 0, note, std::as_bytes(std::span(words)));
  }
}

}  // namespace stretto
