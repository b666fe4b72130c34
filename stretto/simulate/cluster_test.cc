#include "stretto/simulate/cluster.h"

#include <gtest/gtest.h>

#include <array>
#include <map>

namespace stretto {
namespace {

using namespace std::chrono_literals;

/// Takes messages down as (peer, round).
class Inbox final : public MessageSink {
 public:
  std::byte* begin(int peer, const Envelope& envelope, std::span<const std::byte>) override {
    messages.emplace_back(peer, envelope.round);
    body.resize(envelope.body_bytes);
    return body.data();
  }
  void end(int) override {}
  void sent(SendToken token) override { completed.push_back(token); }
  void lost(int peer, const Error&) override { losses.push_back(peer); }

  std::vector<std::pair<int, Round>> messages;
  std::vector<std::byte> body;
  std::vector<SendToken> completed;
  std::vector<int> losses;
};

struct Harness {
  Harness(int ranks, NetworkOptions network, std::uint64_t seed = 1) : cluster(ranks, network, seed), inboxes(ranks) {
    for (int rank = 0; rank < ranks; ++rank) {
      cluster.on_wake(rank, [this, rank] { cluster.transport(rank).poll(inboxes[static_cast<std::size_t>(rank)]); });
    }
  }
  void send(int src, int dst, Round round, std::span<const std::byte> body = {}, SendToken token = kNoToken) {
    cluster.transport(src).send(dst, {.round = round}, {}, body, token);
  }
  void run() {
    while (cluster.run_next()) {
    }
  }
  SimulatedCluster cluster;
  std::vector<Inbox> inboxes;
};

TEST(SimulatedCluster, EndsWithMessagesThatNobodyHasTaken) {
  SimulatedCluster cluster(2, {.pieces = 8}, 1);
  std::array<std::byte, 64> body{};
  for (SendToken token = 0; token < 20; ++token) cluster.transport(0).send(1, {}, {}, body, token);
  while (cluster.run_next()) {  // pieces of one message lie in the inbox together
  }
}

TEST(SimulatedCluster, KeepsTheOrderOfAPairAndLetsPairsOvertake) {
  Harness h(3, {.jitter = 100us}, 3);
  for (Round i = 0; i < 100; ++i) {
    h.send(0, 2, i);
    h.send(1, 2, i);
  }
  h.run();
  std::map<int, Round> next;
  bool overtaken = false;
  for (const auto& [peer, round] : h.inboxes[2].messages) {
    EXPECT_EQ(round, next[peer]++);
    overtaken |= next[0] + 1 < next[1] || next[1] + 1 < next[0];
  }
  EXPECT_EQ(next[0], 100u);
  EXPECT_TRUE(overtaken);
}

TEST(SimulatedCluster, TakesTheTimeThatLogGpSays) {
  Harness h(2, {.latency = 10us, .overhead = 1us, .bytes_per_second = 1e9});
  std::vector<std::byte> body(1'000'000);
  h.send(0, 1, 0, body, 7);
  h.run();
  const auto expected = 1us + 10us + 1ms;
  EXPECT_NEAR(seconds(h.cluster.now().since_start), seconds(expected), 1e-6);
  EXPECT_EQ(h.inboxes[0].completed, std::vector<SendToken>{7});
}

TEST(SimulatedCluster, ReadsTheBodyWhenItIsDelivered) {
  Harness h(2, {});
  std::vector<std::byte> body(1, std::byte{1});
  h.send(0, 1, 0, body, 0);
  body[0] = std::byte{2};
  h.run();
  EXPECT_EQ(h.inboxes[1].body[0], std::byte{2}) << "whoever writes before sent() is found out";
}

TEST(SimulatedCluster, AnEagerBodyIsTheSendersAgainAtOnce) {
  Harness h(2, {.eager_bytes = 2});
  std::vector<std::byte> small(2, std::byte{1}), large(3, std::byte{1});
  h.send(0, 1, 0, small, 5);
  h.send(0, 1, 1, large, 6);
  EXPECT_EQ(h.cluster.transport(0).poll_by(), TimePoint{});
  EXPECT_TRUE(h.cluster.transport(0).poll(h.inboxes[0]));
  EXPECT_EQ(h.inboxes[0].completed, std::vector<SendToken>{5});
  small.assign(2, std::byte{2});
  ASSERT_TRUE(h.cluster.run_next());
  EXPECT_EQ(h.inboxes[1].body, std::vector<std::byte>(2, std::byte{1}));
  h.run();
  EXPECT_EQ(h.inboxes[0].completed, (std::vector<SendToken>{5, 6}));
}

TEST(SimulatedCluster, SlowsALinkInOneDirection) {
  Harness h(2, {.latency = 10us, .overhead = 0ns});
  h.cluster.slow_link(0, 1, 100);
  h.send(1, 0, 0);
  h.run();
  const TimePoint back = h.cluster.now();
  EXPECT_LT(back.since_start, 20us);
  h.send(0, 1, 0);
  h.run();
  EXPECT_GT(h.cluster.now() - back, 1ms);
}

TEST(SimulatedCluster, AStoppedRankHearsEverythingLater) {
  Harness h(2, {.latency = 1us});
  h.cluster.stop(1, TimePoint{5ms});
  for (Round i = 0; i < 10; ++i) h.send(0, 1, i);
  h.run();
  EXPECT_GE(h.cluster.now().since_start, 5ms);
  ASSERT_EQ(h.inboxes[1].messages.size(), 10u);
  for (Round i = 0; i < 10; ++i) EXPECT_EQ(h.inboxes[1].messages[i].second, i);
}

TEST(SimulatedCluster, ACrashLosesWhatIsInFlightAndIsNoticed) {
  Harness h(3, {.latency = 10us});
  h.send(1, 0, 0);
  h.send(0, 1, 0, {}, 5);
  h.cluster.after(1us, 0, [&] { h.cluster.crash(1, 50us); });
  h.run();
  EXPECT_TRUE(h.inboxes[0].messages.empty());
  EXPECT_EQ(h.inboxes[0].losses, std::vector<int>{1});
  EXPECT_EQ(h.inboxes[2].losses, std::vector<int>{1});
  EXPECT_EQ(h.inboxes[0].completed, std::vector<SendToken>{5});
}

TEST(SimulatedCluster, WakesARankOnceHoweverOftenItAsks) {
  SimulatedCluster cluster(1, {}, 1);
  std::vector<TimePoint> woken;
  cluster.on_wake(0, [&] {
    woken.push_back(cluster.now());
    if (woken.size() < 20) {
      for (int i = 0; i < 3; ++i) cluster.wake_by(0, cluster.now() + 10us);
    }
    cluster.wake_by(0, TimePoint::never());
  });
  cluster.wake_by(0, TimePoint() + 10us);
  cluster.wake_by(0, TimePoint() + 5us);
  cluster.wake_by(0, TimePoint() + 7us);
  while (cluster.run_next()) {
  }
  ASSERT_EQ(woken.size(), 20u);
  for (std::size_t i = 0; i < woken.size(); ++i) EXPECT_EQ(woken[i], TimePoint() + 5us + i * 10us);
  EXPECT_LE(cluster.events(), 22u);
}

TEST(SimulatedCluster, IsAFunctionOfItsSeed) {
  const auto run = [](std::uint64_t seed) {
    Harness h(4, {.jitter = 50us}, seed);
    for (Round i = 0; i < 50; ++i) h.send(static_cast<int>(i % 3), 3, i);
    h.run();
    return h.inboxes[3].messages;
  };
  EXPECT_EQ(run(1), run(1));
  EXPECT_NE(run(1), run(2));
}

/// When each message came, as (source, round).
struct Arrivals {
  explicit Arrivals(NetworkOptions network, int ranks, std::uint64_t seed = 1) : h(ranks, network, seed) {
    for (int rank = 0; rank < ranks; ++rank) {
      h.cluster.on_wake(rank, [this, rank] {
        Inbox& inbox = h.inboxes[static_cast<std::size_t>(rank)];
        h.cluster.transport(rank).poll(inbox);
        for (const auto& message : inbox.messages) at[message] = h.cluster.now().since_start;
        inbox.messages.clear();
      });
    }
  }
  Harness h;
  std::map<std::pair<int, Round>, Duration> at;
};

// A byte takes a nanosecond; an envelope is so many.
constexpr auto kEnvelope = Duration(sizeof(Envelope));
constexpr NetworkOptions kCards{.latency = 1us, .overhead = Duration(0), .bytes_per_second = 1e9, .shared_card = true};

TEST(SharedCard, MessagesOfOneRankLeaveOneAfterAnother) {
  const std::vector<std::byte> body(100'000);
  const Duration transfer = 100us + kEnvelope;
  Arrivals a(kCards, 3);
  a.h.send(0, 1, 1, body);
  a.h.send(0, 2, 2, body);
  a.h.run();
  EXPECT_EQ((a.at[{0, 1}]), 1us + transfer);
  EXPECT_EQ((a.at[{0, 2}]), 1us + 2 * transfer);

  NetworkOptions links = kCards;
  links.shared_card = false;
  Arrivals b(links, 3);
  b.h.send(0, 1, 1, body);
  b.h.send(0, 2, 2, body);
  b.h.run();
  EXPECT_EQ((b.at[{0, 1}]), 1us + transfer);
  EXPECT_EQ((b.at[{0, 2}]), 1us + transfer) << "each has a link of its own";
}

TEST(SharedCard, AReceiverTakesOneMessageAtATimeAndSendsMeanwhile) {
  const std::vector<std::byte> body(100'000);
  const Duration transfer = 100us + kEnvelope;
  Arrivals a(kCards, 3);
  a.h.send(0, 2, 1, body);
  a.h.send(1, 2, 2, body);
  a.h.send(2, 0, 3, body);
  a.h.run();
  EXPECT_EQ((a.at[{0, 1}]), 1us + transfer);
  EXPECT_EQ((a.at[{1, 2}]), 1us + 2 * transfer);
  EXPECT_EQ((a.at[{2, 3}]), 1us + transfer) << "the other direction";
}

TEST(SharedCard, ASmallMessagePassesLargeOnesOfOtherPairsAlone) {
  const std::vector<std::byte> body(100'000);
  const Duration transfer = 100us + kEnvelope;
  Arrivals a(kCards, 3);
  a.h.send(0, 1, 1, body);
  a.h.send(0, 2, 2);
  a.h.send(0, 1, 3);
  a.h.run();
  EXPECT_EQ((a.at[{0, 1}]), 1us + transfer);
  EXPECT_EQ((a.at[{0, 2}]), 1us + kEnvelope);
  EXPECT_EQ((a.at[{0, 3}]), 1us + transfer + Duration(1)) << "none overtakes another of its pair";
}

constexpr NetworkOptions fair(double unevenness = 0) {
  NetworkOptions network = kCards;
  network.fair_shares = true;
  network.unevenness = unevenness;
  return network;
}

TEST(FairCard, MessagesToOneReceiverEndTogether) {
  const std::vector<std::byte> body(100'000);
  const Duration transfer = 100us + kEnvelope;
  Arrivals a(fair(), 3);
  a.h.send(0, 2, 1, body);
  a.h.send(1, 2, 2, body);
  a.h.send(2, 0, 3, body);
  a.h.run();
  EXPECT_EQ((a.at[{0, 1}]), 1us + 2 * transfer);
  EXPECT_EQ((a.at[{1, 2}]), 1us + 2 * transfer);
  EXPECT_EQ((a.at[{2, 3}]), 1us + transfer) << "the other direction";
  EXPECT_FALSE(a.h.cluster.busy());
}

TEST(FairCard, MessagesBetweenTwoRanksGoOneAfterAnother) {
  const std::vector<std::byte> body(100'000);
  const Duration transfer = 100us + kEnvelope;
  Arrivals a(fair(), 3);
  a.h.send(0, 2, 1, body);
  a.h.send(0, 2, 2, body);
  a.h.send(0, 2, 3);
  a.h.send(1, 2, 4);
  a.h.send(1, 2, 5, body);
  a.h.run();
  EXPECT_EQ((a.at[{1, 4}]), 1us + kEnvelope) << "small ones do not share";
  EXPECT_EQ((a.at[{0, 1}]), 1us + 2 * transfer);
  EXPECT_EQ((a.at[{1, 5}]), 1us + 2 * transfer);
  EXPECT_EQ((a.at[{0, 2}]), 1us + 3 * transfer) << "alone then";
  EXPECT_EQ((a.at[{0, 3}]), 1us + 3 * transfer + kEnvelope) << "none overtakes another of its pair";
}

TEST(FairCard, UnevenSharesRepeatAndLoseNothing) {
  const std::vector<std::byte> body(100'000);
  const Duration transfer = 100us + kEnvelope;
  std::vector<std::map<std::pair<int, Round>, Duration>> runs;
  for (const std::uint64_t seed : {1, 1, 2}) {
    Arrivals a(fair(0.5), 4, seed);
    for (int src = 1; src < 4; ++src) a.h.send(src, 0, 0, body);
    a.h.run();
    runs.push_back(a.at);
    Duration last{0};
    for (const auto& [message, time] : a.at) last = std::max(last, time);
    EXPECT_NEAR(static_cast<double>(last.count()), static_cast<double>((1us + 3 * transfer).count()), 3);
    EXPECT_NE((a.at[{1, 0}]), (a.at[{2, 0}])) << "shares differ";
  }
  EXPECT_EQ(runs[0], runs[1]);
  EXPECT_NE(runs[0], runs[2]);
}

TEST(FairCard, ARankThatCrashesLeavesItsShareToOthers) {
  const std::vector<std::byte> body(100'000);
  Arrivals a(fair(), 3);
  a.h.send(0, 2, 1, body);
  a.h.send(0, 2, 2, body);
  a.h.send(1, 2, 3, body);
  a.h.cluster.at(TimePoint{} + 51us, 2, [&] { a.h.cluster.crash(0, 1us); });
  a.h.run();
  EXPECT_EQ(a.at.size(), 1u);
  EXPECT_EQ((a.at[{1, 3}]), 1us + 50us + 75us + kEnvelope) << "half of the card for 50 us, then all of it";
  EXPECT_FALSE(a.h.cluster.busy());
}

TEST(SimulatedCluster, BytesOfABodyStandForMore) {
  const std::vector<std::byte> body(1000);
  NetworkOptions network = kCards;
  network.body_scale = 100;
  Arrivals a(network, 2);
  a.h.send(0, 1, 1, body);
  a.h.run();
  EXPECT_EQ((a.at[{0, 1}]), 1us + 100us + kEnvelope);
}

}  // namespace
}  // namespace stretto
