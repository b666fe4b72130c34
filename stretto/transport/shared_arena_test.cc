#include "stretto/transport/shared_arena.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <thread>
#include <vector>

#include "stretto/transport/job_memory.h"
#include "stretto/transport/memory_budget.h"
#include "stretto/transport/shm.h"

namespace stretto {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr std::uint64_t kPage = 4096;

/// Zeros that forked processes share.
class SharedZeros {
 public:
  explicit SharedZeros(std::uint64_t bytes)
      : bytes_(bytes),
        at_(mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)) {
    if (at_ == MAP_FAILED) std::abort();
  }
  ~SharedZeros() { munmap(at_, bytes_); }
  SharedZeros(const SharedZeros&) = delete;
  SharedZeros& operator=(const SharedZeros&) = delete;
  std::span<std::byte> bytes() const { return {static_cast<std::byte*>(at_), bytes_}; }

 private:
  const std::uint64_t bytes_;
  void* const at_;
};

/// The arenas of all ranks over one memory, in one process.
struct Arenas {
  Arenas(std::uint64_t room, int ranks)
      : memory(SharedArena::overhead() + room), rings(static_cast<std::size_t>(ranks)) {
    for (int rank = 0; rank < ranks; ++rank) {
      all.push_back(std::make_unique<SharedArena>(memory.bytes(), rank, ranks,
                                                  [this](int r) { ++rings[static_cast<std::size_t>(r)]; }));
    }
  }
  SharedArena& operator[](int rank) { return *all[static_cast<std::size_t>(rank)]; }

  SharedZeros memory;
  std::vector<int> rings;
  std::vector<std::unique_ptr<SharedArena>> all;
};

TEST(SharedArena, GivesAllRanksTheSameBytesInTheOrderTheyAsk) {
  Arenas arenas(1 << 20, 3);
  const std::vector<std::uint64_t> sizes{1, 4096, 4097, 0, 100'000};
  std::vector<std::span<std::byte>> regions;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    // Another rank is first each time.
    for (int k = 0; k < 3; ++k) {
      const int rank = static_cast<int>(i + static_cast<std::size_t>(k)) % 3;
      const auto region = arenas[rank].take(sizes[i], text("region ", i)).or_throw();
      if (k == 0) {
        EXPECT_TRUE(std::all_of(region.begin(), region.end(), [](std::byte b) { return b == std::byte{}; }));
        std::fill(region.begin(), region.end(), static_cast<std::byte>(i + 1));
        regions.push_back(region);
      }
      EXPECT_EQ(region.data(), regions.back().data());
      EXPECT_EQ(region.size(), sizes[i]);
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(region.data()) % kPage, 0u);
    }
  }
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    for (const std::byte b : regions[i]) ASSERT_EQ(b, static_cast<std::byte>(i + 1)) << "regions overlap";
  }
  for (int rank = 0; rank < 3; ++rank) EXPECT_EQ(arenas[rank].taken(), 5);
  EXPECT_EQ(arenas.rings, (std::vector<int>{0, 0, 0}));
}

TEST(SharedArena, PutsLargeRegionsOnHugePages) {
  Arenas arenas(64 << 20, 2);
  for (int rank = 0; rank < 2; ++rank) {
    (void)arenas[rank].take(10, "small").or_throw();
    const auto large = arenas[rank].take((2 << 20) + 1, "large").or_throw();
    const auto offset = static_cast<std::uint64_t>(large.data() - arenas.memory.bytes().data());
    EXPECT_EQ(offset % (2 << 20), 0u);
    const auto next = arenas[rank].take(10, "after it").or_throw();
    EXPECT_EQ(next.data() - large.data(), 4 << 20);
  }
}

TEST(SharedArena, ADisagreementNamesBothOnEveryRankForRegionsFromThereOn) {
  Arenas arenas(1 << 20, 3);
  for (int rank = 0; rank < 3; ++rank) EXPECT_TRUE(arenas[rank].take(100, "sum of 25"));
  EXPECT_TRUE(arenas[0].take(200, "sum of 50"));
  EXPECT_FALSE(arenas[0].disagreement());
  const auto refused = arenas[2].take(204, "sum of 51");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::bad_input);
  EXPECT_EQ(refused.error().rank, 2);
  EXPECT_EQ(
      refused.error().message,
      "rank 2 runs \"sum of 51\" where rank 0 runs \"sum of 50\"; every rank must make the same collectives in the "
      "same order");
  EXPECT_EQ(arenas.rings, (std::vector<int>{1, 1, 0})) << "the others are told";
  for (int rank = 0; rank < 3; ++rank) {
    ASSERT_TRUE(arenas[rank].disagreement());
    EXPECT_EQ(arenas[rank].disagreement()->message, refused.error().message);
    EXPECT_EQ(arenas[rank].disagreement()->rank, 2);
    EXPECT_TRUE(arenas[rank].disagreement(2));
    EXPECT_FALSE(arenas[rank].disagreement(1)) << "of the first region";
  }
  // It is final for who has disagreed; the others go on with what they have agreed on.
  EXPECT_EQ(arenas[2].take(200, "sum of 50").error().message, refused.error().message);
  EXPECT_TRUE(arenas[1].take(200, "sum of 50"));
}

TEST(SharedArena, TheSameWordsForOtherSizesAreADisagreementToo) {
  Arenas arenas(1 << 20, 2);
  EXPECT_TRUE(arenas[0].take(100, "a sum"));
  EXPECT_EQ(arenas[1].take(101, "a sum").error().code, Errc::bad_input);
}

TEST(SharedArena, KeepsLongDescriptionsAsFarAsTheyGo) {
  Arenas arenas(1 << 20, 2);
  const std::string longer(1000, 'x');
  EXPECT_TRUE(arenas[0].take(8, longer));
  EXPECT_TRUE(arenas[1].take(8, longer));
  EXPECT_TRUE(arenas[0].take(8, longer));
  const auto refused = arenas[1].take(8, "y" + longer);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, AllOf(HasSubstr("rank 1 runs \"yxxx"), HasSubstr("where rank 0 runs \"xxx")));
}

TEST(SharedArena, TooLittleMemoryNamesTheBytesOnEveryRank) {
  Arenas arenas(5 * kPage, 3);
  for (int rank = 0; rank < 3; ++rank) EXPECT_TRUE(arenas[rank].take(2 * kPage, "the first"));
  for (int rank = 2; rank >= 0; --rank) {
    const auto refused = arenas[rank].take(3 * kPage + 1, "the second");
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, Errc::unavailable);
    EXPECT_THAT(refused.error().message,
                AllOf(HasSubstr("\"the second\" of 3 ranks needs " + format_bytes(3 * kPage + 1)),
                      HasSubstr("there are " + format_bytes(3 * kPage))));
    EXPECT_EQ(arenas[rank].take(1, "the third").error().code, Errc::unavailable) << "it is final";
    EXPECT_FALSE(arenas[rank].disagreement());
  }
  Arenas whole(5 * kPage, 1);
  EXPECT_TRUE(whole[0].take(5 * kPage, "all of it"));
  EXPECT_FALSE(whole[0].take(1, "more"));
}

TEST(SharedArena, HoldsAsManyRegionsAsItsListHasRoomFor) {
  Arenas arenas(std::uint64_t{SharedArena::kMaxRegions + 1} * kPage, 2);
  for (int i = 0; i < SharedArena::kMaxRegions; ++i) {
    std::byte* first = nullptr;
    for (int rank = 0; rank < 2; ++rank) {
      const auto region = arenas[rank].take(8, text("region ", i)).or_throw();
      if (rank == 0) first = region.data();
      ASSERT_EQ(region.data(), first);
    }
  }
  for (int rank = 0; rank < 2; ++rank) EXPECT_EQ(arenas[rank].take(8, "one more").error().code, Errc::unavailable);
}

TEST(SharedArena, RanksThatAskAtTheSameTimeGetTheSameRegions) {
  constexpr int kRanks = 4, kRegions = 200;
  Arenas arenas(kRegions * kPage, kRanks);
  std::vector<std::vector<std::byte*>> regions(kRanks);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < kRanks; ++rank) {
    threads.emplace_back([&, rank] {
      for (int i = 0; i < kRegions; ++i) {
        const auto region = arenas[rank].take(8, text("region ", i)).or_throw();
        reinterpret_cast<std::atomic<int>*>(region.data())->fetch_add(1);
        regions[static_cast<std::size_t>(rank)].push_back(region.data());
      }
    });
  }
  for (auto& thread : threads) thread.join();
  for (int rank = 1; rank < kRanks; ++rank) EXPECT_EQ(regions[static_cast<std::size_t>(rank)], regions[0]);
  for (std::byte* region : regions[0]) EXPECT_EQ(reinterpret_cast<std::atomic<int>*>(region)->load(), kRanks);
}

/// Ranks that are processes, each with its own object: they add to one number, and one runs something else at the end.
TEST(SharedArena, ProcessesSeeEachOthersBytes) {
  constexpr int kRanks = 4;
  const SharedZeros memory(SharedArena::overhead() + 10 * kPage);
  std::vector<pid_t> processes;
  for (int rank = 0; rank < kRanks; ++rank) {
    processes.push_back(fork());
    if (processes.back() != 0) continue;
    SharedArena arena(memory.bytes(), rank, kRanks, [](int) {});
    const auto region = arena.take(5000, "numbers").or_throw();
    auto* sum = reinterpret_cast<std::atomic<int>*>(region.data());
    sum->fetch_add(rank + 1);
    while (sum->load() != 10) std::this_thread::yield();
    const auto second = arena.take(8, rank == 2 ? "another" : "the same");
    auto* came = sum + 1;
    came->fetch_add(1);
    while (came->load() != kRanks) std::this_thread::yield();
    const auto disagreement = arena.disagreement();
    const bool named = disagreement && disagreement->message.find("\"another\"") != std::string::npos &&
                       disagreement->message.find("\"the same\"") != std::string::npos;
    _exit(named ? 0 : 1);
  }
  for (const pid_t process : processes) {
    int status = 0;
    EXPECT_EQ(waitpid(process, &status, 0), process);
    EXPECT_EQ(status, 0);
  }
}

TEST(SharedArena, LiesInTheMemoryOfAJob) {
  const std::uint64_t needed = JobMemory::bytes_needed(2, 100);
  const std::uint64_t room = SharedArena::overhead() + 3 * kPage;
  setenv("STRETTO_SHM_LIMIT", std::to_string(needed + room + 5).c_str(), 1);
  auto memory = JobMemory::create(2, 100).or_throw();
  setenv("STRETTO_SHM_LIMIT", std::to_string(needed + SharedArena::overhead() - 1).c_str(), 1);
  auto without = JobMemory::create(2, 100).or_throw();
  unsetenv("STRETTO_SHM_LIMIT");
  EXPECT_EQ(memory.arena().size(), room) << "what the limit leaves, in pages";
  EXPECT_TRUE(without.arena().empty()) << "no room for the list of regions";
  EXPECT_EQ(ShmTransport(without, 0).arena(), nullptr);

  auto same = JobMemory::attach(memory.fd()).or_throw();
  EXPECT_EQ(same.arena().size(), room);
  EXPECT_NE(same.arena().data(), memory.arena().data());
  ShmTransport first(memory, 0), second(same, 1);
  const auto a = first.arena()->take(3 * kPage, "a sum").or_throw();
  const auto b = second.arena()->take(3 * kPage, "a sum").or_throw();
  a.back() = std::byte{77};
  EXPECT_EQ(b.back(), std::byte{77});
  memory.extra().back() = std::byte{1};
  EXPECT_EQ(b.front(), std::byte{});
  EXPECT_EQ(second.arena()->take(1, "more").error().code, Errc::unavailable);
  EXPECT_EQ(first.arena()->ranks(), 2);
  EXPECT_EQ(second.arena()->rank(), 1);
}

}  // namespace
}  // namespace stretto
