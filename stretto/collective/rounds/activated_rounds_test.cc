#include "stretto/collective/rounds/activated_rounds.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "stretto/collective/rounds/round_plans.h"
#include "stretto/collective/testing/thread_job.h"
#include "stretto/schedule/builder.h"

namespace stretto {
namespace {

constexpr int kRanks = 200;
constexpr std::size_t kKept = kKeptPlans;

/// A rank of `kRanks` under majority that hears of rounds and joins them when told to. Its schedules send nothing.
class Rank final : public RoundOwner {
 public:
  explicit Rank(Engine& engine)
      : engine_(engine),
        rounds_(engine, RoundProtocol({1}, kRanks, 1000, PolicyRule(Policy::majority(), kRanks, 7, 0)),
                [this](const Activation& activation) { return make(activation); }) {
    id_ = engine.add(*this);
    rounds_.enroll(id_);
  }
  ~Rank() override { engine_.remove(id_); }

  /// Returns the rank that starts the round.
  int hear_of(Round round) {
    Policy policy = rounds_.protocol().policy();
    if (round > rounds_.protocol().complete()) policy.initiator = static_cast<std::uint32_t>(round);
    EXPECT_TRUE(rounds_.admit(round, {.note = policy.encode()}));
    step();
    return static_cast<int>(policy.initiator);
  }
  void run(Round round) {
    rounds_.protocol().join();
    rounds_.finish_join(round);
    step();
    EXPECT_EQ(retired_, round + 1);
  }

  std::vector<int> made;

 private:
  Schedule make(const Activation& activation) {
    made.push_back(activation.root);
    ScheduleBuilder b("join", 0, 1);
    const OpId internal = b.nop({});
    b.external(internal).label(internal, "internal");
    const OpId join = b.call(kJoinHook, {internal});
    b.label(join, "join");
    return b.build(join);
  }
  void step() {
    while (engine_.step()) {
    }
  }

  bool admit(Round, const Envelope&) override { return false; }
  bool call(Round round, OpId, std::uint32_t) override {
    rounds_.may_be_joined(round);
    return false;
  }
  void completed(Round round) override { rounds_.protocol().round_completed(round, RoundHeader(kRanks)); }
  void retired(Round round) override {
    rounds_.retired(round);
    ++retired_;
  }
  void control(int, const Envelope&, std::span<const std::byte>) override {}
  void lost(int, const Error&) override {}
  void broken(const Error&) override {}
  bool poll(TimePoint) override { return false; }

  Engine& engine_;
  CollectiveId id_ = 0;
  ActivatedRounds rounds_;
  Round retired_ = 0;
};

void as_rank(const std::function<void(Rank&)>& main) {
  run_thread_job(1, [&](Engine& engine) {
    const Engine::Pause pause(engine);
    Rank rank(engine);
    main(rank);
    return true;
  });
}

/// What is made where the `kept` ranks used last are known.
std::vector<int> misses(const std::vector<int>& roots, std::size_t kept) {
  std::vector<int> made, known;  // the one used last stands last
  for (const int root : roots) {
    const auto at = std::ranges::find(known, root);
    if (at == known.end()) {
      made.push_back(root);
      if (known.size() == kept) known.erase(known.begin());
    } else {
      known.erase(at);
    }
    known.push_back(root);
  }
  return made;
}

TEST(ActivatedRounds, KeepsTheSchedulesUsedLast) {
  as_rank([](Rank& rank) {
    std::vector<int> roots;
    for (Round round = 0; round < 1000; ++round) {
      roots.push_back(rank.hear_of(round));
      rank.run(round);
    }
    EXPECT_EQ(rank.made, misses(roots, kKept));
    EXPECT_LT(misses(roots, kRanks).size(), rank.made.size()) << "all ranks fit";
  });
}

TEST(ActivatedRounds, KeepsTheScheduleOfEachRoundThatHasNotRetired) {
  as_rank([](Rank& rank) {
    const Round open = 2 * kKept;
    for (Round round = 0; round < open; ++round) rank.hear_of(round);
    const std::size_t made = rank.made.size();
    EXPECT_GT(made, kKept);
    for (Round round = 0; round < open; ++round) rank.run(round);
    EXPECT_EQ(rank.made.size(), made);
    // The next one that is not known leaves no more than are kept.
    std::vector<int> roots;
    for (Round round = open; round < open + 1000; ++round) {
      roots.push_back(rank.hear_of(round));
      rank.run(round);
    }
    EXPECT_GT(rank.made.size() - made, misses(roots, kRanks).size());
  });
}

}  // namespace
}  // namespace stretto
