#include "stretto/train/job/members/state_giver.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <span>
#include <utility>

#include "stretto/base/error.h"
#include "stretto/collective/plain.h"

namespace stretto {
namespace {

constexpr Duration kLooksForComers = std::chrono::milliseconds(50);  // at the newest view
constexpr Duration kTurn = std::chrono::milliseconds(300);           // for one that comes, where several do
constexpr Duration kToSend = std::chrono::minutes(5);
constexpr std::size_t kMostTexts = 15;
constexpr std::size_t kBytesOfPiece = std::size_t{1} << 20;

/// Thrown by a wait for one that comes, whose turn is over.
struct TurnIsOver {};

/// Sends texts from rank 0 of a world of two to rank 1, which has the same.
class StatePieces {
 public:
  explicit StatePieces(Engine& engine)
      : lengths_(engine, DataType::int64, kMostTexts + 1),
        piece_(engine, DataType::int32, piece_words_.size()),
        over_(engine) {}

  /// `state`: to be sent, on rank 0.
  GivenState exchange(Driver& driver, GivenState state, bool gives, TimePoint begin_by) {
    STRETTO_CHECK(state.size() <= kMostTexts, state.size(), " texts");
    mine_[0] = static_cast<std::int64_t>(state.size());
    for (std::size_t i = 0; i < state.size(); ++i) mine_[i + 1] = static_cast<std::int64_t>(state[i].size());
    lengths_.run(driver, begin_by, mine_, all_).or_throw();
    if (!gives) state.resize(static_cast<std::size_t>(all_[0]));
    const TimePoint late = driver.deadline(kToSend);
    for (std::size_t i = 0; i < state.size(); ++i) {
      std::string& text = state[i];
      if (!gives) text.resize(static_cast<std::size_t>(all_[i + 1]));
      for (std::size_t at = 0; at < text.size(); at += kBytesOfPiece) {
        const std::size_t bytes = std::min(kBytesOfPiece, text.size() - at);
        if (gives) std::memcpy(piece_words_.data(), text.data() + at, bytes);
        piece_.run(driver, late, piece_words_).or_throw();
        if (!gives) std::memcpy(text.data() + at, piece_words_.data(), bytes);
      }
    }
    over_.run(driver, late).or_throw();
    return state;
  }

 private:
  std::vector<std::int32_t> piece_words_ = std::vector<std::int32_t>(kBytesOfPiece / sizeof(std::int32_t));
  Allgather lengths_;
  Broadcast piece_;
  Barrier over_;
  std::array<std::int64_t, kMostTexts + 1> mine_{};
  std::array<std::int64_t, 2 * (kMostTexts + 1)> all_{};
};

GivenState exchange_state(World& world, Driver& driver, GivenState state, Duration within) {
  const auto pieces = std::make_shared<StatePieces>(world.engine());
  world.keep(pieces);  // the engine may use it where this is cut off
  return pieces->exchange(driver, std::move(state), world.rank() == 0, driver.deadline(within));
}

}  // namespace

GivenState receive_state(World& world, Driver& driver, Duration within) {
  return exchange_state(world, driver, {}, within);
}

StateGiver::StateGiver(Changes& changes) : changes_(changes), thread_([this] { follow(); }) {}

StateGiver::~StateGiver() {
  stops_.store(true, std::memory_order_release);
  handed_over_.notify_all();
  thread_.join();
}

void StateGiver::hand_over(GivenState state, bool stays) {
  const std::lock_guard lock(mutex_);
  state_ = std::move(state);
  stays_ = stays;
  handed_over_.notify_all();
}

void StateGiver::goes_on(std::uint64_t begun) {
  begun_.store(std::max(begun_.load(), begun), std::memory_order_relaxed);
  const std::lock_guard lock(mutex_);
  stays_ = false;
  state_.reset();
}

void StateGiver::follow() {
  std::shared_ptr<const View> view = changes_.newest_view(0, kLooksForComers);
  while (!stops_.load(std::memory_order_acquire)) {
    bool found = false;
    for (const PlacedMember& member : view->members) {
      if (member.held != kNoModel || given_.contains(member.number)) continue;
      if (view->epoch <= begun_.load(std::memory_order_relaxed)) continue;
      const std::vector<MemberNumber> givers = view->givers_for(member.number);
      if (std::ranges::find(givers, changes_.number()) == givers.end()) continue;
      found = true;
      give_to(member.number);
    }
    view = changes_.newest_view(found ? 0 : view->epoch, found ? Duration(0) : kLooksForComers);
  }
}

bool StateGiver::waits(MemberNumber comer) {
  if (stops_.load(std::memory_order_acquire)) return false;
  const auto view = changes_.newest_view(0, Duration(0));
  const auto place = view->place_of(comer);
  return place && view->members[*place].held == kNoModel;
}

std::optional<GivenState> StateGiver::wait_for_state(MemberNumber comer) {
  std::unique_lock lock(mutex_);
  if (!stays_) {
    state_.reset();
    asked_.store(true, std::memory_order_release);
  }
  while (!state_) {
    handed_over_.wait_for(lock, kLooksForComers);
    lock.unlock();
    const bool goes_on = waits(comer);
    lock.lock();
    if (!goes_on) break;
  }
  asked_.store(false, std::memory_order_release);
  std::optional<GivenState> state = state_;
  if (!stays_) state_.reset();
  return state;
}

void StateGiver::give_to(MemberNumber comer) {
  const SteadyClock clock;
  const TimePoint turn_ends = clock.now() + kTurn;
  try {
    const auto look = [&] {
      if (!waits(comer) || clock.now() >= turn_ends) throw TurnIsOver();
    };
    const auto world = changes_.meet(name_of_giving(changes_.number(), comer), {changes_.number(), comer}, look);
    if (world == nullptr) return;
    std::optional<GivenState> state = wait_for_state(comer);
    if (!state) return;
    InterruptibleDriver driver(world->driver(), [&] {
      if (!waits(comer)) throw TurnIsOver();
    });
    (void)exchange_state(*world, driver, *std::move(state), kToSend);
    given_.insert(comer);
  } catch (const TurnIsOver&) {
  } catch (const Failure&) {  // the one that comes is lost, or asks another member by now
  }
}

}  // namespace stretto
