#include "stretto/transport/hosts/hosts.h"

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <asio/read.hpp>
#include <asio/write.hpp>
#include <atomic>
#include <barrier>
#include <csignal>
#include <deque>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "stretto/base/mutex.h"
#include "stretto/transport/hosts/piece_carrier.h"
#include "stretto/transport/hosts/tcp.h"
#include "stretto/transport/hosts/ucx.h"
#include "stretto/transport/testing/conformance.h"

namespace stretto {
namespace {

/// Where each rank is, by any number a host.
using Hosts = std::vector<int>;

/// What moves messages between these hosts; `queues` those of this process, in pieces.
enum class By { tcp, ucx, queues };

/// Moves pieces between threads, as a library that has nothing to sleep on and dozes until it is woken.
class QueuesWay final : public PieceWay {
 public:
  struct Shared {
    explicit Shared(std::size_t ranks) : queues(ranks) {}
    Mutex mutex;
    std::vector<std::deque<std::pair<int, std::vector<std::byte>>>> queues GUARDED_BY(mutex);
    std::atomic<int> woken = 0;
  };
  QueuesWay(Shared& shared, int rank) : shared_(shared), rank_(static_cast<std::size_t>(rank)) {}

  std::vector<std::byte> address() const override { return {}; }
  void begin(PieceSink& sink) override { sink_ = &sink; }
  void link(int, std::span<const std::byte>) override { is_linked_ = true; }
  void post(Piece& piece) override {
    {
      const MutexLock lock(shared_.mutex);
      const auto bytes = std::span(piece.room).first(piece.bytes);
      shared_.queues[static_cast<std::size_t>(piece.peer)].emplace_back(static_cast<int>(rank_),
                                                                        std::vector(bytes.begin(), bytes.end()));
    }
    sink_->left(piece);
  }
  bool has_work() override { return is_linked_; }
  bool progress() override {
    std::pair<int, std::vector<std::byte>> next;
    {
      const MutexLock lock(shared_.mutex);
      auto& queue = shared_.queues[rank_];
      if (queue.empty()) return false;
      next = std::move(queue.front());
      queue.pop_front();
    }
    sink_->came(next.first, next.second);
    return true;
  }
  bool rest() override { return true; }
  TimePoint progress_by() const override {
    return is_linked_ ? clock_.now() + Duration(std::chrono::microseconds(100)) : TimePoint::never();
  }
  bool dozes() const override { return true; }
  void wake() override { ++shared_.woken; }

 private:
  Shared& shared_;
  const std::size_t rank_;
  const SteadyClock clock_;
  PieceSink* sink_ = nullptr;
  bool is_linked_ = false;
};

/// Runs `program` as every rank, in threads of this process, on hosts that share nothing but loopback. By UCX the
/// `stranger` has another token. `woken`: how often PieceWay::wake() was called.
std::vector<std::string> run(const Hosts& host_of, const std::function<void(Transport&, TcpCarrier&)>& program, By by,
                             int stranger = -1, int* woken = nullptr) {
  const Members members(host_of);
  const auto ranks = static_cast<std::size_t>(members.size());
  std::vector<JobMemory> memories;
  for (int host = 0; host < members.hosts(); ++host) {
    memories.push_back(JobMemory::create(static_cast<int>(members.on(host).size())).or_throw());
    memories.back().set_watched();
  }
  const Token token = new_token();
  std::vector<asio::ip::tcp::endpoint> addresses(ranks);
  std::vector<std::string> wrong(ranks);
  QueuesWay::Shared queues(ranks);
  std::barrier<> all(members.size());
  const auto be = [&](int rank) {
    JobMemory& memory = memories[static_cast<std::size_t>(members.host_of(rank))];
    NetworkThread network;
    Door door(network,
              {.address = asio::ip::make_address("127.0.0.1"), .token = token, .rank = rank, .ranks = members.size()});
    addresses[static_cast<std::size_t>(rank)] = door.endpoint();
    all.arrive_and_wait();
    const int place = members.place_of(rank);
    {
      const Doorbell bell(memory.doorbell(place), true);
      TcpCarrier tcp(network, door, {.from = rank, .ranks = members.size()}, token, addresses, bell);
      std::unique_ptr<Carrier> over_tcp;
      if (by == By::queues) {
        over_tcp = std::make_unique<PieceCarrier>("a test", std::make_unique<QueuesWay>(queues, rank), tcp,
                                                  members.size(), Duration::zero());
      }
      if (by == By::ucx) {
        const UcxOptions how{.rank = rank,
                             .ranks = members.size(),
                             .token = rank == stranger ? new_token() : token,
                             .at = asio::ip::make_address("127.0.0.1")};
        over_tcp = start_ucx(network, tcp, how, bell);
      }
      Carrier& carrier = over_tcp ? *over_tcp : tcp;
      HostsTransport transport(memory, rank, members, carrier, "a test");
      try {
        program(transport, tcp);
        carrier.leave();
        memory.leave(place);
      } catch (const std::exception& error) {
        wrong[static_cast<std::size_t>(rank)] = error.what();
        memory.mark_lost(place, 1 << 8);
      }
    }
    all.arrive_and_wait();
  };
  std::vector<std::thread> threads;
  for (int rank = 0; rank < members.size(); ++rank) threads.emplace_back(be, rank);
  for (auto& thread : threads) thread.join();
  if (woken != nullptr) *woken = queues.woken;
  return wrong;
}

struct Setting {
  const char* name;
  Hosts hosts;
  const ConformanceCase* test;
  By by;
};

void PrintTo(const Setting& setting, std::ostream* out) {
  *out << setting.test->name << ", " << setting.name;
}

class HostsConformance : public testing::TestWithParam<Setting> {
 protected:
  void SetUp() override {
    if (GetParam().by == By::ucx && !ucx_version()) GTEST_SKIP() << ucx_version().error().message;
  }
};

TEST_P(HostsConformance, Passes) {
  const auto program = [](Transport& transport, TcpCarrier&) { GetParam().test->run(transport); };
  EXPECT_THAT(run(GetParam().hosts, program, GetParam().by), testing::Each(""));
}

std::vector<Setting> settings(By by) {
  std::vector<Setting> out;
  for (const auto& test : conformance_cases()) {
    out.push_back({"2 hosts of 1", {0, 1}, &test, by});
    out.push_back({"2 hosts of 2, in turn", {0, 1, 0, 1}, &test, by});
    out.push_back({"3 hosts of 1, 2 and 3, in blocks", {0, 1, 1, 2, 2, 2}, &test, by});
    out.push_back({"9 hosts of 1", {0, 1, 2, 3, 4, 5, 6, 7, 8}, &test, by});
  }
  return out;
}

class CarrierTest : public testing::TestWithParam<By> {
 protected:
  void SetUp() override {
    if (GetParam() == By::ucx && !ucx_version()) GTEST_SKIP() << ucx_version().error().message;
  }
};

TEST_P(CarrierTest, WhatARankHasSentBeforeItLeavesComes) {
  constexpr std::uint64_t kMessages = 20;  // for which there is room on the way
  std::atomic<bool> leaves = false;
  const auto program = [&](Transport& transport, TcpCarrier&) {
    TestRank rank(transport);
    rank.send(1 - transport.rank(), 0, 8);  // there is a way from now on
    rank.wait([&] { return rank.received() >= 1; });
    rank.wait_for_sends();
    if (transport.rank() == 0) {
      for (std::uint64_t i = 0; i < kMessages; ++i) rank.send(1, 100, 10'000);
      rank.wait_for_sends();
      leaves = true;
      return;
    }
    while (!leaves) std::this_thread::yield();
    rank.wait([&] { return !rank.left_peers.empty(); });
    EXPECT_EQ(rank.received(0), 1 + kMessages);
    EXPECT_THAT(rank.lost_peers, testing::IsEmpty());
  };
  EXPECT_THAT(run({0, 1}, program, GetParam()), testing::Each(""));
}

TEST_P(CarrierTest, WhoEndsWithoutAGoodbyeIsLost) {
  const auto program = [&](Transport& transport, TcpCarrier&) {
    TestRank rank(transport);
    rank.send(1 - transport.rank(), 8, 1000);
    rank.wait([&] { return rank.received() == 1; });
    if (transport.rank() == 0) throw std::runtime_error("as this test wants it");
    rank.wait([&] { return !rank.lost_peers.empty(); });
    EXPECT_THAT(rank.lost_peers, testing::ElementsAre(testing::Pair(0, "rank 0 is lost: it has ended")));
    rank.send(0, 8, 1000);  // goes nowhere
    rank.wait_for_sends();
  };
  EXPECT_THAT(run({0, 1}, program, GetParam()), testing::ElementsAre("as this test wants it", ""));
}

TEST(PieceCarrier, APeerIsWokenBeforeWhatComesAfterAWhile) {
  const auto program = [&](Transport& transport, TcpCarrier&) {
    TestRank rank(transport);
    for (std::uint64_t number = 1; number <= 2; ++number) {
      rank.send(1 - transport.rank(), 8, 100);
      rank.wait([&] { return rank.received() >= number; });
      rank.wait_for_sends();
    }
  };
  int woken = 0;
  EXPECT_THAT(run({0, 1}, program, By::queues, -1, &woken), testing::Each(""));
  EXPECT_GE(woken, 2);
}

TEST(UcxCarrier, MessagesWithoutTheTokenOfTheJobAreThrownAway) {
  if (!ucx_version()) GTEST_SKIP() << ucx_version().error().message;
  const auto program = [&](Transport& transport, TcpCarrier&) {
    TestRank rank(transport);
    if (transport.rank() == 0) {
      rank.send(1, 8, 1000);
      rank.wait_for_sends();
      return;
    }
    rank.wait([&] { return !rank.lost_peers.empty(); });
    EXPECT_EQ(rank.received(), 0u);
    EXPECT_THAT(rank.lost_peers, testing::ElementsAre(testing::Pair(
                                     0, "rank 0 is lost: it has left, and not all that it sent has come")));
  };
  EXPECT_THAT(run({0, 1}, program, By::ucx, 0), testing::Each(""));
}

TEST(UcxCarrier, LeavesSignalsOfFaultsAlone) {
  if (!ucx_version()) GTEST_SKIP() << ucx_version().error().message;
  EXPECT_THAT(run(
                  {0, 1}, [](Transport&, TcpCarrier&) {}, By::ucx),
              testing::Each(""));
  struct sigaction action {};
  ASSERT_EQ(sigaction(SIGSEGV, nullptr, &action), 0);
  Dl_info of{};
  const bool is_known = dladdr(reinterpret_cast<void*>(action.sa_sigaction), &of) != 0;
  EXPECT_FALSE(is_known && std::string(of.dli_fname).find("libuc") != std::string::npos) << of.dli_fname;
}

TEST(Rdma, PortsThatAreActiveAreFound) {
  const std::string folder = testing::TempDir() + "stretto-rdma-" + std::to_string(getpid());
  const auto has = [&](const std::string& port, const std::string& state) {
    std::filesystem::create_directories(folder + port);
    std::ofstream(folder + port + "/state") << state << "\n";
  };
  EXPECT_THAT(active_rdma_ports(folder), testing::IsEmpty());
  has("/mlx5_1/ports/1", "1: DOWN");
  EXPECT_THAT(active_rdma_ports(folder), testing::IsEmpty());
  has("/mlx5_1/ports/2", "4: ACTIVE");
  has("/mlx5_0/ports/1", "4: ACTIVE");
  EXPECT_THAT(active_rdma_ports(folder), testing::ElementsAre("mlx5_0:1", "mlx5_1:2"));
  std::filesystem::remove_all(folder);
}

TEST_P(CarrierTest, WhoLosesAPeerThatIsThereTellsItNothing) {
  std::atomic<bool> lost = false, looked = false;
  const auto program = [&](Transport& transport, TcpCarrier& carrier) {
    TestRank rank(transport);
    const int other = 1 - transport.rank();
    rank.send(other, 0, 8);
    rank.wait([&] { return rank.received(other) == 1; });
    rank.wait_for_sends();
    if (transport.rank() == 0) {
      carrier.lose(other, {Errc::lost_peer, "by the news", other});
      rank.wait([&] { return !rank.lost_peers.empty(); });
      EXPECT_THAT(rank.lost_peers, testing::ElementsAre(testing::Pair(other, "by the news")));
      lost = true;
      while (!looked) rank.poll();
      return;
    }
    while (!lost) rank.poll();
    for (int i = 0; i < 50; ++i) {
      rank.send(other, 0, 8);
      rank.poll();
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    EXPECT_THAT(rank.lost_peers, testing::IsEmpty());
    looked = true;
  };
  EXPECT_THAT(run({0, 1}, program, GetParam()), testing::Each(""));
}

TEST(Door, IsClosedInProcessesThatAreForked) {
  NetworkThread network;
  DoorOptions options{.address = asio::ip::make_address("127.0.0.1"), .token = new_token()};
  std::optional<Door> door(std::in_place, network, options);
  options.first_port = options.last_port = door->endpoint().port();
  std::array<int, 2> ends{};
  ASSERT_EQ(pipe(ends.data()), 0);
  const pid_t child = fork();
  char there = 1;
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (write(ends[1], &there, 1) != 1) _exit(1);
    for (;;) pause();
  }
  ASSERT_EQ(read(ends[0], &there, 1), 1);
  for (const int end : ends) close(end);
  door.reset();
  EXPECT_NO_THROW(Door(network, options)) << "the child listens";
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
}

TEST(Door, LetsInWhoeverKnowsTheTokenAlone) {
  NetworkThread network;
  const Token token = new_token();
  std::atomic<int> come = 0, told = 0;
  Door door(network, {.address = asio::ip::make_address("127.0.0.1"),
                      .token = token,
                      .rank = 2,
                      .ranks = 4,
                      .tell = [&](const std::string& line) {
                        EXPECT_EQ(line.rfind("rank 2: connections without a hello of this job: 1 closed, the last one "
                                             "from 127.0.0.1:",
                                             0),
                                  0u)
                            << line;
                        EXPECT_TRUE(line.ends_with(": it is of another job: its token is another")) << line;
                        ++told;
                      }});
  door.receive(Hello::Use::messages, [&](const Hello& hello, const asio::ip::tcp::socket&) { come += hello.from; });
  const auto knock = [&](const Hello::Bytes& bytes) {
    asio::ip::tcp::socket socket(network.io());
    socket.connect(door.endpoint());
    asio::write(socket, asio::buffer(bytes));
    std::byte none;
    asio::error_code closed;  // by the door, or by who takes it
    (void)asio::read(socket, asio::buffer(&none, 1), closed);
    EXPECT_TRUE(closed);
  };
  const Hello hello{.from = 3, .to = 2, .ranks = 4};
  knock(hello.encoded(token));
  EXPECT_EQ(come, 3);
  knock(hello.encoded(new_token()));
  knock(Hello{.from = 3, .to = 1, .ranks = 4}.encoded(token));
  knock(Hello{.from = 4, .to = 2, .ranks = 4}.encoded(token));
  knock(Hello{.from = 4, .to = 2, .ranks = 5}.encoded(token));
  for (int i = 0; i < 200; ++i) knock({});
  EXPECT_EQ(come, 3);
  EXPECT_EQ(told, 1) << "once a minute";
  EXPECT_EQ(Hello::decoded({}, token).error().message, "it is no process of Stretto");
  Hello::Bytes swapped = hello.encoded(token);
  std::reverse(swapped.begin(), swapped.begin() + 8);  // as a processor of another byte order writes a number
  EXPECT_EQ(Hello::decoded(swapped, token).error().message, "it has another byte order");
  EXPECT_EQ(token_of(digits_of(token)).value(), token);
  EXPECT_EQ(token_of("12").error().code, Errc::bad_input);
}

INSTANTIATE_TEST_SUITE_P(Tcp, HostsConformance, testing::ValuesIn(settings(By::tcp)));
INSTANTIATE_TEST_SUITE_P(Ucx, HostsConformance, testing::ValuesIn(settings(By::ucx)));
INSTANTIATE_TEST_SUITE_P(Queues, HostsConformance, testing::ValuesIn(settings(By::queues)));
INSTANTIATE_TEST_SUITE_P(Carriers, CarrierTest, testing::Values(By::tcp, By::ucx, By::queues));

}  // namespace
}  // namespace stretto
