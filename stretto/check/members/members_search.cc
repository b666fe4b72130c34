#include <algorithm>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "stretto/base/error.h"
#include "stretto/base/random.h"
#include "stretto/check/harness/searches.h"
#include "stretto/check/members/changing_job.h"

namespace stretto {
namespace {

constexpr std::uint64_t kMembersStream = 0x76696577, kGiversStream = 0x6769766572, kSparesStream = 0x7370617265,
                        kPendingStream = 0x70656e64, kBesideStream = 0x626573696465;
constexpr int kMostSteps = 40'000;  // for a few ranks; the more there are, the more words each round has
constexpr int kMostSeconds = 10;    // in a row

CarriedOptions draw_carried(std::uint64_t seed, Random& random, bool averages) {
  constexpr Policy::Kind kKinds[] = {Policy::Kind::quorum, Policy::Kind::quorum, Policy::Kind::solo,
                                     Policy::Kind::majority, Policy::Kind::full};
  CarriedOptions options{.batches = static_cast<std::uint64_t>(random.between(3, 24)),
                         .max_lag = static_cast<std::uint64_t>(random.between(1, 3)),
                         .policy = kKinds[random.below(std::size(kKinds))],
                         .quorum = random.chance(0.5) ? 0 : random.below(4) + 1,
                         .full_every = random.chance(0.5) ? 0 : random.below(4) + 2,
                         .seed = random.bits(),
                         .publishes = random.chance(0.5)};
  if (averages) options.average_every = random.below(4) + 1;
  options.leaves_beside = averages && Random(seed, kBesideStream).chance(0.5);
  return options;
}

/// Whether those that have given rounds, or a model, are lost.
bool loses_givers(std::uint64_t seed, bool averages) {
  return Random(seed, kGiversStream).chance(averages ? 0.25 : 0.2);
}

/// Two that get models of different givers, which are lost, are four.
int draw_ranks(std::uint64_t seed, bool averages, Random& random) {
  const int ranks = static_cast<int>(random.between(1, 5));
  return averages && loses_givers(seed, averages) ? std::max(ranks, 4) : ranks;
}

/// In some jobs the last of those that come first wait as spares.
std::size_t draw_most(std::uint64_t seed, int ranks, Random& random) {
  const std::size_t more = static_cast<std::size_t>(ranks) + random.below(3);
  return ranks > 3 && Random(seed, kSparesStream).chance(0.3) ? static_cast<std::size_t>(ranks) - 1 : more;
}

/// A job with faults, by random steps.
class MembersJob {
 public:
  MembersJob(std::uint64_t seed, const JobLimits& limits, JobFinding& finding, bool averages)
      : random_(seed, kMembersStream),
        reaches_(averages ? std::span<const Situation>(kAveragedReaches) : kMembersReaches),
        finding_(finding),
        ranks_(limits.ranks > 0 ? limits.ranks : draw_ranks(seed, averages, random_)),
        carried_(draw_carried(seed, random_, averages)),
        most_(draw_most(seed, ranks_, random_)),
        job_({.least = 1, .most = most_}, carried_) {
    for (int rank = 0; rank < ranks_; ++rank) job_.come();
    job_.start_master();
    finding_.job = text(ranks_, " ranks, ", carried_.batches, " batches, max_lag ", carried_.max_lag, ", policy ",
                        static_cast<int>(carried_.policy), ':', carried_.quorum, ", full every ", carried_.full_every,
                        carried_.average_every > 0 ? text(", averages every ", carried_.average_every, " steps") : "",
                        carried_.leaves_beside ? ", leavers take their steps along" : "");
    losses_with_pending_ = !averages && Random(seed, kPendingStream).chance(0.15) ? 4 : 0;
    if (random_.chance(0.2)) {
      deadly_ = random_.below(carried_.batches);
      finding_.job += text(", batch ", *deadly_, " ends its members");
    }
    losses_as_worlds_begin_ = random_.chance(averages ? 0.6 : 0.3) ? 4 : 0;
    losses_of_givers_ = loses_givers(seed, averages) ? 4 : 0;
    hears_late_ = random_.chance(0.5);
    faults_ = static_cast<int>(random_.below(13));
    chance_ = 1.0 / static_cast<double>(random_.log_uniform(4, 200));
    for (int kind = 0; kind < kKinds; ++kind) weights_[kind] = random_.chance(0.2) ? 0.03 : 1;
    const auto draw_rank = [this] { return random_.below(static_cast<std::uint64_t>(ranks_)); };
    slow_ = random_.chance(0.5) ? draw_rank() : ~std::uint64_t{0};
    slow_to_ = random_.chance(0.5) ? draw_rank() : ~std::uint64_t{0};
    slow_from_ = draw_rank();
    if (losses_of_givers_ > 0) slow_to_ = draw_rank();  // so that somebody lacks rounds
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
      if (deadly_) end_by_batch();
      if (most_ < static_cast<std::size_t>(ranks_)) lose_first_members();
      if (losses_with_pending_ > 0) lose_with_pending();
      if (losses_of_givers_ > 0 && carried_.average_every > 0) come_amid_an_average();
      if (losses_as_worlds_begin_ > 0) lose_as_world_begins();
      if (losses_of_givers_ > 0 && carried_.average_every == 0) suspect_givers();
    }
    if (job_.wrong().empty()) job_.check_end();
    end(job_.wrong());
  }

 private:
  using Step = ChangingJob::Step;
  static constexpr int kKinds = 8;

  void reach(std::string_view what, std::uint64_t times = 1) {
    const auto found = std::ranges::find(reaches_, what, &Situation::name);
    if (found != reaches_.end()) finding_.reached[static_cast<std::size_t>(found - reaches_.begin())] += times;
  }
  void note(const std::string& fault) { finding_.job += text("; ", steps_, ": ", fault); }

  /// A member that hears all but one of the others takes part in rounds that it cannot complete: so it comes to be
  /// behind by more than one.
  bool is_on_slow_link(const Step& step) const {
    return step.kind == Step::Kind::application && step.rounds.kind == CarriedRounds::Step::Kind::hear &&
           step.rounds.number == slow_to_ && step.rounds.from == slow_from_;
  }
  /// Some get averages sooner, so that others lack them when members change.
  bool is_late_for_average(const Step& step) const {
    return losses_of_givers_ > 0 && carried_.average_every > 0 && step.kind == Step::Kind::application &&
           step.rounds.kind == CarriedRounds::Step::Kind::hear && step.number > 1;
  }
  /// One of the steps, those of slow kinds, of a slow member and over a slow link more seldom.
  void take(const std::vector<Step>& steps) {
    for (;;) {
      const Step& step = steps[random_.below(steps.size())];
      double weight = weights_[static_cast<std::size_t>(step.kind)];
      if (step.number == slow_ && step.kind != Step::Kind::write) weight *= 0.1;
      if (is_on_slow_link(step)) weight *= 0.01;
      if (is_late_for_average(step)) weight *= 0.1;
      const bool hears = step.kind == Step::Kind::hear || step.kind == Step::Kind::say;
      if (hears && deaf_ == step.number) weight *= 0.003;
      if (weight < 1 && !random_.chance(weight)) continue;
      if (step.kind == Step::Kind::write && faults_ > 0 && random_.chance(0.03)) {
        const bool made = random_.chance(0.5);
        job_.answer_next(made ? ChangingJob::Answer::lost_after : ChangingJob::Answer::lost_before);
        reach("answers of the register lost");
        note(made ? "a write is made, and its answer lost" : "a question to the register is lost");
      }
      job_.take(step);
      if (losses_of_givers_ > 0 && carried_.average_every > 0) lose_giver(step);
      return;
    }
  }

  /// Another process comes while several lack an average that several others have taken.
  void come_amid_an_average() {
    std::vector<RoundsHeld> held;
    for (const MemberNumber number : job_.living()) held.push_back(job_.rounds().holding(number).held);
    std::erase(held, kNoModel);
    if (held.empty()) return;
    const auto most = std::ranges::count(held, std::ranges::max(held));
    if (most < 2 || std::ssize(held) - most < 2 || !random_.chance(0.2)) return;
    --losses_of_givers_;
    note(text("member ", job_.come(), " comes while others take an average"));
  }

  /// A member is lost with a batch that it has handed over, and that is in no result, besides the one that it computes.
  void lose_with_pending() {
    const std::vector<MemberNumber> living = job_.living();
    const auto has_both = [&](MemberNumber number) {
      return job_.rounds().computing(number) && job_.rounds().holding(number).pending;
    };
    const auto found = std::ranges::find_if(living, has_both);
    if (found == living.end() || living.size() < 2 || !random_.chance(0.2)) return;
    --losses_with_pending_;
    note(text("member ", *found, " ends with a batch pending, member ", job_.come(), " comes"));
    job_.lose(*found);
  }

  /// Who has given a model is lost before that is in an average, and others get another one's.
  void lose_giver(const Step& step) {
    if (step.kind != Step::Kind::application || step.rounds.kind != CarriedRounds::Step::Kind::fetch) return;
    const MemberNumber giver = job_.member(step.number).view().members[step.rounds.from].number;
    const std::vector<MemberNumber> living = job_.living();
    if (std::ranges::find(living, giver) == living.end() || !random_.chance(0.7)) return;
    --losses_of_givers_;
    note(text("member ", giver, " ends, and has given its model to member ", step.number));
    reach("givers lost");
    job_.lose(giver);
  }

  /// Where somebody lacks rounds in a world that has not begun, the one that holds them is lost, or taken for lost, or
  /// another one, which stops all once more.
  void lose_as_world_begins() {
    const View& view = job_.content().view;
    const std::vector<MemberNumber> living = job_.living();
    const auto lacks = [&](MemberNumber number) { return job_.rounds().lacks_rounds(number, view); };
    if (living.size() < 2 || std::ranges::none_of(living, lacks) || !random_.chance(0.1)) return;
    const MemberNumber number = living[random_.below(living.size())];
    if (lacks(number) || !view.has(number)) return;
    --losses_as_worlds_begin_;
    const bool ends = random_.chance(0.5);
    note(text("member ", number, ends ? " ends" : " is believed to have ended", " as epoch ", view.epoch, " begins"));
    ends ? job_.lose(number) : job_.suspect(number);
  }

  /// A member of the first world is lost before that begins, and then all others, of whom some have stopped, while
  /// spares wait.
  void lose_first_members() {
    const View& view = job_.content().view;
    if (view.epoch != 1) return;
    std::vector<MemberNumber> living = job_.living();
    const auto has_begun = [&](MemberNumber number) { return job_.member(number).has_begun(); };
    if (std::ranges::any_of(living, has_begun)) return;
    const std::size_t all = living.size();
    std::erase_if(living, [&](MemberNumber number) { return !view.has(number); });
    if (living.empty() || living.size() == all) return;
    const auto has_stopped = [&](MemberNumber number) { return job_.member(number).is_frozen(); };
    const auto stopped = static_cast<std::size_t>(std::ranges::count_if(living, has_stopped));
    const bool is_first = living.size() == view.members.size();
    if (!random_.chance(0.5) || (!is_first && (stopped == 0 || stopped == living.size()))) return;
    if (is_first) living.resize(1);
    for (const MemberNumber number : living) {
      note(text("member ", number, " ends before its first world begins, and spares wait"));
      job_.lose(number);
    }
  }

  /// Where somebody lacks rounds in a world that has not begun, all that could give them are believed to have ended:
  /// they give them, while those that lack them are stopped again.
  void suspect_givers() {
    const View& view = job_.content().view;
    std::vector<MemberNumber> givers;
    bool lacks = false;
    for (const MemberNumber number : job_.living()) {
      if (!view.has(number)) continue;
      job_.rounds().lacks_rounds(number, view) ? void(lacks = true) : givers.push_back(number);
    }
    if (!lacks || givers.empty() || !random_.chance(0.3)) return;
    --losses_of_givers_;
    reach("givers lost");
    for (const MemberNumber number : givers) {
      note(text("member ", number, " is believed to have ended, and could give rounds in epoch ", view.epoch));
      job_.suspect(number);
    }
  }

  /// A batch may be what ends the processes that compute it. Others take their places.
  void end_by_batch() {
    const std::vector<MemberNumber> living = job_.living();
    const auto computes = [&](MemberNumber number) { return job_.rounds().computing(number) == deadly_; };
    const auto found = std::ranges::find_if(living, computes);
    if (found == living.end() || living.size() < 2 || !random_.chance(0.3)) return;
    note(text("member ", *found, " ends by batch ", *deadly_, ", member ", job_.come(), " comes"));
    reach("batches that end their members");
    job_.lose(*found);
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
        if (hears_late_) deaf_ = number;
        reach("members suspected");
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
        return job_.lose_master(master);
      }
      default:
        if (job_.living_masters().size() < 2) start_master();
        if (job_.living_masters().size() == 2) reach("two masters");
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
    reach("views", job_.views());
    reach("changes", job_.views() - std::min<std::uint64_t>(job_.views(), 1));
    reach("views with a member behind", rounds.counts().behind);
    reach("views with a member behind by two rounds or more", rounds.counts().far_behind);
    reach("views to which deposits were carried", rounds.counts().carried);
    reach("holders lost before all had begun", job_.counts().holders_lost);
    reach("jobs begun anew", job_.counts().begun_anew);
    reach("jobs begun anew by spares alone", job_.counts().begun_by_spares);
    reach("batches dropped", rounds.num_dropped());
    const auto lost = [&](Master::Phase phase) {
      const auto found = job_.counts().masters_lost.find(phase);
      return found == job_.counts().masters_lost.end() ? 0 : found->second;
    };
    reach("masters lost while they read", lost(Master::Phase::reading));
    reach("masters lost while the register is away", lost(Master::Phase::away));
    reach("masters lost while they watch", lost(Master::Phase::watching));
    reach("masters lost while members stop", lost(Master::Phase::freezing));
    reach("masters lost while they write", lost(Master::Phase::writing));
    reach("excluded members with rounds of their own", job_.counts().excluded_with_own_rounds);
    reach("members that left", job_.counts().departed);
    reach("leavers held back", job_.counts().leavers_held_back);
    reach("models learned by those that come", rounds.counts().learned);
    reach("models taken over by those behind", rounds.counts().taken_over);
    reach("averages after several own steps", rounds.counts().own_steps);
    reach("batches that leavers took along", rounds.counts().left_beside);
    if (carried_.full_every > 0) reach("jobs with full rounds");
    if (!wrong.empty()) finding_.violated(wrong);
  }

  Random random_;
  const std::span<const Situation> reaches_;
  JobFinding& finding_;
  const int ranks_;
  const CarriedOptions carried_;
  const std::size_t most_;  // members; more are spares
  ChangingJob job_;
  int faults_ = 0, steps_ = 0;
  std::optional<std::uint64_t> deadly_;  // a batch
  int losses_as_worlds_begin_ = 0;       // that are left
  int losses_of_givers_ = 0;             // the same, of all at once
  int losses_with_pending_ = 0;          // the same
  bool hears_late_ = false;              // who is believed to have ended
  std::optional<MemberNumber> deaf_;     // the last of them
  double chance_ = 0;
  double weights_[kKinds] = {};
  std::uint64_t slow_;                 // a member
  std::uint64_t slow_to_, slow_from_;  // a link, by the member that hears and the place that is heard
};

}  // namespace

void run_members_job(std::uint64_t seed, const JobLimits& limits, JobFinding& finding) {
  MembersJob(seed, limits, finding, false).run();
}

void run_averaged_job(std::uint64_t seed, const JobLimits& limits, JobFinding& finding) {
  MembersJob(seed, limits, finding, true).run();
}

}  // namespace stretto
