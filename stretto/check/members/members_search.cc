#include <algorithm>
#include <string>
#include <vector>

#include "stretto/base/error.h"
#include "stretto/base/random.h"
#include "stretto/check/harness/searches.h"
#include "stretto/check/members/changing_job.h"

namespace stretto {
namespace {

constexpr std::uint64_t kMembersStream = 0x76696577;
constexpr int kMostSteps = 40'000;  // for a few ranks; the more there are, the more words each round has
constexpr int kMostSeconds = 10;    // in a row

/// Indices into kMembersReaches.
enum class MembersReached {
  views,
  behind,
  far_behind,
  carried,
  holders,
  masters,
  two_masters,
  suspected,
  own_rounds,
  left,
  held_back,
  unknown,
  full
};

CarriedOptions draw_carried(Random& random) {
  constexpr Policy::Kind kKinds[] = {Policy::Kind::quorum, Policy::Kind::quorum, Policy::Kind::solo,
                                     Policy::Kind::majority, Policy::Kind::full};
  return {.batches = static_cast<std::uint64_t>(random.between(3, 24)),
          .max_lag = static_cast<std::uint64_t>(random.between(1, 3)),
          .policy = kKinds[random.below(std::size(kKinds))],
          .quorum = random.chance(0.5) ? 0 : random.below(4) + 1,
          .full_every = random.chance(0.5) ? 0 : random.below(4) + 2,
          .seed = random.bits(),
          .publishes = random.chance(0.5)};
}

/// A job with faults, by random steps.
class MembersJob {
 public:
  MembersJob(std::uint64_t seed, const JobLimits& limits, JobFinding& finding)
      : random_(seed, kMembersStream),
        finding_(finding),
        ranks_(limits.ranks > 0 ? limits.ranks : static_cast<int>(random_.between(1, 5))),
        carried_(draw_carried(random_)),
        job_({.least = 1, .most = static_cast<std::size_t>(ranks_) + random_.below(3)}, carried_) {
    for (int rank = 0; rank < ranks_; ++rank) job_.come();
    job_.start_master();
    finding_.job = text(ranks_, " ranks, ", carried_.batches, " batches, max_lag ", carried_.max_lag, ", policy ",
                        static_cast<int>(carried_.policy), ':', carried_.quorum, ", full every ", carried_.full_every);
    faults_ = static_cast<int>(random_.below(13));
    chance_ = 1.0 / static_cast<double>(random_.log_uniform(4, 200));
    for (int kind = 0; kind < kKinds; ++kind) weights_[kind] = random_.chance(0.2) ? 0.03 : 1;
    const auto draw_rank = [this] { return random_.below(static_cast<std::uint64_t>(ranks_)); };
    slow_ = random_.chance(0.5) ? draw_rank() : ~std::uint64_t{0};
    slow_to_ = random_.chance(0.5) ? draw_rank() : ~std::uint64_t{0};
    slow_from_ = draw_rank();
  }

  void run() {
    int seconds = 0;
    for (steps_ = 0; job_.wrong().empty(); ++steps_) {
      if (faults_ > 0 && random_.chance(chance_)) begin_fault();
      const auto steps = job_.steps();
      if (steps.empty()) {
        const bool nobody_is_left = job_.living().empty();
        if (nobody_is_left && job_.has_ended()) break;
        if (job_.living_masters().empty()) start_master();
        if (seconds++ == kMostSeconds) break;
        if (seconds == 3) replace_leavers();
        job_.pass_time();
        continue;
      }
      seconds = 0;
      if (steps_ > kMostSteps * (1 + ranks_ * ranks_ / 50)) return end(text("still going on after ", steps_, " steps"));
      take(steps);
    }
    if (job_.wrong().empty()) job_.check_end();
    end(job_.wrong());
  }

 private:
  using Step = ChangingJob::Step;
  static constexpr int kKinds = 8;

  void reach(MembersReached what, std::uint64_t times = 1) {
    finding_.reached[static_cast<std::size_t>(what)] += times;
  }
  void note(const std::string& fault) { finding_.job += text("; ", steps_, ": ", fault); }

  /// A member that hears all but one of the others takes part in rounds that it cannot complete: so it comes to be
  /// behind by more than one.
  bool is_on_slow_link(const Step& step) const {
    return step.kind == Step::Kind::application && step.rounds.kind == CarriedRounds::Step::Kind::hear &&
           step.rounds.number == slow_to_ && step.rounds.from == slow_from_;
  }
  /// One of the steps, those of slow kinds, of a slow member and over a slow link more seldom.
  void take(const std::vector<Step>& steps) {
    for (;;) {
      const Step& step = steps[random_.below(steps.size())];
      double weight = weights_[static_cast<std::size_t>(step.kind)];
      if (step.number == slow_ && step.kind != Step::Kind::write) weight *= 0.1;
      if (is_on_slow_link(step)) weight *= 0.01;
      if (weight < 1 && !random_.chance(weight)) continue;
      if (step.kind == Step::Kind::write && faults_ > 0 && random_.chance(0.03)) {
        const bool made = random_.chance(0.5);
        job_.answer_next(made ? ChangingJob::Answer::lost_after : ChangingJob::Answer::lost_before);
        reach(MembersReached::unknown);
        note(made ? "a write is made, and its answer lost" : "a question to the register is lost");
      }
      return job_.take(step);
    }
  }

  void begin_fault() {
    --faults_;
    const std::vector<MemberNumber> living = job_.living();
    const auto draw = [&] { return living[random_.below(living.size())]; };
    switch (random_.below(8)) {
      case 0:
      case 1: {
        if (living.size() < 2) return;
        // Sooner one that holds more, which matters before the others have begun.
        MemberNumber number = draw();
        if (const MemberNumber other = draw(); job_.rounds().holding(other).held > job_.rounds().holding(number).held) {
          number = other;
        }
        note(text("member ", number, " ends"));
        return job_.lose(number);
      }
      case 2: {
        if (living.size() < 2) return;
        const MemberNumber number = draw();
        note(text("member ", number, " is believed to have ended"));
        reach(MembersReached::suspected);
        return job_.suspect(number);
      }
      case 3: {
        const MemberNumber number = job_.come();
        return note(text("member ", number, " comes"));
      }
      case 4: {
        if (living.size() < 2) return;
        const MemberNumber number = draw();
        note(text("member ", number, " leaves"));
        return job_.leave(number);
      }
      case 5: {
        const auto masters = job_.living_masters();
        if (masters.empty()) return start_master();
        const std::size_t master = masters[random_.below(masters.size())];
        note(text("master ", master, " ends"));
        reach(MembersReached::masters);
        return job_.lose_master(master);
      }
      default:
        if (job_.living_masters().size() < 2) start_master();
        if (job_.living_masters().size() == 2) reach(MembersReached::two_masters);
    }
  }
  /// Those that leave are not let go before somebody stays.
  void replace_leavers() {
    const std::vector<MemberNumber> living = job_.living();
    const auto leaves = [&](MemberNumber number) { return job_.member(number).is_leaving(); };
    if (living.empty() || !std::ranges::all_of(living, leaves)) return;
    note(text("member ", job_.come(), " comes in the place of those that leave"));
  }
  void start_master() {
    const std::size_t master = job_.start_master();
    note(text("master ", master, " begins"));
  }

  void end(const std::string& wrong) {
    const CarriedRounds& rounds = job_.rounds();
    finding_.rounds = rounds.rounds() + job_.views();
    finding_.messages = rounds.messages();
    reach(MembersReached::views, job_.views());
    reach(MembersReached::behind, rounds.counts().behind);
    reach(MembersReached::far_behind, rounds.counts().far_behind);
    reach(MembersReached::carried, rounds.counts().carried);
    reach(MembersReached::holders, job_.counts().holders_lost);
    reach(MembersReached::own_rounds, job_.counts().excluded_with_own_rounds);
    reach(MembersReached::left, job_.counts().departed);
    reach(MembersReached::held_back, job_.counts().leavers_held_back);
    if (carried_.full_every > 0) reach(MembersReached::full);
    if (!wrong.empty()) finding_.violated(wrong);
  }

  Random random_;
  JobFinding& finding_;
  const int ranks_;
  const CarriedOptions carried_;
  ChangingJob job_;
  int faults_ = 0, steps_ = 0;
  double chance_ = 0;
  double weights_[kKinds] = {};
  std::uint64_t slow_;                 // a member
  std::uint64_t slow_to_, slow_from_;  // a link, by the member that hears and the place that is heard
};

}  // namespace

void run_members_job(std::uint64_t seed, const JobLimits& limits, JobFinding& finding) {
  MembersJob(seed, limits, finding).run();
}

}  // namespace stretto
