#pragma once

#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "stretto/base/clock.h"
#include "stretto/membership/changes.h"
#include "stretto/membership/following_thread.h"
#include "stretto/membership/giving_thread.h"
#include "stretto/membership/joined_rank.h"

namespace stretto {

/// The newest view, which the members of a test share.
class MeetingViews {
 public:
  std::shared_ptr<const View> newest(std::uint64_t known, Duration within) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, within, [&] { return view_->epoch != known; });
    return view_;
  }
  void tell(View view) {
    const std::lock_guard lock(mutex_);
    view_ = std::make_shared<const View>(std::move(view));
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::shared_ptr<const View> view_ = std::make_shared<const View>();
};

/// A member that makes worlds with others of this process, and does nothing else.
class MeetingMember final : public Changes {
 public:
  MeetingMember(MeetingViews& views, MemberNumber number) : views_(views), number_(number) {}
  MemberNumber number() const override { return number_; }
  bool some_may_meet() const override { return true; }
  std::shared_ptr<const View> newest_view(std::uint64_t known, Duration within) override {
    return views_.newest(known, within);
  }
  std::unique_ptr<Following> follow(WorldBeside beside) override {
    return std::make_unique<FollowingThread>(*this, std::move(beside), meets());
  }
  std::unique_ptr<Following> follow_comers(std::function<void(std::shared_ptr<World>)> asked) override {
    return std::make_unique<GivingThread>(*this, std::move(asked), meets());
  }
  std::shared_ptr<World> meet(const std::string& name, const std::vector<MemberNumber>& members,
                              const std::function<void()>& look) const {
    const auto me = std::ranges::find(members, number_);
    auto part = join_on_one_host({.rank = static_cast<int>(me - members.begin()),
                                  .ranks = static_cast<int>(members.size()),
                                  .job = text("test ", ::getpid(), ' ', name),
                                  .look = look});
    if (!part) return nullptr;
    const std::shared_ptr<PartOfJob> met = std::move(*part);
    return {met, &met->context().world()};
  }

  const Clock& clock() const override { return clock_; }
  const View& view() const override { return none_; }
  int place() const override { return 0; }
  int most() const override { return 1; }
  void holds(std::function<Holding()>) override {}
  bool changing() const override { return false; }
  void enter() override {}
  bool begin() override { return true; }
  bool finish() override { return true; }
  bool told_to_leave() const override { return false; }
  void leave() override {}
  void require_master() const override {}
  void waits(bool) override {}
  void handed_over(std::uint64_t) override {}
  std::optional<std::uint64_t> take(std::uint64_t, std::uint64_t) override { return std::nullopt; }

 private:
  FollowingThread::Meet meets() const {
    return [this](const auto& name, const auto& members, const auto& look) { return meet(name, members, look); };
  }

  MeetingViews& views_;
  const MemberNumber number_;
  const View none_;
  const SteadyClock clock_;
};

}  // namespace stretto
