#include "stretto/membership/giving_thread.h"

#include <algorithm>
#include <utility>

#include "stretto/base/error.h"
#include "stretto/membership/views/asked_givers.h"

namespace stretto {
namespace {

constexpr Duration kLooksForComersEvery = std::chrono::milliseconds(50);  // and whether it is to end
constexpr Duration kTurn = std::chrono::milliseconds(300);                // for one that comes
constexpr Duration kPause = std::chrono::seconds(1);                      // where nobody has asked for so many turns:
constexpr int kTurnsInVain = 10;

/// Thrown by a wait for one that comes, whose turn is over.
struct TurnIsOver {};

}  // namespace

GivingThread::GivingThread(Changes& changes, std::function<void(std::shared_ptr<World>)> asked,
                           FollowingThread::Meet meet)
    : changes_(changes), asked_(std::move(asked)), meet_(std::move(meet)), thread_([this] { follow(); }) {}

GivingThread::~GivingThread() {
  stops_.store(true, std::memory_order_release);
  thread_.join();
}

void GivingThread::follow() {
  int in_vain = 0;
  std::shared_ptr<const View> view = changes_.newest_view(0, kLooksForComersEvery);
  while (!stops_.load(std::memory_order_acquire)) {
    bool is_asked = false;
    const std::vector<MemberNumber> comers = comers_to(*view, changes_.number());
    for (const MemberNumber comer : comers) is_asked = meet(*view, comer) || is_asked;
    in_vain = is_asked ? 0 : in_vain + 1;
    // One that has come says so to the master alone: this rank goes on looking for it until the next view.
    TimePoint now = changes_.clock().now();
    const TimePoint next = now + (comers.empty() || in_vain < kTurnsInVain ? Duration(0) : kPause);
    const std::uint64_t epoch = view->epoch;
    do {
      view = changes_.newest_view(epoch, comers.empty() || now < next ? kLooksForComersEvery : Duration(0));
      now = changes_.clock().now();
    } while (view->epoch == epoch && now < next && !stops_.load(std::memory_order_acquire));
    if (view->epoch != epoch) in_vain = 0;
  }
}

bool GivingThread::meet(const View& view, MemberNumber comer) {
  const auto look = [&, ends = changes_.clock().now() + kTurn] {
    if (stops_.load(std::memory_order_acquire) || changes_.newest_view(0, Duration(0))->epoch != view.epoch ||
        changes_.clock().now() >= ends) {
      throw TurnIsOver();
    }
  };
  try {
    const auto world = meet_(name_of_asking(comer, changes_.number()), {comer, changes_.number()}, look);
    if (world != nullptr) asked_(world);
    return world != nullptr;
  } catch (const TurnIsOver&) {
  } catch (const Failure&) {  // NOLINT(bugprone-empty-catch): memory, or what else a world takes of the host: later
  }
  return false;
}

}  // namespace stretto
