#include "stretto/membership/hosts/speaker.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "stretto/base/mutex.h"
#include "stretto/base/random.h"
#include "stretto/membership/hosts/peer_words.h"
#include "stretto/membership/hosts/testing/raw_peer.h"

namespace stretto {
namespace {

using namespace std::chrono_literals;
using testing::Each;
using testing::IsEmpty;

/// A job whose ranks are in this process, and act as if they were on several hosts.
class Job {
 public:
  /// `still`: a rank, if any, whose process stands still: its kernel takes connections.
  explicit Job(const std::vector<int>& host_of, Duration limit = 10s, int still = -1) : members_(host_of) {
    for (int host = 0; host < members_.hosts(); ++host) {
      memories_.push_back(JobMemory::create(static_cast<int>(members_.on(host).size())).value());
      bytes_.emplace_back(HostNews::bytes_needed(members_.size()));
      news_.emplace_back(bytes_.back(), members_.size());
    }
    for (int rank = 0; rank < members_.size(); ++rank) {
      Rank& one = ranks_.emplace_back();
      names_.push_back(text('h', members_.host_of(rank)));
      if (rank == still) {
        const asio::ip::tcp::endpoint any(asio::ip::make_address("127.0.0.1"), 0);
        addresses_.push_back(one.still.emplace(one.network.io(), any).local_endpoint());
        continue;
      }
      one.roster.members = members_;
      one.roster.token = token_;
      one.roster.door = std::make_unique<Door>(
          one.network,
          DoorOptions{
              .address = asio::ip::make_address("127.0.0.1"), .token = token_, .rank = rank, .ranks = members_.size()});
      addresses_.push_back(one.roster.door->endpoint());
    }
    for (int rank = 0; rank < members_.size(); ++rank) {
      Rank& one = ranks_[static_cast<std::size_t>(rank)];
      if (one.still) continue;
      const auto host = static_cast<std::size_t>(members_.host_of(rank));
      one.roster.addresses = addresses_;
      one.roster.names = names_;
      one.speaker.emplace(one.network, one.roster, memories_[host], news_[host], rank, limit, [&one](const Error& why) {
        const MutexLock lock(one.mutex);
        one.heard.push_back(why.message);
      });
    }
  }

  JobMemory& memory_of(int rank) { return memories_[static_cast<std::size_t>(members_.host_of(rank))]; }
  int place_of(int rank) const { return members_.place_of(rank); }
  int size() const { return members_.size(); }

  HostNews& news_of(int rank) { return news_[static_cast<std::size_t>(members_.host_of(rank))]; }

  void say_goodbye(int rank) {
    memory_of(rank).leave(place_of(rank));
    ranks_[static_cast<std::size_t>(rank)].speaker->leave();
  }
  void leave(int rank) {
    say_goodbye(rank);
    end(rank);
  }
  /// As a process that is gone: nothing listens.
  void end(int rank) {
    Rank& one = ranks_[static_cast<std::size_t>(rank)];
    one.speaker.reset();
    one.roster.door.reset();
  }
  /// Another process that says it were rank `from`, once `to` speaks.
  RawPeer come_as(int from, int to) {
    const Hello hello{.use = Hello::Use::beats, .from = from, .to = to, .ranks = size()};
    const auto at = static_cast<std::size_t>(to);
    for (;;) {
      RawPeer peer(ranks_[at].network.io(), addresses_[at], hello, token_);
      if (!peer.hear().empty()) return peer;
    }
  }
  /// Where others connect to a rank that stands still.
  asio::ip::tcp::acceptor& acceptor(int rank) { return *ranks_[static_cast<std::size_t>(rank)].still; }
  std::vector<std::string> heard(int rank) {
    Rank& one = ranks_[static_cast<std::size_t>(rank)];
    const MutexLock lock(one.mutex);
    return one.heard;
  }
  /// What a rank hears first, or nothing within ten seconds.
  std::string first_heard(int rank) {
    for (int i = 0; i < 2000; ++i) {
      if (const auto all = heard(rank); !all.empty()) return all.front();
      std::this_thread::sleep_for(5ms);
    }
    return {};
  }

 private:
  struct Rank {
    NetworkThread network;
    Roster roster;
    Mutex mutex;
    std::vector<std::string> heard GUARDED_BY(mutex);
    std::optional<Speaker> speaker;
    std::optional<asio::ip::tcp::acceptor> still;
  };

  const Members members_;
  const Token token_ = new_token();
  std::deque<JobMemory> memories_;  // by host, as those that follow
  std::deque<std::vector<std::byte>> bytes_;
  std::deque<HostNews> news_;
  std::vector<asio::ip::tcp::endpoint> addresses_;
  std::vector<std::string> names_;
  std::deque<Rank> ranks_;
};

TEST(Speaker, WhatARankSaysBeforeItEndsIsHeardOnAllHosts) {
  Job job({0, 1, 2, 0, 1});
  job.memory_of(3).say_why(job.place_of(3), "as this test wants it");
  job.memory_of(3).mark_lost(job.place_of(3), 1 << 8);
  for (const int rank : {1, 2, 4}) EXPECT_EQ(job.first_heard(rank), "rank 3 stopped the job: as this test wants it");
  EXPECT_THAT(job.heard(0), IsEmpty()) << "the memory of the host says it";
}

TEST(Speaker, ItsDeputyTellsThatItHasEnded) {
  Job job({0, 0, 1});
  job.end(0);
  job.memory_of(0).mark_lost(0, 9);
  EXPECT_EQ(job.first_heard(2), "rank 0 is lost: its process on h0 has ended");
}

TEST(Speaker, ItsDeputySpeaksWhereItStandsStill) {
  Job job({0, 0, 0, 1});
  job.end(0);  // for the others it is there, and writes no beat
  job.memory_of(0).mark_lost(2, 9);
  EXPECT_EQ(job.first_heard(3), "rank 2 is lost: its process on h0 has ended");
}

TEST(Speaker, AHostIsNotLostWhoseOnlyRankStandsStillBeforeAnybodyHasConnected) {
  Job job({0, 1}, 1s, 1);
  std::this_thread::sleep_for(2500ms);
  EXPECT_THAT(job.heard(0), IsEmpty()) << "its kernel takes connections";
}

TEST(Speaker, ConnectsToAHostOnceFromTheBeginning) {
  Job job({0, 1}, 10s, 1);
  asio::ip::tcp::acceptor& door = job.acceptor(1);
  RawPeer peer(door.accept());
  peer.send(SpeakerWords{}.encoded());
  std::this_thread::sleep_for(1s);
  door.non_blocking(true);
  asio::error_code none;
  door.accept(none);
  EXPECT_EQ(none, asio::error::would_block) << "it has connected again";
}

TEST(Speaker, AHostWhoseRanksAllRefuseHasEnded) {
  Job job({0, 1, 1});
  job.end(1);
  std::this_thread::sleep_for(100ms);
  EXPECT_THAT(job.heard(0), IsEmpty()) << "an edge that has ended says nothing";
  job.end(2);
  EXPECT_THAT(job.first_heard(0), testing::HasSubstr("its process on h1 has ended"));
}

TEST(Speaker, AHostWhereOneThatHasLeftIsStillThereHasNotEnded) {
  Job job({0, 1, 1});
  job.say_goodbye(1);
  job.end(2);
  std::this_thread::sleep_for(300ms);
  EXPECT_THAT(job.heard(0), IsEmpty()) << "what it has said of the other may be under way";
  job.end(1);
  EXPECT_EQ(job.first_heard(0), "rank 2 is lost: its process on h1 has ended");
}

TEST(Speaker, WhatTheOneBeforeItHeardIsKnown) {
  Job job({0, 1, 2});
  std::this_thread::sleep_for(100ms);
  for (const int rank : {0, 2}) job.news_of(rank).leave(1);
  job.end(1);
  std::this_thread::sleep_for(300ms);
  job.end(2);
  EXPECT_EQ(job.first_heard(0), "rank 2 is lost: its process on h2 has ended");
}

TEST(Speaker, ARankWhoseNewsCannotBeReadIsLost) {
  Job job({0, 1, 2});
  job.come_as(1, 0).send(R"({"fact": 1, "a": 3, "b": 0, "why": "", "aborted": false})");
  for (const int rank : {0, 2}) {
    EXPECT_EQ(job.first_heard(rank),
              "rank 1 is lost: its news cannot be read: 'a' is 3; expected a whole number from 0 to 2");
  }
}

TEST(Speaker, ThoseThatLeaveInAnyOrderAreNotLost) {
  Random random(1, 1);
  for (int round = 0; round < 20; ++round) {
    std::vector<int> host_of{0};
    const std::uint64_t hosts = 2 + random.below(3);
    const auto ranks = static_cast<std::size_t>(3 + random.below(22));
    while (host_of.size() < ranks) host_of.push_back(static_cast<int>(random.below(hosts)));
    Job job(host_of);
    std::vector<std::thread> threads;
    for (int rank = 0; rank < job.size(); ++rank) {
      threads.emplace_back([&job, rank, wait = random.below(3) * random.below(10)] {
        std::this_thread::sleep_for(std::chrono::milliseconds(wait));
        job.leave(rank);
      });
    }
    for (auto& thread : threads) thread.join();
    for (int rank = 0; rank < job.size(); ++rank) EXPECT_THAT(job.heard(rank), IsEmpty()) << round;
  }
}

}  // namespace
}  // namespace stretto
