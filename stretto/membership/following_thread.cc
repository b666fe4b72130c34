#include "stretto/membership/following_thread.h"

#include <utility>

#include "stretto/base/error.h"
#include "stretto/membership/views/companions.h"
#include "stretto/membership/views/members_in_words.h"

namespace stretto {
namespace {

constexpr Duration kLooksEvery = std::chrono::milliseconds(50);  // at its world, and whether it is to end

/// Thrown by a wait for members that the newest view does not have in this world.
struct AwaitedNoMore {};

}  // namespace

FollowingThread::FollowingThread(Changes& changes, WorldBeside beside, Meet meet)
    : changes_(changes), beside_(std::move(beside)), meet_(std::move(meet)), thread_([this] { follow(); }) {}

FollowingThread::~FollowingThread() {
  stops_.store(true, std::memory_order_release);
  thread_.join();
}

void FollowingThread::follow() {
  Companions companions;
  std::shared_ptr<const View> view = changes_.newest_view(0, kLooksEvery);
  while (!stops_.load(std::memory_order_acquire)) {
    if (companions.want(beside_.members(*view), beside_.is_broken())) beside_.enter(nullptr);
    const std::vector<MemberNumber> awaited = companions.awaited();
    const auto look = [&] {
      view = changes_.newest_view(view->epoch, Duration(0));
      if (stops_.load(std::memory_order_acquire) || beside_.members(*view) != awaited) throw AwaitedNoMore();
    };
    try {
      const auto world =
          awaited.empty() ? nullptr : meet_(text(beside_.name, " of ", members_in_words(awaited)), awaited, look);
      if (world != nullptr) {
        beside_.enter(world);
        companions.met();
        continue;
      }
    } catch (const AwaitedNoMore&) {
      continue;
    } catch (const Failure&) {  // NOLINT(bugprone-empty-catch): memory, or what else a world takes of the host: later
    }
    view = changes_.newest_view(view->epoch, kLooksEvery);
  }
}

}  // namespace stretto
