#include "stretto/membership/hosts/meeting.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <barrier>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "stretto/base/machine/host_name.h"
#include "stretto/base/mutex.h"
#include "stretto/membership/hosts/line.h"
#include "stretto/membership/hosts/peer_words.h"
#include "stretto/membership/hosts/testing/raw_peer.h"

namespace stretto {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::Each;
using testing::HasSubstr;
using testing::StartsWith;

/// What rank 0 has published, for ranks that are threads.
class Board {
 public:
  void put(const std::string& words) {
    const MutexLock lock(mutex_);
    words_ = words;
  }
  std::string words() {
    const MutexLock lock(mutex_);
    return words_;
  }

 private:
  Mutex mutex_;
  std::string words_ GUARDED_BY(mutex_);
};

class BoardBulletin final : public Bulletin {
 public:
  BoardBulletin(Board& board, int rank, int ranks) : Bulletin(rank, ranks), board_(board) {}
  Result<void> publish(const std::string& words) override {
    board_.put(words);
    return {};
  }
  Result<std::string> look_up() override { return board_.words(); }

 private:
  Board& board_;
};

/// As whom a thread comes.
struct Coming {
  int rank = 0;
  int ranks = 1;
  std::string version = "stretto 1";
  Settings settings = {{"liveness", "10s"}};
};

using Then = std::function<std::string(Roster&)>;

/// What each of them says: the error, or what `then` returns. All stay until all have said it.
std::vector<std::string> meet(const std::vector<Coming>& all, Duration timeout, const Then& then,
                              const std::string& published = "") {
  Board board;
  board.put(published);
  std::vector<std::string> said(all.size());
  std::barrier<> together(static_cast<std::ptrdiff_t>(all.size()));
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < all.size(); ++i) {
    threads.emplace_back([&, i] {
      NetworkThread network;
      BoardBulletin bulletin(board, all[i].rank, all[i].ranks);
      {
        auto roster = meet_hosts(network, bulletin,
                                 {.version = all[i].version,
                                  .settings = all[i].settings,
                                  .timeout = timeout,
                                  .interfaces = "lo",
                                  .tell = [](const std::string&) {}});
        said[i] = roster ? then(*roster) : text(name_of(roster.error().code), ": ", roster.error().message);
        together.arrive_and_wait();
      }
    });
  }
  for (auto& thread : threads) thread.join();
  return said;
}

std::string nothing(Roster&) {
  return "met";
}

TEST(Meeting, ARankMissesRankZeroWhereThereIsNoWayToIt) {
  NetworkThread network;
  Board board;
  {
    const Door closed(network, {.address = asio::ip::address_v4::loopback()});
    const std::string port = std::to_string(closed.endpoint().port());
    board.put(MeetingPlace{.host = "127.0.0.1", .port = port, .token = new_token()}.encoded());
  }
  BoardBulletin bulletin(board, 1, 2);
  std::vector<int> missed;
  struct Enough {};
  const auto look = [&] {
    if (missed.size() == 3) throw Enough{};
  };
  const HostsOptions options{.version = "stretto 1",
                             .timeout = 60s,
                             .interfaces = "lo",
                             .look = look,
                             .tell = [](const std::string&) {},
                             .missed = {.limit = 200ms, .tell = [&](int rank) { missed.push_back(rank); }}};
  EXPECT_THROW((void)meet_hosts(network, bulletin, options), Enough);
  EXPECT_THAT(missed, testing::ElementsAre(0, 0, 0));
}

TEST(Meeting, AllKnowAllAndCountTogether) {
  for (const int ranks : {1, 2, 3, 8}) {
    std::vector<Coming> all;
    for (int rank = 0; rank < ranks; ++rank) all.push_back({.rank = rank, .ranks = ranks});
    Mutex mutex;
    std::vector<bool> counted(static_cast<std::size_t>(20 * ranks));
    const auto said = meet(all, 30s, [&](Roster& roster) {
      for (int i = 0; i < 20; ++i) {
        const std::uint64_t was = roster.control->fetch_add(3, 1);
        const MutexLock lock(mutex);
        counted[was] = true;
      }
      return text(roster.members.size(), " on ", roster.members.hosts(), ", ", roster.addresses.size(), " addresses");
    });
    EXPECT_THAT(said, Each(text(ranks, " on 1, ", ranks, " addresses")));
    EXPECT_THAT(counted, Each(true)) << ranks;
  }
}

TEST(Meeting, RankZeroHearsReportsAndGoodbyes) {
  std::vector<Coming> all{{0, 3}, {1, 3}, {2, 3}};
  std::barrier<> three(3);
  const auto said = meet(all, 30s, [&](Roster& roster) -> std::string {
    const bool first = roster.server != nullptr;
    if (!first) roster.control->report("of another");
    if (!first) roster.control->leave();
    three.arrive_and_wait();
    if (!first) return "met";
    const auto goodbyes = roster.server->wait_for_goodbyes(10s, {});
    const auto reports = roster.server->reports();
    return text(goodbyes[1] && goodbyes[2], reports[1], reports[2]);
  });
  EXPECT_EQ(said[0], "1of anotherof another");
}

// Its connection ends, as that of a rank that is killed does.
TEST(Meeting, RankZeroWaitsForNoRankThatIsLost) {
  std::vector<Coming> all{{0, 3}, {1, 3}, {2, 3}};
  std::barrier<> three(3);
  const auto said = meet(all, 30s, [&](Roster& roster) -> std::string {
    if (roster.addresses[1] == roster.door->endpoint()) roster.control.reset();
    if (roster.addresses[2] == roster.door->endpoint()) roster.control->leave();
    three.arrive_and_wait();
    if (!roster.server) return "met";
    const auto goodbyes = roster.server->wait_for_goodbyes(10s, {});
    return text(goodbyes[1], goodbyes[2]);
  });
  EXPECT_EQ(said[0], "01");
}

TEST(Meeting, NobodyWaitsForACounterWhenTheJobHasLostARank) {
  const auto said = meet({{0, 2}, {1, 2}}, 30s, [&](Roster& roster) -> std::string {
    roster.control->end({Errc::lost_peer, "rank 1 is lost", 1});
    try {
      return text(roster.control->fetch_add(0, 1));
    } catch (const Failure& failure) {
      return failure.error().message;
    }
  });
  EXPECT_THAT(said, Each("rank 1 is lost"));
}

TEST(Meeting, WhoDoesNotComeIsNamedOnAllThatHaveCome) {
  EXPECT_THAT(meet({{0, 3}, {1, 3}}, 1s, nothing), Each("timeout: rank 2 has not come within 1 s"));
  EXPECT_THAT(meet({{0, 4}, {2, 4}}, 1s, nothing), Each("timeout: ranks 1 and 3 have not come within 1 s"));
}

TEST(Meeting, WithoutRankZeroTheOthersSayWhatTheyTried) {
  const std::string nobody = text("127.0.0.1:1/", digits_of(new_token()));
  EXPECT_THAT(
      meet({{1, 2}}, 500ms, nothing, nobody),
      Each(AllOf(StartsWith("timeout: rank 0 has not come within 0.5 s; tried 127.0.0.1:1: "), HasSubstr("refused"))));
}

TEST(Meeting, WhatDoesNotFitTogetherIsToldOnAll) {
  const auto both = [](const std::string& theirs, const std::string& ours) {
    return Each(text("bad_input: rank 1 on ", host_name(), " has ", theirs, ", rank 0 on ", host_name(), ' ', ours));
  };
  EXPECT_THAT(meet({{0, 2}, {1, 2, "stretto 2"}}, 30s, nothing), both("stretto 2", "stretto 1"));
  EXPECT_THAT(meet({{0, 2}, {1, 3}}, 30s, nothing), both("3 ranks in its job", "2"));
  const Settings shorter{{"liveness", "3s"}};
  EXPECT_THAT(meet({{0, 2}, {1, 2, "stretto 1", shorter}}, 30s, nothing), both("liveness 3s", "10s"));
  EXPECT_THAT(meet({{0, 3}, {1, 3}, {1, 3}}, 30s, nothing), Each(StartsWith("bad_input: two processes are rank 1: ")));
}

/// What rank 0 says where a process of a test comes as rank 1, and no more do: the error, or what its server tells
/// until rank 1 has said goodbye or is lost.
std::string with_rank_one(int ranks, const std::function<void(RawPeer&)>& rank1) {
  Board board;
  std::thread thread([&] {
    while (board.words().empty()) std::this_thread::sleep_for(5ms);
    const MeetingPlace place = MeetingPlace::decoded(board.words()).value();
    const auto port = static_cast<std::uint16_t>(std::stoi(place.port));
    const Hello hello{.use = Hello::Use::meeting, .from = 1, .to = 0, .ranks = ranks, .version = "stretto 1"};
    asio::io_context io;
    RawPeer peer(io, {asio::ip::make_address(place.host), port}, hello, *place.token);
    rank1(peer);
  });
  NetworkThread network;
  BoardBulletin bulletin(board, 0, ranks);
  std::string told;
  const auto roster = meet_hosts(
      network, bulletin,
      {.version = "stretto 1", .timeout = 30s, .interfaces = "lo", .tell = [&](const auto& line) { told += line; }});
  if (roster) {
    const bool goodbye = roster->server->wait_for_goodbyes(10s, {})[1];
    told += goodbye ? "; goodbye" : "; no goodbye";
  }
  thread.join();
  return roster ? told : text(name_of(roster.error().code), ": ", roster.error().message);
}

const ArrivalWords kElsewhere{
    .host = "another", .name = "elsewhere", .process = 1, .address = {asio::ip::make_address("127.0.0.1"), 1}};

TEST(Meeting, NobodyMeetsARankWhoseArrivalCannotBeRead) {
  EXPECT_EQ(with_rank_one(2,
                          [](RawPeer& rank1) {
                            rank1.send(R"({"name": 7})");
                            EXPECT_EQ(rank1.hear(), "");
                          }),
            "lost_peer: rank 1 is lost: its arrival cannot be read: it lacks 'host'");
  EXPECT_EQ(with_rank_one(3,
                          [](RawPeer& rank1) {
                            rank1.send(kElsewhere.encoded());
                            EXPECT_EQ(rank1.hear(), R"({"come":true})");
                            rank1.send("GET / HTTP/1.1");
                          }),
            "lost_peer: rank 1 on elsewhere is lost: its request cannot be read: it is no object of JSON");
}

TEST(Meeting, RankZeroHasLostARankWhoseRequestCannotBeRead) {
  EXPECT_EQ(with_rank_one(2,
                          [](RawPeer& rank1) {
                            rank1.send(kElsewhere.encoded());
                            EXPECT_EQ(rank1.hear(), R"({"come":true})");
                            EXPECT_NE(rank1.hear(), "");
                            rank1.send(R"({"add": 99, "by": 1, "id": 1})");
                            EXPECT_EQ(rank1.hear(), "");
                          }),
            "rank 1 on elsewhere is lost: its request cannot be read: 'add' is 99; expected a whole number from 0 to 16"
            "; no goodbye");
}

TEST(Meeting, ARankHasLostARankZeroWhoseWordsCannotBeRead) {
  NetworkThread network;
  const Token token = new_token();
  Door door(network, {.address = asio::ip::make_address("127.0.0.1"), .token = token, .rank = 0, .ranks = 2});
  const std::string place = text(door.endpoint(), '/', digits_of(token));
  std::string words;
  std::vector<asio::ip::tcp::socket> come;
  door.receive(Hello::Use::meeting, [&](const Hello&, asio::ip::tcp::socket socket) {
    asio::write(socket, asio::buffer(words));
    come.push_back(std::move(socket));
  });
  const auto answer = [&](const std::string& line) { network.run([&] { words = line; }); };
  answer("{}\n");
  EXPECT_THAT(meet({{1, 2}}, 500ms, nothing, place),
              Each(text("timeout: rank 0 has not come within 0.5 s; tried ", door.endpoint(),
                        ": its word of the meeting cannot be read: it lacks 'meeting'")));
  answer("{\"come\": true}\n{\"meeting\": 1}\n");
  EXPECT_THAT(
      meet({{1, 2}}, 30s, nothing, place),
      Each("lost_peer: rank 0 is lost: its word of the meeting cannot be read: 'meeting' is 1; expected a text"));
  door.receive(Hello::Use::meeting, nullptr);
}

TEST(Meeting, AnAddressThatCannotBeReadIsTold) {
  EXPECT_THAT(
      meet({{1, 2}}, 30s, nothing, "127.0.0.1:1/none"),
      Each("bad_input: rank 0: its published address cannot be read: a token of 32 hexadecimal digits was expected"));
}

// What an earlier attempt has published is still there when the second rank looks.
TEST(Meeting, WhoComesToAnOlderMeetingLooksAgain) {
  const HostsOptions options{.version = "stretto 1", .timeout = 30s, .interfaces = "lo"};
  NetworkThread network;
  Board board;
  BoardBulletin alone(board, 0, 1);
  const auto older = meet_hosts(network, alone, options);
  ASSERT_TRUE(older) << older.error().message;
  std::thread first([&] {
    std::this_thread::sleep_for(300ms);
    NetworkThread own;
    BoardBulletin bulletin(board, 0, 2);
    const auto roster = meet_hosts(own, bulletin, options);
    if (roster) (void)roster->server->wait_for_goodbyes(10s, {});
  });
  BoardBulletin second(board, 1, 2);
  const auto roster = meet_hosts(network, second, options);
  EXPECT_TRUE(roster) << roster.error().message;
  if (roster) {
    EXPECT_EQ(roster->members.size(), 2);
    roster->control->leave();
  }
  first.join();
}

}  // namespace
}  // namespace stretto
