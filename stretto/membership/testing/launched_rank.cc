// A rank that something else has started, for environment_test.cc: runs the test that is named on the command line.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <map>
#include <stdexcept>
#include <thread>
#include <vector>

#include "stretto/membership/job.h"
#include "stretto/transport/testing/conformance.h"

namespace stretto {
namespace {

using namespace std::chrono_literals;

void require(bool condition, const char* what) {
  if (!condition) throw std::runtime_error(what);
}

/// All ranks count together, while no rank polls its transport.
int count(RankContext& context) {
  std::uint64_t last = 0;
  for (int i = 0; i < 200; ++i) {
    const std::uint64_t now = context.counter(3).fetch_add(2);
    require(i == 0 || now > last, "the counter went back");
    last = now;
  }
  TestRank self(context.world().transport());
  for (int peer = 0; peer < context.size(); ++peer) {
    if (peer != context.rank()) self.send(peer, 0, 0);
  }
  self.wait([&] { return self.received() == static_cast<std::uint64_t>(context.size() - 1); });
  require(context.counter(3).fetch_add(0) == 400u * static_cast<std::uint64_t>(context.size()), "wrong sum");
  require(context.counter(15).fetch_add(1) < static_cast<std::uint64_t>(context.size()), "counters are not apart");
  return 0;
}

/// All ranks count until rank 0 finds the file /tmp/end. It makes /tmp/begun.
int count_on(RankContext& context) {
  const bool first = context.rank() == 0;
  if (first) std::ofstream("/tmp/begun") << "\n";
  while (context.counter(4).fetch_add(0) == 0) {
    context.counter(3).fetch_add(1);
    if (first && ::access("/tmp/end", F_OK) == 0) context.counter(4).fetch_add(1);
    std::this_thread::sleep_for(1ms);
  }
  return 0;
}

/// Writes how many seconds the clock of this host is ahead of that of rank 0's, once that is known.
int clock(RankContext& context) {
  while (!context.clock_offset()) std::this_thread::sleep_for(1ms);  // or the watchdog ends the test
  std::printf("%.2f\n", seconds(*context.clock_offset()));
  std::fflush(stdout);
  context.counter(0).fetch_add(1);
  while (context.counter(0).fetch_add(0) < static_cast<std::uint64_t>(context.size())) std::this_thread::sleep_for(1ms);
  return 0;
}

/// Ranks that leave while messages of all sizes are on their way to them end all the same.
int leave_early(RankContext& context) {
  TestRank self(context.world().transport());
  for (int peer = 0; peer < context.size(); ++peer) {
    for (const std::size_t bytes : {0, 100, 100'000, 3'000'000}) {
      if (peer != context.rank()) self.send(peer, 8, bytes);
    }
  }
  if (context.rank() == 0) self.wait([&] { return self.received(1) == 4; });
  if (context.rank() == 0) self.wait_for_sends();
  static TestRank kept = std::move(self);  // the bodies stay until the job is left
  return 0;
}

/// Rank 1 returns at once; the others hear that it has left, and go on.
int left(RankContext& context) {
  TestRank self(context.world().transport());
  const int first = context.rank() == 1 ? 0 : 1;
  self.send(first, 0, 0);
  self.wait([&] { return self.received(first) == 1; });
  self.wait_for_sends();
  if (context.rank() != 1) self.wait([&] { return self.left_peers == std::vector{1}; });
  return 0;
}

/// Polls are asked for ever more rarely, where there is nothing to sleep on.
int idle(RankContext& context) {
  TestRank self(context.world().transport());
  for (int peer = 0; peer < context.size(); ++peer) {
    if (peer != context.rank()) self.send(peer, 0, 0);
  }
  self.wait([&] { return self.received() == static_cast<std::uint64_t>(context.size() - 1); });
  const SteadyClock clock;
  Duration wait{0};
  while (wait <= 500us) {  // or the watchdog ends the test
    self.poll();
    wait = context.world().transport().poll_by() - clock.now();
    require(wait <= 1ms, "polls are asked for too rarely");
    context.world().transport().doorbell().sleep(context.world().transport().doorbell().rings(),
                                                 Doorbell::Sleeper::application, wait);
  }
  return 0;
}

/// Counts what has come and what has left.
struct CountingSink final : MessageSink {
  std::byte* begin(int, const Envelope& envelope, std::span<const std::byte>) override {
    body.resize(std::max<std::size_t>(body.size(), envelope.body_bytes));
    return body.data();
  }
  void end(int) override { ++come; }
  void sent(SendToken) override { ++left; }
  void lost(int, const Error& why) override { throw Failure(why); }
  std::vector<std::byte> body;
  int come = 0, left = 0;
};

/// Two ranks exchange 32 MB both at once and, by turns, where rank 1 comes 5 ms later. Rank 0 writes the medians in ms.
int both_ways(RankContext& context) {
  constexpr std::size_t kTurns = 5;
  Transport& transport = context.world().transport();
  const SteadyClock clock;
  const std::vector<std::byte> body(32'000'000);
  CountingSink sink;
  int exchanges = 0;
  const auto exchange = [&](std::size_t bytes, Duration late) {
    const TimePoint begin = clock.now();
    std::this_thread::sleep_for(late);
    transport.send(1 - context.rank(), {}, {}, std::span(body).first(bytes), 0);
    for (++exchanges; sink.come < exchanges || sink.left < exchanges;) {
      const std::uint32_t seen = transport.doorbell().rings();
      if (transport.poll(sink)) continue;
      transport.doorbell().sleep(seen, Doorbell::Sleeper::application,
                                 std::min<Duration>(transport.poll_by() - clock.now(), 100ms));
    }
    return seconds(clock.now() - begin) * 1e3;
  };
  std::vector<double> times[2];
  exchange(body.size(), 0ms);
  for (std::size_t turn = 0; turn < 2 * kTurns; ++turn) {
    exchange(0, 0ms);
    times[turn % 2].push_back(exchange(body.size(), turn % 2 == 1 && context.rank() == 1 ? 5ms : 0ms));
  }
  for (auto& of_kind : times) std::sort(of_kind.begin(), of_kind.end());
  if (context.rank() == 0) std::printf("%.2f %.2f\n", times[0][kTurns / 2], times[1][kTurns / 2]);
  std::fflush(stdout);
  return 0;
}

int fail(RankContext& context) {
  if (context.rank() == 1) return 7;
  TestRank self(context.world().transport());
  self.wait([] { return false; });
  return 0;
}

int crash(RankContext& context) {
  if (context.rank() == 1) throw std::runtime_error("as this test wants it");
  return fail(context);
}

int misuse(RankContext&) {
  throw UsageError("as this test wants it");
}

/// Rank 1 fails after the others, which fail because of it.
int follow(RankContext& context) {
  const bool cause = context.rank() == 1;
  while (cause && context.counter(0).fetch_add(0) + 1 < static_cast<std::uint64_t>(context.size())) {
  }
  if (!cause) context.counter(0).fetch_add(1);
  const Error error{Errc::aborted, text(cause ? "" : "rank 1 stopped the job: ", "as this test wants it"), 1};
  if (context.rank() == 0) throw Failure(error);
  context.complain(error);
  return cause ? 3 : 1;
}

/// Rank 1 says nothing.
int follow_silence(RankContext& context) {
  TestRank self(context.world().transport());
  self.wait([&] { return context.rank() != 1; });
  throw Failure({Errc::aborted, "rank 1 stopped the job", 1});
}

int run(const char* name) {
  RankMain main;
  for (const auto& test : conformance_cases()) {
    if (name == test.name) main = [&test](RankContext& context) { return test.run(context.world().transport()), 0; };
  }
  const std::map<std::string, int (*)(RankContext&)> tests{
      {"clock", clock}, {"count", count},         {"count_on", count_on}, {"leave_early", leave_early},
      {"idle", idle},   {"both_ways", both_ways}, {"left", left},         {"fail", fail},
      {"crash", crash}, {"misuse", misuse},       {"follow", follow},     {"follow_silence", follow_silence}};
  if (const auto found = tests.find(name); found != tests.end()) main = found->second;
  int rank = -1;
  bool prepared = false;
  const auto result = launch({.prepare = [&](RankContext&) { prepared = true; }}, [&](RankContext& context) {
    rank = context.rank();
    require(prepared, "the rank was not prepared");
    const int status = main(context);
    context.report(std::string(static_cast<std::size_t>(rank) * 100'000 + 1, 'r'));
    return status;
  });
  if (!result) {
    std::fprintf(stderr, "%s\n", result.error().message.c_str());
    return 4;
  }
  bool right = result->ok() && result->first_lost == -1;
  for (std::size_t i = 0; i < result->reports.size(); ++i) {
    right &= result->reports[i].size() == (rank == 0 ? i * 100'000 + 1 : 0);
  }
  return right ? 0 : 5;
}

}  // namespace
}  // namespace stretto

int main(int, char** argv) {
  return stretto::run(argv[1]);
}
