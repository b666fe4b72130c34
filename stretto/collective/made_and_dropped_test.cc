#include <gtest/gtest.h>
#include <malloc.h>
#include <sys/stat.h>

#include <thread>
#include <vector>

#include "stretto/collective/partial_allreduce.h"
#include "stretto/collective/plain.h"
#include "stretto/engine/driver.h"
#include "stretto/transport/shm.h"
#include "stretto/transport/testing/processes.h"

// A search over hyperparameters makes the collectives of a model, trains, drops them, and goes on to the next one.

namespace stretto {
namespace {

using namespace std::chrono_literals;

constexpr int kCollectives = 10'000;

std::int64_t shared_bytes(const JobMemory& memory) {
  struct stat file {};
  fstat(memory.fd(), &file);
  return file.st_blocks * 512;
}

/// Of this process.
std::int64_t private_bytes() {
  const struct mallinfo2 info = mallinfo2();
  return static_cast<std::int64_t>(info.uordblks + info.hblkhd);
}

/// A round of a model of two collectives. Returns whether both sums were right.
bool train_one(Engine& engine, EngineDriver& driver, int model) {
  const auto count = static_cast<std::uint64_t>(1 + model % 3 * 1000);
  const int ranks = engine.size();
  const std::int64_t expected = ranks * (ranks + 1) / 2 + ranks * model;
  PartialAllreduce partial(engine, {{DataType::int64, count}}, {.policy = Policy::at_least(1)});
  Allreduce plain(engine, DataType::int64, count, ReduceOp::sum, {.through = AllreduceOptions::Through::gather});
  Contribution& mine = partial.acquire();
  std::ranges::fill(mine.as<std::int64_t>(0), engine.rank() + 1 + model);
  partial.deposit(mine, {});
  std::int64_t sum = 0;
  const auto add = [&](const RoundResult& result) {
    if (!result.header->empty()) sum += result.as<std::int64_t>(0).back();
  };
  if (!partial.finish(driver, driver.deadline(60s), add)) return false;
  const std::vector<std::int64_t> mine_too(count, engine.rank() + 1 + model);
  std::vector<std::int64_t> values(count);
  if (!plain.run(driver, driver.deadline(60s), std::span(mine_too), std::span(values))) return false;
  return sum == expected && values.front() == expected && values.back() == expected;
}

/// Returns what was wrong.
std::string train_all(JobMemory& memory, int rank) {
  ShmTransport transport(memory, rank);
  const SteadyClock clock;
  Engine engine(transport, clock);
  EngineDriver driver(engine);
  std::int64_t shared = 0, own = 0;
  for (int model = 0; model < kCollectives / 2; ++model) {
    if (!train_one(engine, driver, model)) return text("model ", model, " has wrong sums");
    if (model != 100) continue;
    shared = shared_bytes(memory);
    own = private_bytes();
  }
  const std::int64_t shared_more = shared_bytes(memory) - shared, own_more = private_bytes() - own;
  std::printf("rank %d: %lld bytes of shared memory and %lld of its own more than after 100 models\n", rank,
              static_cast<long long>(shared_more), static_cast<long long>(own_more));
  // The other ranks may be in the middle of the next model, or of the one before; and in the ring to the next rank each
  // collective leaves a message, until the ring has been gone round once.
  const auto rings = static_cast<std::int64_t>(memory.ranks() * memory.ring_bytes());
  if (shared_more > (1 << 20) + rings) return text(shared_more, " bytes of shared memory are not used again");
  if (own_more > memory.ranks() * kCollectives * 256) return text(own_more, " bytes of its own are not given back");
  memory.leave(rank);
  return "";
}

TEST(CollectivesMadeAndDropped, TakeNoMoreMemoryWhereRanksAreThreads) {
  constexpr int kRanks = 3;
  auto memory = JobMemory::create(kRanks).or_throw();
  memory.set_watched();
  std::vector<std::thread> threads;
  for (int rank = 0; rank < kRanks; ++rank) {
    threads.emplace_back([&, rank] { EXPECT_EQ(train_all(memory, rank), "") << "rank " << rank; });
  }
  for (auto& thread : threads) thread.join();
}

TEST(CollectivesMadeAndDropped, TakeNoMoreMemoryWhereRanksAreProcesses) {
  const auto status = run_rank_processes(2, [](JobMemory& memory, int rank) {
    const std::string wrong = train_all(memory, rank);
    if (!wrong.empty()) std::fprintf(stderr, "rank %d: %s\n", rank, wrong.c_str());
    return wrong.empty() ? 0 : 1;
  });
  EXPECT_EQ(status, (std::vector<int>{0, 0}));
}

}  // namespace
}  // namespace stretto
