#include "stretto/transport/shm.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <functional>
#include <map>
#include <thread>
#include <vector>

#include "stretto/transport/testing/conformance.h"
#include "stretto/transport/testing/processes.h"

namespace stretto {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

/// What a rank does; throws if something is wrong.
using Program = std::function<void(JobMemory&, Transport&)>;
/// Runs a program on every rank and returns their exit statuses (128 + signal for a killed one).
using Harness = std::vector<int> (*)(int ranks, const Program& program);

int run_rank(JobMemory& memory, int rank, const Program& program) {
  try {
    ShmTransport transport(memory, rank);
    program(memory, transport);
    memory.leave(rank);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "rank %d: %s\n", rank, error.what());
    return 1;
  }
}

std::vector<int> run_threads(int ranks, const Program& program) {
  auto memory = JobMemory::create(ranks).or_throw();
  std::vector<int> status(static_cast<std::size_t>(ranks), -1);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] { status[static_cast<std::size_t>(rank)] = run_rank(memory, rank, program); });
  }
  for (auto& thread : threads) thread.join();
  return status;
}

std::vector<int> run_processes(int ranks, const Program& program) {
  return run_rank_processes(ranks, [&program](JobMemory& memory, int rank) { return run_rank(memory, rank, program); });
}

struct Setting {
  const char* harness_name;
  Harness harness;
  int ranks;
  const ConformanceCase* test;
};

void PrintTo(const Setting& setting, std::ostream* out) {
  *out << setting.test->name << " over " << setting.ranks << " " << setting.harness_name;
}

class ShmConformance : public testing::TestWithParam<Setting> {};

TEST_P(ShmConformance, Passes) {
  const auto status =
      GetParam().harness(GetParam().ranks, [](JobMemory&, Transport& transport) { GetParam().test->run(transport); });
  EXPECT_THAT(status, testing::Each(0));
}

std::vector<Setting> settings() {
  std::vector<Setting> out;
  for (const auto& test : conformance_cases()) {
    for (const int ranks : {1, 2, 3, 5, 8, 33}) out.push_back({"threads", run_threads, ranks, &test});
    for (const int ranks : {2, 5, 33}) out.push_back({"processes", run_processes, ranks, &test});
  }
  return out;
}

INSTANTIATE_TEST_SUITE_P(Shm, ShmConformance, testing::ValuesIn(settings()), [](const auto& info) {
  return text(info.param.test->name, "_", info.param.harness_name, "_", info.param.ranks);
});

/// A rank is killed when it has sent ten messages and half of an eleventh.
TEST(ShmTransport, AKilledPeerIsLostOnceAfterWhatItHadSaid) {
  const auto status = run_processes(3, [](JobMemory&, Transport& transport) {
    TestRank self(transport);
    if (transport.rank() == 1) {
      for (int i = 0; i < 10; ++i) self.send(0, 8, 100), self.send(2, 8, 100);
      self.send(0, 8, 64 << 20);
      self.send(2, 8, 64 << 20);
      kill(getpid(), SIGKILL);
    }
    self.send(1, 8, 64 << 20);  // what waits for a lost peer is complete
    self.wait([&] { return !self.lost_peers.empty() && self.unsent() == 0; });
    if (self.received(1) != 10 || !self.in_body(1)) throw std::runtime_error("messages of the dead are missing");
    if (self.lost_peers.size() != 1 || self.lost_peers[0].first != 1) throw std::runtime_error("wrong rank lost");
    self.send(1, 8, 100);
    self.wait_for_sends();
    // The living go on.
    const int other = 2 - transport.rank();
    self.send(other, 0, 5 << 20);
    self.wait([&] { return self.received(other) == 1; });
    self.wait_for_sends();
  });
  EXPECT_THAT(status, ElementsAre(0, 128 + SIGKILL, 0));
}

TEST(ShmTransport, AMarkedPeerIsLostInTheOrderOfTheMarks) {
  auto memory = JobMemory::create(4).or_throw();
  memory.set_watched();
  ShmTransport transport(memory, 1);
  TestRank self(transport);
  memory.mark_lost(3, SIGSEGV);
  memory.mark_lost(0, 2 << 8);
  self.wait([&] { return self.lost_peers.size() == 2; });
  EXPECT_THAT(self.lost_peers, ElementsAre(Pair(3, "rank 3 is lost: killed by SIGSEGV"),
                                           Pair(0, "rank 0 is lost: ended with exit status 2")));
  EXPECT_FALSE(self.poll());
  EXPECT_EQ(transport.poll_by(), TimePoint::never());
}

TEST(ShmTransport, APeerThatLeftIsNotLostAndTakesWhatIsSent) {
  auto memory = JobMemory::create(2).or_throw();
  memory.set_watched();
  ShmTransport transport(memory, 0);
  TestRank self(transport);
  self.send(1, 0, 8 << 20);
  self.send(1, 0, 10);
  self.poll();
  EXPECT_EQ(self.unsent(), 2u);
  memory.leave(1);
  self.wait_for_sends();
  self.send(1, 8, 10);
  EXPECT_EQ(transport.poll_by(), TimePoint{});
  self.wait_for_sends();
  EXPECT_TRUE(self.lost_peers.empty());
  EXPECT_THAT(self.left_peers, ElementsAre(1));
  EXPECT_FALSE(self.poll());
}

TEST(ShmTransport, APeerThatLeftIsHeardToTheEndFirst) {
  auto memory = JobMemory::create(2).or_throw();
  memory.set_watched();
  ShmTransport transport(memory, 0);
  ShmTransport peer(memory, 1);
  TestRank self(transport);
  TestRank other(peer);
  for (int i = 0; i < 3; ++i) other.send(0, 8, 1000);
  memory.leave(1);
  self.wait([&] { return !self.left_peers.empty(); });
  EXPECT_EQ(self.received(1), 3u);
}

TEST(ShmTransport, ASendIsNotReportedBeforeTheNextPoll) {
  auto memory = JobMemory::create(2).or_throw();
  ShmTransport transport(memory, 0);
  TestRank self(transport);
  self.send(1, 8, 8);
  EXPECT_EQ(self.unsent(), 1u);
  EXPECT_TRUE(self.poll());
  EXPECT_EQ(self.unsent(), 0u);
}

TEST(ShmTransport, ManyMessagesCostOneRingOfASleepingPeer) {
  auto memory = JobMemory::create(2).or_throw();
  ShmTransport transport(memory, 0);
  ShmTransport peer(memory, 1);
  TestRank self(transport);
  TestRank other(peer);
  for (int i = 0; i < 100; ++i) self.send(1, 0, 8);
  EXPECT_EQ(peer.doorbell().rings(), 1u);
  EXPECT_TRUE(other.poll());
  EXPECT_EQ(other.received(), 100u);
  self.send(1, 0, 8);
  EXPECT_EQ(peer.doorbell().rings(), 2u);
}

TEST(ShmTransport, PolicesItsCaller) {
  auto memory = JobMemory::create(2).or_throw();
  ShmTransport transport(memory, 0);
  EXPECT_DEATH(transport.send(0, {}, {}, {}, kNoToken), "rank 0 sends to 0");
  EXPECT_DEATH(transport.send(2, {}, {}, {}, kNoToken), "rank 0 sends to 2");
  EXPECT_DEATH(transport.send(1, {}, {}, {static_cast<std::byte*>(nullptr), 8}, kNoToken), "without address");
}

/// Notes the ranks that are gone, in order, and why; takes no bodies.
class LossSink final : public MessageSink {
 public:
  std::byte* begin(int, const Envelope&, std::span<const std::byte>) override { return nullptr; }
  void end(int) override {}
  void sent(SendToken) override {}
  void lost(int peer, const Error& reason) override { losses.emplace_back(peer, reason.message); }
  void left(int peer) override { losses.emplace_back(peer, "left"); }

  std::vector<std::pair<int, std::string>> losses;
};

/// Ranks leave when they see that another one is lost: the cause is told first.
TEST(ShmTransport, ALossIsToldBeforeADeparture) {
  auto memory = JobMemory::create(3).or_throw();
  memory.set_watched();
  ShmTransport transport(memory, 0);
  LossSink sink;
  memory.mark_lost(2, 9);
  memory.leave(1);
  EXPECT_TRUE(transport.poll(sink));
  EXPECT_THAT(sink.losses, ElementsAre(Pair(2, HasSubstr("rank 2 is lost")), Pair(1, "left")));
}

TEST(ShmTransport, APeerThatHasSentWhatIsNoMessageIsLost) {
  const std::vector<std::byte> zeros(20'000);
  for (const auto& [head_bytes, bytes] :
       std::vector<std::pair<std::uint32_t, std::size_t>>{{~std::uint32_t{0}, sizeof(Envelope)},
                                                          {kMaxHeadBytes + 1, sizeof(Envelope) + 10'000},
                                                          {kMaxHeadBytes, sizeof(Envelope) + kMaxHeadBytes - 1},
                                                          {0, sizeof(Envelope) - 1}}) {
    auto memory = JobMemory::create(2).or_throw();
    memory.set_watched();
    ShmTransport transport(memory, 0);
    RingWriter peer(memory.ring_words(1, 0), memory.ring_data(1, 0), memory.ring_bytes());
    const Envelope envelope{.head_bytes = head_bytes};
    peer.write(&envelope, std::min(bytes, sizeof envelope));
    if (bytes > sizeof envelope) peer.write(zeros.data(), bytes - sizeof envelope);
    peer.publish();
    LossSink sink;
    for (int i = 0; i < 2; ++i) {
      memory.peers_with_data(0)[0].fetch_or(2);
      transport.poll(sink);
      EXPECT_THAT(sink.losses, ElementsAre(Pair(1, "rank 1 is lost: it has sent what is no message")));
    }
  }
}

}  // namespace
}  // namespace stretto
