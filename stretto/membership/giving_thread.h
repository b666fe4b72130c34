#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <thread>

#include "stretto/membership/changes.h"
#include "stretto/membership/following_thread.h"

namespace stretto {

/// Changes::follow_comers() by a thread, which meets those that come, in turns where several do.
class GivingThread final : public Following {
 public:
  /// `changes` outlives it.
  GivingThread(Changes& changes, std::function<void(std::shared_ptr<World>)> asked, FollowingThread::Meet meet);
  ~GivingThread() override;

  void look() override {}  // the thread does so by itself

 private:
  void follow();
  /// Returns whether the one that comes has asked.
  bool meet(const View& view, MemberNumber comer);

  Changes& changes_;
  const std::function<void(std::shared_ptr<World>)> asked_;
  const FollowingThread::Meet meet_;
  std::atomic<bool> stops_{false};
  std::thread thread_;
};

}  // namespace stretto
