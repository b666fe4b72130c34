#include "stretto/transport/shared_arena.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <thread>
#include <vector>

#include "stretto/base/machine/process_limits.h"
#include "stretto/base/random.h"
#include "stretto/transport/job_memory.h"
#include "stretto/transport/shm.h"
#include "stretto/transport/testing/shared_zeros.h"

namespace stretto {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr std::uint64_t kPage = 4096;

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
  std::vector<SharedRegion> held;
  std::vector<std::span<std::byte>> regions;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    // Another rank is first each time.
    for (int k = 0; k < 3; ++k) {
      const int rank = static_cast<int>(i + static_cast<std::size_t>(k)) % 3;
      held.push_back(arenas[rank].take(sizes[i], text("region ", i)).or_throw());
      const auto region = held.back().bytes();
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
  for (int rank = 0; rank < 3; ++rank) EXPECT_EQ(arenas[rank].taken(), 5u);
  EXPECT_EQ(arenas.rings, (std::vector<int>{0, 0, 0}));
}

TEST(SharedArena, PutsLargeRegionsOnHugePages) {
  Arenas arenas(64 << 20, 2);
  std::vector<SharedRegion> held;
  const auto take = [&](int rank, std::uint64_t bytes) {
    held.push_back(arenas[rank].take(bytes, "region").or_throw());
    return held.back().bytes().data();
  };
  for (int rank = 0; rank < 2; ++rank) {
    const std::byte* const small = take(rank, 10);
    const std::byte* const large = take(rank, (2 << 20) + 1);
    EXPECT_EQ(static_cast<std::uint64_t>(large - arenas.memory.bytes().data()) % (2 << 20), 0u);
    EXPECT_EQ(take(rank, 2 << 20) - large, 4 << 20);
    EXPECT_EQ(take(rank, 10) - small, 4096) << "in the gap before it";
  }
}

TEST(SharedArena, ADisagreementNamesBothOnEveryRankForRegionsFromThereOn) {
  Arenas arenas(1 << 20, 3);
  for (int rank = 0; rank < 3; ++rank) EXPECT_TRUE(arenas[rank].take(100, "sum of 25"));
  EXPECT_TRUE(arenas[0].take(200, "sum of 50"));
  EXPECT_FALSE(arenas[0].disagreement(100));
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
    ASSERT_TRUE(arenas[rank].disagreement(2));
    EXPECT_EQ(arenas[rank].disagreement(2)->message, refused.error().message);
    EXPECT_EQ(arenas[rank].disagreement(2)->rank, 2);
    EXPECT_FALSE(arenas[rank].disagreement(1)) << "of the first region";
  }
  // It is final for the rank that has disagreed; the others go on with the regions they agree on.
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
  std::vector<SharedRegion> held;
  for (int rank = 0; rank < 3; ++rank) held.push_back(arenas[rank].take(2 * kPage, "the first").or_throw());
  for (int rank = 2; rank >= 0; --rank) {
    const auto refused = arenas[rank].take(3 * kPage + 1, "the second");
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, Errc::unavailable);
    EXPECT_THAT(refused.error().message,
                AllOf(HasSubstr("\"the second\" of 3 ranks needs " + format_bytes(3 * kPage + 1)),
                      HasSubstr("there are " + format_bytes(3 * kPage))));
    EXPECT_FALSE(arenas[rank].disagreement(100));
    held.push_back(arenas[rank].take(3 * kPage, "a smaller one").or_throw());
    EXPECT_EQ(held.back().bytes().data(), held[3].bytes().data());
  }
  Arenas whole(5 * kPage, 1);
  const auto all = whole[0].take(5 * kPage, "all of it").or_throw();
  EXPECT_FALSE(whole[0].take(1, "more"));
}

TEST(SharedArena, HoldsAsManyRegionsAsItsListHasRoomFor) {
  Arenas arenas(std::uint64_t{SharedArena::kMaxRegions + 1} * kPage, 2);
  std::vector<SharedRegion> held;
  for (std::uint32_t i = 0; i < SharedArena::kMaxRegions; ++i) {
    for (int rank = 0; rank < 2; ++rank) held.push_back(arenas[rank].take(8, text("region ", i)).or_throw());
    ASSERT_EQ(held[2 * i].bytes().data(), held[2 * i + 1].bytes().data());
  }
  for (int rank = 0; rank < 2; ++rank) {
    const auto refused = arenas[rank].take(8, "one more");
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().message, "more than 4096 collectives at a time that share memory");
  }
}

bool all_zero(std::span<const std::byte> bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](std::byte b) { return b == std::byte{}; });
}

void fill(std::span<std::byte> bytes) {
  std::fill(bytes.begin(), bytes.end(), std::byte{77});
}

TEST(SharedArena, BytesAreUsedAgainOnceEveryRankHasGivenThemBack) {
  Arenas arenas(100 * kPage, 3);
  std::vector<SharedRegion> first, second, third;
  for (int rank = 0; rank < 3; ++rank) first.push_back(arenas[rank].take(5000, "the first").or_throw());
  fill(first[0].bytes());
  std::byte* const at = first[0].bytes().data();
  first[0] = {};
  first[2] = {};
  for (int rank = 0; rank < 3; ++rank) {
    second.push_back(arenas[rank].take(5000, "the second").or_throw());
    EXPECT_NE(second.back().bytes().data(), at) << "rank 1 still has the first";
    EXPECT_TRUE(all_zero(second.back().bytes()));
  }
  EXPECT_EQ(first[1].bytes().back(), std::byte{77});
  first[1] = {};
  for (int rank = 2; rank >= 0; --rank) {
    third.push_back(arenas[rank].take(5001, "the third").or_throw());
    EXPECT_EQ(third.back().bytes().data(), at);
    EXPECT_TRUE(all_zero(third.back().bytes()));
  }
}

TEST(SharedArena, ARankThatIsAheadLeavesToTheOthersWhatTheyHaveStillToTake) {
  Arenas arenas(100 * kPage, 2);
  std::vector<std::byte*> seen;
  for (int i = 0; i < 5; ++i) {
    const auto region = arenas[0].take(100, text("region ", i)).or_throw();
    EXPECT_TRUE(all_zero(region.bytes()));
    region.bytes()[0] = static_cast<std::byte>(i + 1);
    seen.push_back(region.bytes().data());
  }
  for (int i = 0; i < 5; ++i) {
    const auto region = arenas[1].take(100, text("region ", i)).or_throw();
    EXPECT_EQ(region.bytes().data(), seen[static_cast<std::size_t>(i)]);
    EXPECT_EQ(region.bytes()[0], static_cast<std::byte>(i + 1));
  }
}

TEST(SharedArena, GapsSideBySideBecomeOne) {
  Arenas arenas(4 * kPage, 1);
  std::vector<SharedRegion> held;
  for (int i = 0; i < 4; ++i) held.push_back(arenas[0].take(kPage, text("region ", i)).or_throw());
  std::byte* const at = held[1].bytes().data();
  held[2] = {};
  held[1] = {};
  EXPECT_EQ(arenas[0].take(2 * kPage, "both").or_throw().bytes().data(), at);
}

TEST(SharedArena, AnyNumberOfRegionsFollowOneAnother) {
  Arenas arenas(4 * kPage, 2);
  std::vector<SharedRegion> from_the_first_on;
  for (int rank = 0; rank < 2; ++rank) from_the_first_on.push_back(arenas[rank].take(8, "the oldest").or_throw());
  fill(from_the_first_on[0].bytes());
  SharedRegion kept;
  for (std::uint32_t i = 0; i < 3 * SharedArena::kMaxRegions; ++i) {
    // Rank 1 gives a region back when rank 0 has taken the next one already.
    auto ahead = arenas[0].take(i % 3 == 0 ? 0 : 8, text("region ", i)).or_throw();
    kept = arenas[1].take(i % 3 == 0 ? 0 : 8, text("region ", i)).or_throw();
    ASSERT_EQ(kept.bytes().data(), ahead.bytes().data());
    ASSERT_TRUE(all_zero(kept.bytes()));
    fill(kept.bytes());
  }
  EXPECT_EQ(from_the_first_on[1].bytes()[7], std::byte{77});
}

TEST(SharedArena, DisagreesByNumberAlsoWhenEntriesAreUsedAgain) {
  Arenas arenas(4 * kPage, 2);
  for (std::uint32_t i = 0; i < SharedArena::kMaxRegions + 10; ++i) {
    for (int rank = 0; rank < 2; ++rank) (void)arenas[rank].take(8, text("region ", i)).or_throw();
  }
  const std::uint64_t before = arenas[0].taken();
  (void)arenas[1].take(8, "a sum").or_throw();
  EXPECT_THAT(arenas[0].take(8, "another").error().message,
              HasSubstr("rank 0 runs \"another\" where rank 1 runs \"a sum\""));
  EXPECT_FALSE(arenas[1].disagreement(before)) << "of what was made before";
  EXPECT_TRUE(arenas[1].disagreement(before + 1));
}

TEST(SharedArena, WaitsForRoomThatAnotherRankHasStillToGiveBack) {
  Arenas arenas(3 * kPage, 2);
  SharedRegion first = arenas[0].take(2 * kPage, "large").or_throw();
  SharedRegion late = arenas[1].take(2 * kPage, "large").or_throw();
  fill(late.bytes());
  first = {};
  std::thread other([&] {
    const auto next = arenas[0].take(3 * kPage, "larger").or_throw();
    EXPECT_TRUE(all_zero(next.bytes()));
  });
  late = {};
  other.join();
}

TEST(SharedArena, OnOneThreadItWaitsForNobody) {
  const SharedZeros memory(SharedArena::overhead() + 3 * kPage);
  SharedArena mine(
      memory.bytes(), 0, 2, [](int) {}, true),
      theirs(
          memory.bytes(), 1, 2, [](int) {}, true);
  const auto held = theirs.take(2 * kPage, "large").or_throw();
  (void)mine.take(2 * kPage, "large").or_throw();
  EXPECT_EQ(mine.take(2 * kPage, "large").error().code, Errc::unavailable);
}

TEST(SharedArena, PagesGoBackToTheSystem) {
  auto memory = JobMemory::create(2).or_throw();
  const auto pages = [&memory] {
    struct stat file {};
    fstat(memory.fd(), &file);
    return file.st_blocks * 512 / static_cast<std::int64_t>(kPage);
  };
  ShmTransport first(memory, 0), second(memory, 1);
  {
    const auto a = first.host().arena->take(1000 * kPage, "a sum").or_throw();
    const auto b = second.host().arena->take(1000 * kPage, "a sum").or_throw();
    fill(a.bytes());
    EXPECT_GE(pages(), 1000);
  }
  EXPECT_LT(pages(), 100);
}

/// Each rank takes the same regions, holds some of them for a while that it draws, and writes into all.
TEST(SharedArena, RanksThatTakeAndGiveBackAtTheirOwnTimesGetTheSameRegions) {
  constexpr int kRanks = 4;
  constexpr std::uint64_t kRegions = 6000;
  Arenas arenas(600 * kPage, kRanks);
  struct Mark {
    std::atomic<std::uint64_t> region, ranks;
  };
  const auto mark = [](std::byte* at, std::uint64_t region) {
    auto& there = *reinterpret_cast<Mark*>(at);
    std::uint64_t before = 0;
    EXPECT_TRUE(there.region.compare_exchange_strong(before, region + 1) || before == region + 1) << before;
    EXPECT_LT(there.ranks.fetch_add(1), std::uint64_t{kRanks});
  };
  std::vector<std::thread> threads;
  for (int rank = 0; rank < kRanks; ++rank) {
    threads.emplace_back([&, rank] {
      Random random(1, static_cast<std::uint64_t>(rank));
      std::vector<SharedRegion> held(8);
      for (std::uint64_t i = 0; i < kRegions; ++i) {
        const std::uint64_t pages = Random(2, i).below(6);
        auto region = arenas[rank].take(pages * kPage, text("region ", i)).or_throw();
        for (std::uint64_t page = 0; page < pages; ++page) mark(region.bytes().data() + page * kPage, i);
        held[random.below(held.size())] = std::move(region);
        if (random.chance(0.1)) std::this_thread::yield();
      }
    });
  }
  for (auto& thread : threads) thread.join();
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
    auto* sum = reinterpret_cast<std::atomic<int>*>(region.bytes().data());
    sum->fetch_add(rank + 1);
    while (sum->load() != 10) std::this_thread::yield();
    const auto second = arena.take(8, rank == 2 ? "another" : "the same");
    auto* came = sum + 1;
    came->fetch_add(1);
    while (came->load() != kRanks) std::this_thread::yield();
    const auto disagreement = arena.disagreement(2);
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
  EXPECT_EQ(ShmTransport(without, 0).host().arena, nullptr);

  auto same = JobMemory::attach(memory.fd()).or_throw();
  EXPECT_EQ(same.arena().size(), room);
  EXPECT_NE(same.arena().data(), memory.arena().data());
  ShmTransport first(memory, 0), second(same, 1);
  const auto a = first.host().arena->take(3 * kPage, "a sum").or_throw();
  const auto b = second.host().arena->take(3 * kPage, "a sum").or_throw();
  a.bytes().back() = std::byte{77};
  EXPECT_EQ(b.bytes().back(), std::byte{77});
  memory.extra().back() = std::byte{1};
  EXPECT_EQ(b.bytes().front(), std::byte{});
  EXPECT_EQ(second.host().arena->take(1, "more").error().code, Errc::unavailable);
  EXPECT_EQ(first.host().arena->ranks(), 2);
  EXPECT_EQ(second.host().arena->rank(), 1);
}

}  // namespace
}  // namespace stretto
