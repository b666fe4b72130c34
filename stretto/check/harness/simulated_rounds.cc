#include "stretto/check/harness/simulated_rounds.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "stretto/base/random.h"
#include "stretto/collective/rounds/contribution.h"
#include "stretto/engine/engine.h"

namespace stretto {
namespace {

constexpr std::uint64_t kBoardBytes = 16 << 20;  // of a host; what is never touched costs nothing

/// What all ranks have been handed in a round.
struct Seen {
  std::uint64_t batches;
  int contributors;
  std::int64_t sum;
  friend bool operator==(const Seen&, const Seen&) = default;
};

struct Job {
  Job(const SimulatedRoundsOptions& o, const std::function<void(const RoundResult&)>& hear)
      : options(o), on_round(hear), cluster(o.ranks, o.network, o.seed), random(o.seed, 0x726f756e6473) {
    if (o.hosts == 0) return;
    if (o.hosts > o.ranks) throw UsageError(text(o.hosts, " hosts of ", o.ranks, " ranks: expected a rank each"));
    std::vector<int> host_of;
    for (int rank = 0; rank < o.ranks; ++rank) host_of.push_back(rank * o.hosts / o.ranks);
    cluster.place(Members(host_of));
    cluster.share_memory(kBoardBytes);
  }

  const SimulatedRoundsOptions& options;
  const std::function<void(const RoundResult&)>& on_round;
  SimulatedCluster cluster;
  Random random;
  std::vector<Seen> rounds;
  bool agree = true;
  int done = 0;
};

/// One rank: engine and application.
class Actor {
 public:
  Actor(Job& job, int rank)
      : job_(job),
        rank_(rank),
        engine_(job.cluster.transport(rank), job.cluster.clock()),
        partial_(engine_, {{DataType::int64, job.options.elements}}, job.options.options) {
    job.cluster.on_wake(rank, [this] { run(); });
    compute();
  }

 private:
  enum class State { computing, exchanging, finishing, done };

  void compute() {
    state_ = State::computing;
    const auto spread = static_cast<std::uint64_t>(std::max<std::int64_t>(job_.options.spread.count(), 0));
    const Duration until(static_cast<std::int64_t>(job_.random.below(spread + 1)));
    job_.cluster.after(until, rank_, [this] {
      if (step_++ == job_.options.steps) {
        state_ = State::finishing;
      } else {
        Contribution& contribution = partial_.acquire();
        std::ranges::fill(contribution.as<std::int64_t>(0), 1);
        partial_.deposit(contribution, {.batches = 1, .samples = 1});
        state_ = State::exchanging;
      }
      run();
    });
  }

  void run() {
    look();
    // step() leaves nothing to do for the engine but for what the application does then.
    while (step() && look()) {
    }
    job_.cluster.wake_by(rank_, engine_.step_by());
  }

  bool step() {
    bool any = false;
    while (engine_.step()) any = true;
    return any;
  }

  /// Returns whether the application has done anything.
  bool look() {
    if (state_ != State::exchanging && state_ != State::finishing) return false;
    bool did = false;
    const auto apply = [this, &did](const RoundResult& result) {
      did = true;
      this->apply(result);
    };
    const auto progress = state_ == State::exchanging ? partial_.try_exchange(apply) : partial_.try_finish(apply);
    if (!progress) throw Failure(progress.error());
    if (*progress != PartialAllreduce::Progress::done) return did;
    if (state_ == State::exchanging) {
      compute();
    } else {
      state_ = State::done;
      ++job_.done;
    }
    return true;
  }

  void apply(const RoundResult& result) {
    const Seen seen{result.header->batches, result.header->contributors(),
                    result.empty() ? 0 : result.as<std::int64_t>(0).front()};
    if (result.round == job_.rounds.size()) job_.rounds.push_back(seen);
    job_.agree = job_.agree && job_.rounds[result.round] == seen;
    if (rank_ == 0 && job_.on_round) job_.on_round(result);
  }

  Job& job_;
  const int rank_;
  Engine engine_;
  PartialAllreduce partial_;
  State state_ = State::computing;
  int step_ = 0;
};

}  // namespace

SimulatedRounds simulate_rounds(const SimulatedRoundsOptions& options,
                                const std::function<void(const RoundResult&)>& on_round) {
  const SteadyClock clock;
  const TimePoint begin = clock.now();
  Job job(options, on_round);
  std::vector<std::unique_ptr<Actor>> actors;
  for (int rank = 0; rank < options.ranks; ++rank) actors.push_back(std::make_unique<Actor>(job, rank));
  const TimePoint built = clock.now();
  while (job.cluster.run_next()) {
  }
  STRETTO_CHECK(job.done == options.ranks, job.done, " of ", options.ranks, " ranks have finished");
  SimulatedRounds out{.setup_seconds = seconds(built - begin),
                      .seconds = seconds(clock.now() - built),
                      .rounds = job.rounds.size(),
                      .end = job.cluster.now(),
                      .events = job.cluster.events(),
                      .messages = job.cluster.messages(),
                      .all_ranks_agree = job.agree};
  for (int rank = 0; rank < options.ranks; ++rank) {
    const SimulatedCluster::Traffic sent = job.cluster.sent_between_hosts(rank);
    out.busiest.peers = std::max(out.busiest.peers, sent.peers);
    out.busiest.messages = std::max(out.busiest.messages, sent.messages);
  }
  for (const Seen& seen : job.rounds) {
    out.batches += seen.batches;
    out.sum += seen.sum;
  }
  return out;
}

}  // namespace stretto
