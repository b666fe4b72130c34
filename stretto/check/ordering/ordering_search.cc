#include <algorithm>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "stretto/base/error.h"
#include "stretto/base/random.h"
#include "stretto/check/harness/searches.h"
#include "stretto/check/ordering/ordering_actor.h"
#include "stretto/check/ordering/ordering_job.h"
#include "stretto/check/ordering/ordering_network.h"

namespace stretto {
namespace {

constexpr std::uint64_t kInterleavings = 0x6f72647372;
constexpr std::uint64_t kMostTransitions = 2'000'000;
constexpr int kMostPauses = 60;                 // of the whole job, in which nothing moves but time
constexpr std::uint64_t kIdleTransitions = 40;  // of a rank and process set, before it is asked whether anybody moves
constexpr int kTurns = 60;                      // of every rank: a cycle takes six at most

/// All ranks of a job, and their collectives.
class OrderingRun {
 public:
  explicit OrderingRun(const OrderingJob& job) : job_(job), random_(job.seed, kInterleavings) {
    for (int set = 0; set < static_cast<int>(job.sets.size()); ++set) {
      networks_.push_back(std::make_unique<OrderingNetwork>(job, set));
    }
    for (int rank = 0; rank < job.ranks(); ++rank) {
      actors_.push_back(std::make_unique<OrderingActor>(job, rank, networks_, job.seed));
      slowness_.push_back(random_.chance(0.3) ? random_.uniform() * 0.95 : 0);
    }
  }

  void run(JobFinding& finding) {
    while (!finding.violation && !over()) {
      if (++transitions_ > kMostTransitions) finding.violation = "the job does not end";
      if (!step()) {
        if (++pauses_ > kMostPauses) {
          finding.violation = "O8: no rank goes on";
        } else {
          ++all_pauses_;
          for (auto& actor : actors_) actor->pass_time(kOrderingPatience);
        }
      }
      if (!finding.violation) finding.violation = violation();
    }
    if (finding.violation) {
      for (const auto& actor : actors_) *finding.violation += "\n    " + actor->state();
    }
    finding.rounds = *std::ranges::max_element(job_.steps_of) + 1;
    std::uint64_t nulls = 0, voids = 0, planned = 0, gathered = 0, lines = 0, questions = 0;
    for (const auto& actor : actors_) {
      nulls += actor->nulls();
      voids += actor->void_buffers();
      planned += actor->planned_steps();
      gathered += actor->gathered_plans();
      lines += actor->lines();
      questions += actor->questions();
    }
    for (const auto& network : networks_) finding.messages += network->controls();
    finding.reached = {nulls, failed_ ? 1u : 0u, all_pauses_, lines, voids, planned, gathered, questions};
  }

 private:
  static constexpr int kKinds = 5, kAsk = 2;

  bool act(OrderingActor& actor, int kind) {
    switch (kind) {
      case 0: return actor.apply_one();
      case 1: return actor.look();
      case 2: return actor.ask();
      case 3: return actor.complete_control();
      default: return actor.complete_buffer();
    }
  }

  /// One transition of some rank. Returns false where none does anything but cycle.
  bool step() {
    bool done = false;
    for (int tries = 0; tries < 40 && !done; ++tries) {
      const auto rank = random_.below(actors_.size());
      if (random_.chance(slowness_[rank])) continue;
      done = act(*actors_[rank], static_cast<int>(random_.below(kKinds)));
    }
    if (moved()) idle_ = 0;
    if (done && ++idle_ < kIdleTransitions * actors_.size() * networks_.size()) return true;
    idle_ = 0;
    return everybody_moves();
  }

  /// Whether something of the job was done since the last call.
  bool moved() {
    std::uint64_t progress = 0;
    for (const auto& actor : actors_) progress += actor->progress();
    const bool moved = std::exchange(progress_, progress) != progress;
    if (moved) pauses_ = 0;
    return moved;
  }

  /// Gives every rank its turn, so often that all that cycles can bring about is done. Returns whether something was.
  bool everybody_moves() {
    for (int turn = 0; turn < kTurns; ++turn) {
      bool done = false;
      for (int kind = 0; kind < kKinds; ++kind) {
        for (auto& actor : actors_) {
          while (act(*actor, kind) && kind != kAsk) done = true;
          done = done || kind == kAsk;
        }
      }
      if (moved()) return true;
      if (!done) return false;
    }
    return false;
  }

  /// Whether every rank has ended, or all members of a set have failed as they must, or one whose time is up.
  bool over() {
    if (std::ranges::all_of(actors_, [](const auto& actor) { return actor->over(); })) return true;
    const auto timed_out = [](const auto& actor) {
      return actor->failure() && actor->failure()->code == Errc::timeout;
    };
    if (job_.topo && std::ranges::any_of(actors_, timed_out)) return failed_ = true;
    for (int set = 0; set < static_cast<int>(job_.sets.size()); ++set) {
      const auto failed = [&](int rank) { return actors_[static_cast<std::size_t>(rank)]->failed(set); };
      if (std::ranges::all_of(job_.sets[static_cast<std::size_t>(set)], failed)) return failed_ = true;
    }
    return false;
  }

  std::optional<std::string> violation() {
    for (const auto& actor : actors_) {
      if (actor->violation()) return actor->violation();
      if (actor->failure() && !is_due(*actor->failure())) return "fails with: " + actor->failure()->message;
    }
    for (const auto& network : networks_) {
      if (network->violation()) return network->violation();
    }
    return std::nullopt;
  }

  /// Whether the job's own program makes it fail so.
  bool is_due(const Error& error) {
    const auto has = [&](const char* words) { return error.message.find(words) != std::string::npos; };
    if (job_.unlike.rank >= 0) return has(" reduces ");
    if (job_.contrary.rank < 0) return false;
    if (!has("no rank can go on")) return error.code == Errc::timeout;
    for (int set = 0; set < static_cast<int>(job_.sets.size()); ++set) {  // nobody in it could have gone on
      const auto& ranks = job_.sets[static_cast<std::size_t>(set)];
      const auto failed = [&](int rank) { return actors_[static_cast<std::size_t>(rank)]->failed(set); };
      const auto stuck = [&](int rank) { return actors_[static_cast<std::size_t>(rank)]->stuck_in(set); };
      if (std::ranges::any_of(ranks, failed) && !std::ranges::all_of(ranks, stuck)) return false;
    }
    return true;
  }

  const OrderingJob& job_;
  Random random_;
  OrderingActor::Networks networks_;
  std::vector<std::unique_ptr<OrderingActor>> actors_;
  std::vector<double> slowness_;  // by rank: probability that it does not act when it may
  std::uint64_t transitions_ = 0, progress_ = 0, idle_ = 0, all_pauses_ = 0;
  int pauses_ = 0;
  bool failed_ = false;
};

}  // namespace

void run_ordering_job(std::uint64_t seed, const JobLimits& limits, JobFinding& finding) {
  run_changed_coordinator(seed, limits, finding, {});
}

void run_changed_coordinator(std::uint64_t seed, const JobLimits& limits, JobFinding& finding,
                             const ChangedCoordinator& changed) {
  const OrderingJob job = draw_ordering_job(seed, limits.ranks == 0 ? 0 : std::clamp(limits.ranks, 2, 5), changed);
  finding.job = job.to_string();
  OrderingRun(job).run(finding);
}

}  // namespace stretto
