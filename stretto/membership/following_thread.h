#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "stretto/membership/changes.h"

namespace stretto {

/// Has a rank be in a world beside that of all by a thread, which waits for views and for the others of that world.
class FollowingThread final : public Following {
 public:
  /// Meets these members, each by its number, in the order of their ranks there. They come by the same `name`, which
  /// may be used again: a member that makes it anew waits for all of them anew. `look` is called about ten times a
  /// second; what it throws passes through, and this rank has not come. Null: another one has been lost on its way, or
  /// has not come; try again.
  using Meet = std::function<std::shared_ptr<World>(const std::string& name, const std::vector<MemberNumber>& members,
                                                    const std::function<void()>& look)>;

  /// `changes` outlives it.
  FollowingThread(Changes& changes, WorldBeside beside, Meet meet);
  ~FollowingThread() override;

  void look() override {}  // the thread does so by itself

 private:
  void follow();

  Changes& changes_;
  const WorldBeside beside_;
  const Meet meet_;
  std::atomic<bool> stops_{false};
  std::thread thread_;
};

}  // namespace stretto
