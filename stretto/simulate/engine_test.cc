// The engine, judged over the simulated transport: counting, consumability, early messages, timers, many at once.

#include "stretto/engine/engine.h"

#include <gtest/gtest.h>

#include <deque>
#include <memory>

#include "stretto/base/description.h"
#include "stretto/schedule/builder.h"
#include "stretto/simulate/cluster.h"

namespace stretto {
namespace {

using namespace std::chrono_literals;

/// Opens rounds when told to, binds one int64 buffer "x" per round, and takes everything down.
class Owner final : public RoundOwner {
 public:
  Owner(Engine& engine, Schedule schedule) : engine_(engine), schedule_(std::move(schedule)) { id = engine.add(*this); }

  void open(Round round) {
    while (values.size() <= round) values.push_back(0);
    engine_.open(id, round, schedule_, 0);
    if (!schedule_.buffers().empty()) {
      engine_.bind(id, round, 0, {reinterpret_cast<std::byte*>(&values[round]), true});
    }
  }
  const Schedule& schedule() const { return schedule_; }

  bool admit(Round, const Envelope&) override { return true; }
  bool call(Round, OpId op, std::uint32_t hook) override {
    calls.push_back(hook);
    last_call = op;
    called_at = engine_.clock().now();
    return !hold_calls;
  }
  void completed(Round round) override { completions.push_back(round); }
  void retired(Round round) override { retirements.push_back(round); }
  void control(int peer, const Envelope& envelope, std::span<const std::byte>) override {
    controls.emplace_back(peer, envelope.note);
  }
  void lost(int, const Error&) override {}
  void broken(const Error& reason) override { mistakes.push_back(reason); }
  bool poll(TimePoint) override { return false; }

  CollectiveId id = 0;
  std::deque<std::int64_t> values;  // by round; never moves
  std::vector<std::uint32_t> calls;
  std::vector<Round> completions, retirements;
  std::vector<std::pair<int, std::uint64_t>> controls;
  std::vector<Error> mistakes;
  OpId last_call = 0;
  TimePoint called_at;
  bool hold_calls = false;

 private:
  Engine& engine_;
  Schedule schedule_;
};

struct Ranks {
  explicit Ranks(int count, NetworkOptions network = {.jitter = 20us}, std::uint64_t seed = 1)
      : cluster(count, network, seed) {
    for (int rank = 0; rank < count; ++rank) {
      engines.push_back(std::make_unique<Engine>(cluster.transport(rank), cluster.clock()));
      cluster.on_wake(rank, [this, rank] { step(rank); });
    }
  }
  void step(int rank) {
    Engine& engine = *engines[static_cast<std::size_t>(rank)];
    while (engine.step()) {
    }
    cluster.wake_by(rank, engine.step_by());
  }
  void run() {
    for (int rank = 0; rank < cluster.size(); ++rank) step(rank);
    while (cluster.run_next()) {
    }
  }
  SimulatedCluster cluster;
  std::vector<std::unique_ptr<Engine>> engines;
};

/// Both ranks send theirs and add the other's.
Schedule pair_sum(int rank) {
  ScheduleBuilder b("pair", rank, 2);
  const auto x = b.buffer("x", DataType::int64, 1);
  const auto theirs = b.scratch("theirs", DataType::int64, 1);
  const auto sent = b.send(1 - rank, 0, b.whole(x), {});
  const auto came = b.recv(1 - rank, 0, b.whole(theirs), {});
  return b.build(b.reduce(b.whole(x), b.whole(theirs), ReduceOp::sum, {sent, came}));
}

TEST(Engine, RunsManyRoundsAndCollectivesAtOnceAndKeepsEarlyMessages) {
  Ranks ranks(2);
  std::vector<std::unique_ptr<Owner>> owners;
  for (int i = 0; i < 4; ++i) owners.push_back(std::make_unique<Owner>(*ranks.engines[i % 2], pair_sum(i % 2)));
  // Rank 1 opens its rounds only when everything of rank 0 has come.
  for (Round round = 0; round < 20; ++round) {
    for (int i : {0, 2}) {
      owners[i]->open(round);
      owners[i]->values[round] = 100 + static_cast<std::int64_t>(round);
    }
  }
  ranks.run();
  EXPECT_TRUE(owners[0]->completions.empty());
  for (Round round = 20; round-- > 0;) {
    for (int i : {1, 3}) {
      owners[i]->open(round);
      owners[i]->values[round] = i;
    }
  }
  ranks.run();
  for (int i = 0; i < 4; ++i) {
    ASSERT_EQ(owners[i]->completions.size(), 20u);
    ASSERT_EQ(owners[i]->retirements.size(), 20u);
    for (Round round = 0; round < 20; ++round) {
      EXPECT_EQ(owners[i]->values[round], 100 + static_cast<std::int64_t>(round) + (i < 2 ? 1 : 3));
    }
  }
}

TEST(Engine, CountsWhatItSends) {
  Ranks ranks(2);
  Owner first(*ranks.engines[0], pair_sum(0)), second(*ranks.engines[1], pair_sum(1));
  for (Owner* owner : {&first, &second}) owner->open(0);
  ranks.run();
  const Traffic sum = ranks.engines[0]->traffic();
  // Each has told the other that it has made the collective.
  EXPECT_EQ(sum, (Traffic{.messages = 2, .body_bytes = 8, .bytes = 2 * sizeof(Envelope) + 8}));
  EXPECT_EQ(ranks.engines[1]->traffic(), sum);
  const std::byte head[24] = {};
  ranks.engines[0]->send_control(first.id, 1, kControlChannel + 3, 0, 77, head);
  EXPECT_EQ(ranks.engines[0]->traffic().since(sum), (Traffic{.messages = 1, .bytes = sizeof(Envelope) + 24}));
  ranks.run();
  EXPECT_EQ(ranks.engines[1]->traffic(), sum);
}

TEST(Engine, KeepsMessagesOfCollectivesThatAreRegisteredLater) {
  Ranks ranks(2);
  Owner first(*ranks.engines[0], pair_sum(0));
  first.open(0);
  first.values[0] = 1;
  ranks.engines[0]->send_control(first.id, 1, kControlChannel + 3, 0, 77, {});
  ranks.run();
  Owner second(*ranks.engines[1], pair_sum(1));
  second.open(0);
  second.values[0] = 2;
  ranks.run();
  EXPECT_EQ(first.values[0], 3);
  EXPECT_EQ(second.values[0], 3);
  EXPECT_EQ(second.controls, (std::vector<std::pair<int, std::uint64_t>>{{0, 77}}));
}

TEST(Engine, NeedCountsPredecessorsAndAnOperationFiresOnce) {
  for (int need = 1; need <= 3; ++need) {
    Ranks ranks(1);
    ScheduleBuilder b("need", 0, 1);
    const auto d1 = b.delay(1ms, {});
    const auto d2 = b.delay(2ms, {});
    const auto d3 = b.delay(3ms, {});
    const auto call = b.call(9, {d1, d2, d3});
    b.need(call, Need::count(need));
    const auto all = b.nop({d1, d2, d3});
    Owner owner(*ranks.engines[0], b.build(all));
    owner.open(0);
    ranks.run();
    EXPECT_EQ(owner.calls.size(), 1u);
    EXPECT_EQ(owner.called_at.since_start, need * 1ms);
    EXPECT_EQ(owner.completions.size(), 1u);
  }
}

TEST(Engine, AnExternalOperationWaitsForItsTriggerWhichCountsOnce) {
  Ranks ranks(1);
  ScheduleBuilder b("external", 0, 1);
  const auto start = b.nop({});
  b.external(start);
  const auto call = b.call(1, {start});
  Owner owner(*ranks.engines[0], b.build(call));
  owner.open(0);
  ranks.run();
  EXPECT_TRUE(owner.calls.empty());
  ranks.engines[0]->trigger(owner.id, 0, start);
  ranks.engines[0]->trigger(owner.id, 0, start);
  ranks.run();
  EXPECT_EQ(owner.calls.size(), 1u);
  EXPECT_EQ(owner.completions.size(), 1u);
}

TEST(Engine, ACallMayCompleteLater) {
  Ranks ranks(1);
  ScheduleBuilder b("later", 0, 1);
  const auto call = b.call(1, {});
  Owner owner(*ranks.engines[0], b.build(b.nop({call})));
  owner.hold_calls = true;
  owner.open(0);
  ranks.run();
  EXPECT_TRUE(owner.completions.empty());
  ranks.engines[0]->finish(owner.id, 0, owner.last_call);
  ranks.run();
  EXPECT_EQ(owner.completions.size(), 1u);
}

TEST(Engine, WhatLiesWhereAForgottenScheduleLayIsPreparedAnew) {
  Ranks ranks(1);
  const auto calls = [](int count) {
    ScheduleBuilder b("calls", 0, 1);
    OpId last = b.nop({});
    for (int i = 0; i < count; ++i) last = b.call(static_cast<std::uint32_t>(i), {last});
    return b.build(last);
  };
  Schedule place = calls(1);
  Owner owner(*ranks.engines[0], place);
  for (const int count : {1, 3, 2}) {
    place = calls(count);
    owner.calls.clear();
    ranks.engines[0]->open(owner.id, static_cast<Round>(count), place, 0);
    ranks.run();
    EXPECT_EQ(owner.retirements.back(), static_cast<Round>(count));
    EXPECT_EQ(owner.calls.size(), static_cast<std::size_t>(count));
    ranks.engines[0]->forget(owner.id, place);
  }
  ranks.engines[0]->forget(owner.id, place);  // twice does nothing
}

TEST(Engine, EmptyBuffersTravelAsHeadersAlone) {
  Ranks ranks(2);
  Owner left(*ranks.engines[0], pair_sum(0));
  Owner right(*ranks.engines[1], pair_sum(1));
  left.open(0);
  right.open(0);
  left.values[0] = 42;
  ranks.engines[1]->bind(right.id, 0, 0, {reinterpret_cast<std::byte*>(&right.values[0]), false});
  ranks.run();
  EXPECT_EQ(left.values[0], 42) << "an empty source changes nothing";
  EXPECT_EQ(right.values[0], 42) << "an empty destination takes what comes";
}

TEST(Engine, RunsPayloadsWithoutBytes) {
  Ranks ranks(2, {.payload = false});
  Owner left(*ranks.engines[0], pair_sum(0));
  Owner right(*ranks.engines[1], pair_sum(1));
  for (Owner* owner : {&left, &right}) owner->open(0);
  ranks.engines[0]->bind(left.id, 0, 0, {nullptr, true});
  ranks.engines[1]->bind(right.id, 0, 0, {nullptr, true});
  ranks.run();
  EXPECT_EQ(left.completions.size(), 1u);
  EXPECT_EQ(right.completions.size(), 1u);
}

/// A collective that runs no schedules.
class Client final : public EngineClient {
 public:
  explicit Client(Engine& engine) { id = engine.add(*this); }
  bool poll(TimePoint) override { return false; }
  void control(int peer, const Envelope& envelope, std::span<const std::byte>) override {
    controls.emplace_back(peer, envelope.note);
  }
  void lost(int, const Error&) override {}
  void broken(const Error& reason) override { mistakes.push_back(reason); }

  CollectiveId id = 0;
  std::vector<std::pair<int, std::uint64_t>> controls;
  std::vector<Error> mistakes;
};

TEST(Engine, AClientWithoutSchedulesTakesControlMessagesAlone) {
  Ranks ranks(2);
  Client client(*ranks.engines[0]);
  Owner other(*ranks.engines[1], pair_sum(1));
  ranks.engines[1]->send_control(other.id, 0, kControlChannel, 0, 5, {});
  ranks.run();
  EXPECT_EQ(client.controls, (std::vector<std::pair<int, std::uint64_t>>{{1, 5}}));
  EXPECT_TRUE(client.mistakes.empty());
  other.open(0);
  ranks.run();
  ASSERT_EQ(client.mistakes.size(), 1u);
  EXPECT_EQ(client.mistakes[0].code, Errc::bad_input);
  EXPECT_EQ(client.mistakes[0].rank, 1);
}

/// More operations than 16 bits can number, and the sends among the last of them.
TEST(Engine, RunsAScheduleOfMoreThan65535Operations) {
  constexpr int kIdle = 70'000;
  const auto schedule = [](int rank) {
    ScheduleBuilder b("long", rank, 2);
    const auto x = b.buffer("x", DataType::int64, 1);
    const auto theirs = b.scratch("theirs", DataType::int64, 1);
    OpId last = b.nop({});
    for (int i = 1; i < kIdle; ++i) last = b.nop({last});
    for (int channel = 0; channel < 3; ++channel) {
      const auto sent = b.send(1 - rank, channel, b.whole(x), {last});
      const auto came = b.recv(1 - rank, channel, b.whole(theirs), {last});
      last = b.reduce(b.whole(x), b.whole(theirs), ReduceOp::sum, {sent, came});
    }
    return b.build(last);
  };
  Ranks ranks(2);
  Owner left(*ranks.engines[0], schedule(0));
  Owner right(*ranks.engines[1], schedule(1));
  for (Round round = 0; round < 3; ++round) {
    left.open(round);
    right.open(round);
    left.values[round] = 1;
    right.values[round] = 10 + static_cast<std::int64_t>(round);
    ranks.run();
    ASSERT_EQ(left.retirements.size(), round + 1);
    EXPECT_EQ(left.values[round], 4 * (11 + static_cast<std::int64_t>(round)));
    EXPECT_EQ(right.values[round], left.values[round]);
  }
}

/// Runs one round in which rank 1's schedule is another, and returns the error of rank 0.
std::vector<Error> mistakes_of(const Schedule& mine, const Schedule& theirs) {
  Ranks ranks(2);
  Owner left(*ranks.engines[0], mine);
  Owner right(*ranks.engines[1], theirs);
  left.open(0);
  right.open(0);
  ranks.run();
  EXPECT_TRUE(left.completions.empty());
  return left.mistakes;
}

TEST(Engine, AMessageThatDoesNotFitIsThePeersMistakeAndNoAbort) {
  const auto schedule = [](int rank, int channel, std::uint64_t count, bool with_header) {
    ScheduleBuilder b("one way", rank, 2);
    const auto x = b.buffer("x", DataType::int64, 1);
    const auto more = b.scratch("more", DataType::int64, 2);
    const Slice slice{count == 1 ? x : more, 0, count};
    if (rank == 0) {
      const OpId got = b.recv(1, channel, slice, {});
      if (with_header) b.with_header(got);
      return b.build(got);
    }
    const OpId filled = count == 1 ? kNoOp : b.copy({more, 0, 1}, b.whole(x), {});
    const OpId sent = b.send(0, channel, slice, {filled});
    if (with_header) b.with_header(sent);
    return b.build(sent);
  };
  const Schedule mine = schedule(0, 3, 1, false);
  const auto says = [](const std::vector<Error>& mistakes, const std::string& what) {
    ASSERT_EQ(mistakes.size(), 1u);
    EXPECT_EQ(mistakes[0].code, Errc::bad_input);
    EXPECT_EQ(mistakes[0].rank, 1);
    EXPECT_EQ(mistakes[0].message, "rank 1 has sent a message of round 0 on channel " + what +
                                       ". Every rank must make the same collectives in the same order, of schedules "
                                       "that validate() (schedule/validate.h) finds to belong together");
  };
  says(mistakes_of(mine, schedule(1, 4, 1, false)), "4 that does not fit: no operation here receives it");
  says(mistakes_of(mine, schedule(1, 3, 2, false)), "3 that does not fit: it has 16 bytes, and 8 are received here");
  says(mistakes_of(schedule(0, 3, 1, true), schedule(1, 3, 1, false)), "3 that does not fit: its header is none");
}

TEST(Engine, ASecondMessageForOneReceiveIsThePeersMistake) {
  Ranks ranks(2);
  ScheduleBuilder b("both", 0, 2);
  const auto x = b.buffer("x", DataType::int64, 1);
  const auto never = b.nop({});
  b.external(never);
  Owner owner(*ranks.engines[0], b.build(b.nop({b.recv(1, 0, b.whole(x), {}), never})));
  owner.open(0);
  const std::int64_t value = 5;
  const Envelope envelope{.description = hash_of(""), .round = 0, .collective = owner.id, .channel = 0};
  for (int i = 0; i < 2; ++i) {
    ranks.cluster.transport(1).send(0, envelope, {}, std::as_bytes(std::span(&value, 1)), kNoToken);
  }
  while (ranks.cluster.run_next()) {
  }
  ASSERT_EQ(owner.mistakes.size(), 1u);
  EXPECT_EQ(owner.mistakes[0].rank, 1);
  EXPECT_NE(owner.mistakes[0].message.find("it is the second one"), std::string::npos);
}

/// A peer may be ahead, but not without end: by messages, and by bytes.
TEST(Engine, APeerThatIsTooFarAheadIsNamed) {
  const std::int64_t value = 5;
  const auto body = std::as_bytes(std::span(&value, 1));
  for (const InboxLimits limits : {InboxLimits{.messages = 10, .bytes = 1000}, InboxLimits{.bytes = 10 * 8 + 7}}) {
    SimulatedCluster cluster(2, {}, 1);
    Engine engine(cluster.transport(0), cluster.clock(), limits);
    cluster.on_wake(0, [&] { engine.step(); });
    Owner known(engine, pair_sum(0));
    const auto send = [&](CollectiveId id, Round round) {
      cluster.transport(1).send(0, {.description = hash_of(""), .round = round, .collective = id, .channel = 0}, {},
                                body, kNoToken);
      while (cluster.run_next()) {
      }
    };
    for (Round round = 0; round < 10; ++round) send(known.id, round);
    EXPECT_TRUE(known.mistakes.empty());
    known.open(0);  // which makes room for one
    send(known.id, 10);
    EXPECT_TRUE(known.mistakes.empty());
    send(known.id, 11);
    ASSERT_EQ(known.mistakes.size(), 1u);
    EXPECT_EQ(known.mistakes[0].code, Errc::bad_input);
    EXPECT_EQ(known.mistakes[0].rank, 1);
    EXPECT_NE(known.mistakes[0].message.find("rank 1 is too far ahead"), std::string::npos);
    send(known.id + 1, 0);
    EXPECT_EQ(known.mistakes.size(), 2u) << "messages for a collective that nobody knows are told to all";
    Owner later(engine, pair_sum(0));
    engine.step();
    EXPECT_EQ(later.mistakes.size(), 1u);
  }
}

/// Nothing is taken any more, and nothing is due, though a delay has passed.
TEST(Engine, StepsNoMoreOnceItIsFrozen) {
  Ranks ranks(1);
  Engine& engine = *ranks.engines[0];
  ScheduleBuilder b("frozen", 0, 1);
  Owner owner(engine, b.build(b.delay(5us, {})));
  owner.open(0);
  engine.step();
  ASSERT_NE(engine.step_by(), TimePoint::never());
  ranks.cluster.wake_by(0, engine.step_by());
  EXPECT_FALSE(engine.frozen());
  engine.freeze();
  engine.freeze();
  EXPECT_TRUE(engine.frozen());
  EXPECT_EQ(engine.step_by(), TimePoint::never());
  ranks.run();
  EXPECT_FALSE(engine.step());
  EXPECT_TRUE(owner.completions.empty());
}

}  // namespace
}  // namespace stretto
