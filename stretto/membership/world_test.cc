#include "stretto/membership/world.h"

#include <gtest/gtest.h>

#include <atomic>

#include "stretto/base/error.h"
#include "stretto/transport/testing/thread_ranks.h"

namespace stretto {
namespace {

using namespace std::chrono_literals;

// Sends one control message to every peer and counts what comes.
class Greeter final : public RoundOwner {
 public:
  explicit Greeter(Engine& engine) : engine_(engine) {
    const Engine::Pause pause(engine);
    id_ = engine.add(*this);
  }
  ~Greeter() override { engine_.remove(id_); }

  bool admit(Round, const Envelope&) override { return false; }
  bool call(Round, OpId, std::uint32_t) override { return true; }
  void completed(Round) override {}
  void retired(Round) override {}
  void control(int, const Envelope& envelope, std::span<const std::byte>) override {
    if (envelope.note == id_) greeted_.fetch_add(1);
  }
  void lost(int, const Error&) override {}
  void broken(const Error& reason) override { FAIL() << reason.message; }
  bool poll(TimePoint) override {
    if (said_) return false;
    said_ = true;
    for (int peer = 0; peer < engine_.size(); ++peer) {
      if (peer != engine_.rank()) engine_.send_control(id_, peer, kControlChannel, 0, id_, {});
    }
    return true;
  }

  bool done() const { return greeted_.load() == engine_.size() - 1; }

 private:
  Engine& engine_;
  CollectiveId id_ = 0;
  bool said_ = false;  // the driving thread's
  std::atomic<int> greeted_{0};
};

void run_ranks(int ranks, const std::function<void(World&)>& main) {
  run_thread_ranks(ranks, [&main](Transport& transport, const Clock& clock) {
    World world(transport, clock);
    main(world);
    return true;
  });
}

TEST(World, CollectivesAreMadeAndDroppedWhileAThreadDrives) {
  run_ranks(3, [](World& world) {
    Driver& driver = world.driver();
    Greeter first(world.engine());
    for (int i = 0; i < 200; ++i) {
      Greeter second(world.engine());
      ASSERT_TRUE(driver.wait([&] { return second.done(); }, driver.deadline(60s))) << "collective " << i;
    }
    ASSERT_TRUE(driver.wait([&] { return first.done(); }, driver.deadline(60s)));
  });
}

TEST(World, ACollectiveMadeOutsideAPauseIsRefused) {
  run_ranks(1, [](World& world) {
    Greeter owner(world.engine());
    world.driver();
    EXPECT_THROW(world.engine().add(owner), UsageError);
  });
}

TEST(World, IsDrivenInOneWay) {
  run_ranks(1, [](World& world) {
    EXPECT_EQ(&world.driver(ProgressBy::application), &world.driver(ProgressBy::application));
    EXPECT_THROW(world.driver(ProgressBy::thread), UsageError);
  });
}

}  // namespace
}  // namespace stretto
