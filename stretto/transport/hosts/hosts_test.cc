#include "stretto/transport/hosts/hosts.h"

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
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "stretto/transport/hosts/tcp.h"
#include "stretto/transport/testing/conformance.h"

namespace stretto {
namespace {

/// Where each rank is, by any number a host.
using Hosts = std::vector<int>;

/// Runs `program` as every rank, in threads of this process, on hosts that share nothing but loopback.
std::vector<std::string> run(const Hosts& host_of, const std::function<void(Transport&, TcpCarrier&)>& program) {
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
  std::barrier<> all(members.size());
  const auto be = [&](int rank) {
    JobMemory& memory = memories[static_cast<std::size_t>(members.host_of(rank))];
    NetworkThread network;
    Door door(network,
              {.address = asio::ip::make_address("127.0.0.1"), .token = token, .rank = rank, .ranks = members.size()});
    addresses[static_cast<std::size_t>(rank)] = door.endpoint();
    all.arrive_and_wait();
    const int place = members.place_of(rank);
    TcpCarrier carrier(network, door, {.from = rank, .ranks = members.size()}, token, addresses,
                       Doorbell(memory.doorbell(place), true));
    HostsTransport transport(memory, rank, members, carrier);
    try {
      program(transport, carrier);
      carrier.leave();
      memory.leave(place);
    } catch (const std::exception& error) {
      wrong[static_cast<std::size_t>(rank)] = error.what();
      memory.mark_lost(place, 1 << 8);
    }
    all.arrive_and_wait();
  };
  std::vector<std::thread> threads;
  for (int rank = 0; rank < members.size(); ++rank) threads.emplace_back(be, rank);
  for (auto& thread : threads) thread.join();
  return wrong;
}

struct Setting {
  const char* name;
  Hosts hosts;
  const ConformanceCase* test;
};

void PrintTo(const Setting& setting, std::ostream* out) {
  *out << setting.test->name << ", " << setting.name;
}

class HostsConformance : public testing::TestWithParam<Setting> {};

TEST_P(HostsConformance, Passes) {
  const auto program = [](Transport& transport, TcpCarrier&) { GetParam().test->run(transport); };
  EXPECT_THAT(run(GetParam().hosts, program), testing::Each(""));
}

std::vector<Setting> settings() {
  std::vector<Setting> out;
  for (const auto& test : conformance_cases()) {
    out.push_back({"2 hosts of 1", {0, 1}, &test});
    out.push_back({"2 hosts of 2, in turn", {0, 1, 0, 1}, &test});
    out.push_back({"3 hosts of 1, 2 and 3, in blocks", {0, 1, 1, 2, 2, 2}, &test});
    out.push_back({"9 hosts of 1", {0, 1, 2, 3, 4, 5, 6, 7, 8}, &test});
  }
  return out;
}

TEST(TcpCarrier, WhoLosesAPeerThatIsThereTellsItNothing) {
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
  EXPECT_THAT(run({0, 1}, program), testing::Each(""));
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

INSTANTIATE_TEST_SUITE_P(Tcp, HostsConformance, testing::ValuesIn(settings()));

}  // namespace
}  // namespace stretto
