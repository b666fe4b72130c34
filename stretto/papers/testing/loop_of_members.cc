// A rank with a loop of its own over the batches of a job whose members change:
// loop_of_members ALGORITHM BATCHES [account] [full] [MILLISECONDSms] [NUMBER:STEP…] [NUMBER/STEP…] [NUMBER.STEP…]
// [NUMBER=LAG…]: the member of that number is killed as it begins that step of its own, from 1; gets SIGTERM then, and
// again for each such word; returns then, without finish(); has that lag at most, unlike others. At step 0 it has not
// begun its loop. A step takes a millisecond, or as many as are said, and no time once the file LOOP_SLOW_UNTIL of the
// environment is there. What a member has at the end it says in a line. With LOOP_STEPS a file of that name gets the
// last digit of the member's number for each step.
// With `full` all meet every 40 batches, and have to be at the same round there. With `account` another one has the
// batches that it has handed over, also where it has left; of one that has not, how many of each member are applied,
// too.

#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <unistd.h>

#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <set>
#include <string>

#include "stretto/base/descriptor.h"
#include "stretto/base/error.h"
#include "stretto/membership/job.h"
#include "stretto/papers/register.h"
#include "stretto/train/job/members/run_members.h"
#include "stretto/train/loop/loop_batches.h"
#include "stretto/train/loop/own_loop.h"
#include "stretto/train/testing/two_numbers.h"

namespace stretto {
namespace {

/// What becomes of a member.
struct Fate {
  std::uint64_t dies_at = 0, returns_at = 0;
  std::multiset<std::uint64_t> told_at = {};  // to leave
  int lag = 0;

  void comes_to(std::uint64_t step) const {
    if (dies_at > 0 && step == dies_at) ::raise(SIGKILL);
    for (std::size_t n = told_at.count(step); n > 0; --n) ::raise(SIGTERM);
  }
};

/// The batches that a member has handed over, in words, and how long it takes for each.
struct Account {
  bool wanted = false, full_rounds = false;
  ::useconds_t step = 1000;  // microseconds
  std::string batches = {};

  /// One process at a time: several may write into a pipe, which takes no more than 4 KiB as one piece.
  void print(int member, const std::string& rest) const {
    const Descriptor lock(::open("/proc/self/exe", O_RDONLY | O_CLOEXEC));
    ::flock(lock.get(), LOCK_EX);
    if (wanted) std::printf("member %d handed over:%s%s\n", member, batches.c_str(), rest.c_str());
    std::fflush(stdout);
  }
};

int train(RankContext& rank, const std::string& algorithm, std::uint64_t num_batches, const Fate& fate,
          Account& account) {
  TwoNumbers replica(0.5);
  DistributedOptions options;
  options.algorithm = algorithm;
  if (fate.lag > 0) options.max_lag = fate.lag;
  if (account.full_rounds) options.full_every = 40;
  OwnLoop loop(rank, replica, options);
  std::uint64_t held_at = 0;
  loop.on_full_round([&] {
    Session& session = loop.session();
    for (const Meeting::Numbers& theirs : session.meeting().gather(session.driver(), {loop.applied()})) {
      STRETTO_CHECK(theirs[0] == loop.applied(), "a rank is at batch ", theirs[0], ", this one at ", loop.applied());
    }
    held_at = loop.applied();
  });
  loop.begin();
  const std::uint64_t found = loop.applied();
  LoopBatches batches(rank, loop.session());
  const auto pool = batches.make(
      {.samples = num_batches, .batch = 1, .ranks = loop.session().most_ranks(), .epochs = 1}, Sharing::shared);
  pool->at_end([&loop] { return loop.drain(); });
  const char* const slow_until = std::getenv("LOOP_SLOW_UNTIL");
  const char* const steps = std::getenv("LOOP_STEPS");
  const Descriptor steps_to(steps == nullptr ? -1 : ::open(steps, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
  const char digit = static_cast<char>('0' + number_of(rank) % 10);
  while (const auto batch = pool->next()) {
    loop.begin_step();
    fate.comes_to(loop.steps() + 1);
    if (loop.steps() + 1 == fate.returns_at) return 0;
    if (slow_until == nullptr || ::access(slow_until, F_OK) != 0) ::usleep(account.step);
    replica.backward(0, static_cast<float>(batch->sequence + 1));
    replica.backward(1, 1);
    account.batches += text(' ', batch->sequence);
    loop.step(1);
    batches.deposited();
    if (steps != nullptr) STRETTO_CHECK(::write(steps_to.get(), &digit, 1) == 1, "cannot write to ", steps);
  }
  loop.finish();
  const bool was_there = options.full_every > 0 && found + 10 * options.full_every < num_batches;
  STRETTO_CHECK(!was_there || held_at > found, "it has not met the others since batch ", found);
  const auto numbers = replica.numbers();
  std::printf("member %d began after %llu, applied %llu, numbers %a %a, %s\n", number_of(rank),
              static_cast<unsigned long long>(found), static_cast<unsigned long long>(loop.applied()),
              static_cast<double>(numbers[0]), static_cast<double>(numbers[1]), loop.identical() ? "equal" : "DIFFER");
  std::string applied = ", applied:";
  for (const std::uint64_t of_member : loop.session().batches_by_number(loop.session().num_members())) {
    applied += text(' ', of_member);
  }
  account.print(number_of(rank), applied);
  return 0;
}

}  // namespace
}  // namespace stretto

int main(int argc, char** argv) {
  using namespace stretto;
  if (argc < 3) return 2;
  register_papers();
  const auto number = [](const char* word) { return std::strtoull(word, nullptr, 10); };
  std::map<int, Fate> fates;
  Account account;
  for (int i = 3; i < argc; ++i) {
    const std::string word = argv[i];
    const std::size_t sign = word.find_first_of(":/.=");
    account.wanted |= word == "account";
    account.full_rounds |= word == "full";
    if (word.ends_with("ms")) account.step = static_cast<::useconds_t>(number(argv[i]) * 1000);
    if (word == "account" || word == "full" || word.ends_with("ms")) continue;
    if (sign == std::string::npos) return 2;
    Fate& fate = fates[static_cast<int>(number(word.c_str()))];
    const std::uint64_t value = number(word.c_str() + sign + 1);
    if (word[sign] == ':') fate.dies_at = value;
    if (word[sign] == '/') fate.told_at.insert(value);
    if (word[sign] == '.') fate.returns_at = value;
    if (word[sign] == '=') fate.lag = static_cast<int>(value);
  }
  const auto job = launch({.ranks = 1}, [&](RankContext& rank) {
    const int self = number_of(rank);
    fates[self].comes_to(0);
    try {
      return train(rank, argv[1], number(argv[2]), fates[self], account);
    } catch (const Left&) {
      account.print(self, "");
      throw;
    }
  });
  if (!job) std::fprintf(stderr, "%s\n", job.error().message.c_str());
  return job && job->ok() ? 0 : 1;
}
