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
  /// `changes` outlives it. Requires: Changes::meet().
  FollowingThread(Changes& changes, WorldBeside beside);
  ~FollowingThread() override;

  void look() override {}  // the thread does so by itself

 private:
  void follow();

  Changes& changes_;
  const WorldBeside beside_;
  std::atomic<bool> stops_{false};
  std::thread thread_;
};

}  // namespace stretto
