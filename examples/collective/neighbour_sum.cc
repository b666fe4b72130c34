// Each rank gets the sum of its own vector and those of its two neighbours on a ring. Start it as it is, or under
// mpirun.

#include <cstdio>
#include <vector>

#include "stretto/collective/base/scheduled_collective.h"
#include "stretto/engine/driver.h"
#include "stretto/membership/job.h"
#include "stretto/schedule/builder.h"

namespace {

using namespace std::chrono_literals;

stretto::Schedule neighbour_sum(int rank, int ranks, std::uint64_t count) {
  stretto::ScheduleBuilder b("neighbour sum", rank, ranks);
  const auto mine = b.buffer("mine", stretto::DataType::float32, count);
  const auto sum = b.buffer("sum", stretto::DataType::float32, count);
  stretto::OpId done = b.copy(b.whole(sum), b.whole(mine), {});
  const int neighbours[] = {(rank + 1) % ranks, (rank + ranks - 1) % ranks};
  for (int side = 0; side < 2; ++side) {
    b.send(neighbours[side], side, b.whole(mine), {});
    const auto theirs = b.scratch("theirs", stretto::DataType::float32, count);
    const stretto::OpId got = b.recv(neighbours[1 - side], side, b.whole(theirs), {});
    done = b.reduce(b.whole(sum), b.whole(theirs), stretto::ReduceOp::sum, {done, got});
  }
  return b.build(done);
}

int add_up(stretto::RankContext& rank) {
  constexpr std::uint64_t kCount = 1000;
  const int ranks = rank.size();
  stretto::ScheduledCollective collective(rank.world().engine(), neighbour_sum(rank.rank(), ranks, kCount),
                                          "1000 float32");
  stretto::Driver& driver = rank.world().driver();  // further collectives may be made, and dropped, after it

  const std::vector<float> mine(kCount, static_cast<float>(rank.rank()));
  std::vector<float> sum(kCount);
  collective.run(driver, driver.deadline(10s), {stretto::Argument::in(mine), stretto::Argument::out(sum)}).or_throw();

  const int expected = rank.rank() + (rank.rank() + 1) % ranks + (rank.rank() + ranks - 1) % ranks;
  std::printf("rank %d of %d has %g\n", rank.rank(), ranks, sum[0]);
  return sum == std::vector<float>(kCount, static_cast<float>(expected)) ? 0 : 1;
}

}  // namespace

int main() {
  const auto job = stretto::launch({.ranks = 4}, add_up);
  if (!job) std::fprintf(stderr, "%s\n", job.error().message.c_str());
  return job && job->ok() ? 0 : 1;
}
