#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <vector>

#include "stretto/simulate/cluster.h"

namespace stretto {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

/// Notes the rounds of messages, and the sends that are complete.
class RoundsInbox final : public MessageSink {
 public:
  std::byte* begin(int, const Envelope& envelope, std::span<const std::byte>) override {
    rounds.push_back(envelope.round);
    return body.data();
  }
  void end(int) override {}
  void sent(SendToken token) override { complete.push_back(token); }
  void lost(int, const Error&) override { ++losses; }

  std::vector<Round> rounds;
  std::vector<SendToken> complete;
  std::array<std::byte, 8> body{};
  int losses = 0;
};

void run_all(SimulatedCluster& cluster) {
  while (cluster.run_next()) {
  }
}

TEST(SimulatedWorlds, KeepTheirMessagesToThemselves) {
  SimulatedCluster cluster(3, {}, 1);
  const auto first = cluster.make_world({0, 1, 2}), second = cluster.make_world({2, 0});
  const auto first_0 = cluster.enter(first, 0), first_2 = cluster.enter(first, 2);
  const auto second_0 = cluster.enter(second, 0), second_1 = cluster.enter(second, 1);
  EXPECT_EQ(second_1->size(), 2);
  first_0->send(2, {.round = 7}, {}, {}, kNoToken);
  second_1->send(0, {.round = 8}, {}, {}, kNoToken);  // from and to the same nodes
  cluster.transport(0).send(2, {.round = 9}, {}, {}, kNoToken);
  run_all(cluster);
  RoundsInbox in_first, in_second, in_all;
  first_2->poll(in_first);
  second_0->poll(in_second);
  cluster.transport(2).poll(in_all);
  EXPECT_THAT(in_first.rounds, ElementsAre(7u));
  EXPECT_THAT(in_second.rounds, ElementsAre(8u));
  EXPECT_THAT(in_all.rounds, ElementsAre(9u));
}

TEST(SimulatedWorlds, CompleteASendToARankThatIsGone) {
  SimulatedCluster cluster(2, {}, 1);
  const auto world = cluster.make_world({0, 1});
  const auto from = cluster.enter(world, 0);
  auto to = cluster.enter(world, 1);
  std::array<std::byte, 8> body{};
  from->send(1, {}, {}, body, 1);
  run_all(cluster);  // it lies in the inbox
  from->send(1, {}, {}, body, 2);
  to.reset();
  run_all(cluster);
  from->send(1, {}, {}, body, 3);
  run_all(cluster);
  RoundsInbox sender;
  from->poll(sender);
  EXPECT_THAT(sender.complete, ElementsAre(1u, 2u, 3u));
  EXPECT_EQ(sender.losses, 0) << "who is lost the members hear otherwise";
}

TEST(SimulatedWorlds, LoseTheMessagesOfARankThatIsGone) {
  SimulatedCluster cluster(2, {}, 1);
  const auto world = cluster.make_world({0, 1});
  auto from = cluster.enter(world, 0);
  const auto to = cluster.enter(world, 1);
  auto body = std::make_unique<std::array<std::byte, 8>>();
  from->send(1, {.round = 1}, {}, *body, 1);
  run_all(cluster);
  from->send(1, {.round = 2}, {}, *body, 2);
  from.reset();
  body.reset();  // a read of it is found by the sanitizer
  run_all(cluster);
  RoundsInbox receiver;
  to->poll(receiver);
  EXPECT_THAT(receiver.rounds, IsEmpty());
}

}  // namespace
}  // namespace stretto
