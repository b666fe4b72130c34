#include "stretto/transport/job_memory.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <set>

#include "stretto/base/machine/process_limits.h"

namespace stretto {
namespace {

TEST(JobMemory, NeedsWhatItTakesAndNoMore) {
  for (const int ranks : {1, 2, 3, 8, 33, 200}) {
    for (const std::uint64_t extra : {0u, 1u, 100000u}) {
      auto memory = JobMemory::create(ranks, extra).or_throw();
      EXPECT_EQ(memory.bytes(), JobMemory::bytes_needed(ranks, extra));
      EXPECT_EQ(memory.extra().size(), extra);
      EXPECT_EQ(memory.ranks(), ranks);
    }
  }
  EXPECT_LT(JobMemory::bytes_needed(1, 0), 64u << 10);
  EXPECT_LE(JobMemory::bytes_needed(33, 0), 257u << 20);
}

TEST(JobMemory, GivesEveryPartItsOwnBytes) {
  constexpr int kRanks = 5;
  auto memory = JobMemory::create(kRanks, 1000).or_throw();
  std::set<std::pair<std::uintptr_t, std::uintptr_t>> parts;
  std::size_t count = 0;
  const auto part = [&](const void* at, std::size_t bytes) {
    const auto begin = reinterpret_cast<std::uintptr_t>(at);
    parts.insert({begin, begin + bytes});
    ++count;
  };
  for (int rank = 0; rank < kRanks; ++rank) {
    part(&memory.doorbell(rank), sizeof(DoorbellWords));
    part(memory.peers_with_data(rank).data(), memory.peers_with_data(rank).size_bytes());
    part(memory.peers_with_room(rank).data(), memory.peers_with_room(rank).size_bytes());
    for (int to = 0; to < kRanks; ++to) {
      if (to == rank) continue;
      part(&memory.ring_words(rank, to), sizeof(RingWords));
      part(memory.ring_data(rank, to), memory.ring_bytes());
    }
  }
  for (int i = 0; i < JobMemory::kNumCounters; ++i) part(&memory.counter(i), sizeof(std::uint64_t));
  part(memory.extra().data(), memory.extra().size());
  EXPECT_EQ(parts.size(), count);
  std::uintptr_t end = 0;
  for (const auto& [from, to] : parts) {
    EXPECT_GE(from, end);
    end = to;
  }
}

TEST(JobMemory, IsSharedWithWhoeverGetsItsDescriptor) {
  auto memory = JobMemory::create(3, 10).or_throw();
  auto same = JobMemory::attach(memory.fd()).or_throw();
  memory.counter(4) = 99;
  same.extra()[9] = std::byte{5};
  EXPECT_EQ(same.counter(4), 99u);
  EXPECT_EQ(memory.extra()[9], std::byte{5});
  EXPECT_EQ(same.ranks(), 3);
}

TEST(JobMemory, RefusesADescriptorOfSomethingElse) {
  const int fd = memfd_create("other", 0);
  ASSERT_EQ(ftruncate(fd, 100000), 0);
  EXPECT_EQ(JobMemory::attach(fd).error().code, Errc::bad_input);
  close(fd);
  EXPECT_EQ(JobMemory::attach(fd).error().code, Errc::bad_input);
}

TEST(JobMemory, SaysWhatIsNeededAndWhatThereIs) {
  const std::uint64_t needed = JobMemory::bytes_needed(4, 1 << 20);
  setenv("STRETTO_SHM_LIMIT", std::to_string(needed - 1).c_str(), 1);
  const auto refused = JobMemory::create(4, 1 << 20);
  setenv("STRETTO_SHM_LIMIT", std::to_string(needed).c_str(), 1);
  const auto granted = JobMemory::create(4, 1 << 20);
  unsetenv("STRETTO_SHM_LIMIT");
  EXPECT_TRUE(granted.ok());
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, Errc::unavailable);
  EXPECT_NE(refused.error().message.find(format_bytes(needed)), std::string::npos) << refused.error().message;
  EXPECT_NE(refused.error().message.find("STRETTO_SHM_LIMIT"), std::string::npos) << refused.error().message;
}

TEST(JobMemory, RefusesRanksItCannotHold) {
  EXPECT_THROW((void)JobMemory::create(0), UsageError);
  EXPECT_THROW((void)JobMemory::create(JobMemory::kMaxRanks + 1), UsageError);
}

TEST(JobMemory, TheFirstFateHolds) {
  auto memory = JobMemory::create(3).or_throw();
  EXPECT_EQ(memory.fate(0).kind, RankFate::Kind::running);
  const auto before = memory.changes_of_fate();
  memory.leave(1);
  memory.mark_lost(1, SIGKILL);
  EXPECT_EQ(memory.fate(1).kind, RankFate::Kind::left);
  memory.mark_lost(2, SIGKILL);
  memory.mark_lost(0, 7 << 8);
  EXPECT_EQ(memory.fate(2).kind, RankFate::Kind::lost);
  EXPECT_EQ(memory.fate(2).to_string(), "killed by SIGKILL");
  EXPECT_EQ(memory.fate(0).to_string(), "ended with exit status 7");
  for (const auto& [signal, words] : {std::pair{SIGTERM, "killed by SIGTERM"},
                                      {SIGABRT, "killed by SIGABRT"},
                                      {SIGXCPU, "killed by SIGXCPU"},
                                      {40, "killed by signal 40"}}) {
    EXPECT_EQ((RankFate{.kind = RankFate::Kind::lost, .wait_status = signal}.to_string()), words);
  }
  EXPECT_LT(memory.fate(2).order, memory.fate(0).order);
  EXPECT_NE(memory.changes_of_fate(), before);
}

TEST(JobMemory, AChangeOfFateRingsEveryDoorbell) {
  auto memory = JobMemory::create(3).or_throw();
  memory.mark_lost(1, SIGKILL);
  for (int rank = 0; rank < 3; ++rank) EXPECT_EQ(memory.doorbell(rank).rings, 1u);
}

TEST(JobMemory, CannotBeMadeShorter) {
  const auto memory = JobMemory::create(2).or_throw();
  EXPECT_NE(ftruncate(memory.fd(), 0), 0) << "every access of every rank would be SIGBUS";
}

}  // namespace
}  // namespace stretto
