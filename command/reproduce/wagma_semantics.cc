#include <fmt/format.h>

#include <algorithm>

#include "command/cli/table.h"
#include "command/reproduce/experiments.h"
#include "command/reproduce/small_model.h"
#include "command/statistics/statistics.h"
#include "stretto/base/clock.h"
#include "stretto/base/error.h"

namespace stretto::command {

namespace {

constexpr std::uint64_t kLocalSteps = 10;

enum Semantics : std::size_t {
  kSync,
  kLocal,
  kAsPublished,
  kOwnSum,
  kCarry,
  kMomentum,
  kJump,
  kQuorumCatchUp,
  kRecommended,
};

/// As the enumeration above.
const std::vector<AlgorithmRow>& rows() {
  static const std::vector<AlgorithmRow> rows = {
      {"sync", "sync", 0, {}, kNone},
      {"local, H = 10", "local", kLocalSteps, {}, kNone},
      {"wagma: newest sum, mix", "wagma", 0, {}, kNone},
      {"own sum, mix", "wagma", 0, {{"group-sum", "own"}}, kNone},
      {"newest sum, carry", "wagma", 0, {{"stale", "carry"}, {"publish", "after"}}, kNone},
      {"carry, momentum averaged",
       "wagma",
       0,
       {{"stale", "carry"}, {"publish", "after"}, {"average-momentum", "yes"}},
       kNone},
      {"the same, jump",
       "wagma",
       0,
       {{"stale", "carry"}, {"publish", "after"}, {"average-momentum", "yes"}, {"late", "jump"}},
       kNone},
      {"the same, quorum, catch up", "wagma-quorum", 0, {{"stale", "carry"}, {"late", "catch-up"}}, kNone},
      {"wagma-quorum: moves, quorum, jump", "wagma-quorum", 0, {}, kNone},
  };
  return rows;
}

/// That what is recommended is the best of the rules of groups, or within the spread of it.
constexpr Claim kRequired[] = {
    {kRecommended, Claim::Kind::below, kAsPublished}, {kRecommended, Claim::Kind::not_above, kOwnSum},
    {kRecommended, Claim::Kind::not_above, kCarry},   {kRecommended, Claim::Kind::not_above, kMomentum},
    {kRecommended, Claim::Kind::not_above, kJump},    {kRecommended, Claim::Kind::not_above, kQuorumCatchUp},
    {kRecommended, Claim::Kind::below, kLocal},
};
/// What differs from one imbalance to another.
constexpr Claim kOpen[] = {
    {kRecommended, Claim::Kind::not_above, kSync},
    {kAsPublished, Claim::Kind::not_above, kOwnSum},
    {kMomentum, Claim::Kind::not_above, kCarry},
    {kMomentum, Claim::Kind::not_above, kAsPublished},
};

Experiment experiment(const std::string& title, const std::string& folder, TrainOptions options) {
  if (!options.out.empty()) options.out += "/" + folder;
  Experiment out{title, {}, {}, judge_wagma_semantics};
  for (const AlgorithmRow& row : rows()) {
    out.groups.push_back(group_of(row, options));
    out.expect.emplace_back("not in the paper");
  }
  return out;
}

}  // namespace

std::vector<Experiment> wagma_semantics_experiments(const ReproduceCommand& command) {
  const int all = command.ranks, quarter = std::max(2, all / 4);
  const Duration step = step_of(command);
  TrainOptions late = small_model(command, all, 0.6);
  late.imbalance = fmt::format("random:ranks={},delay={}+lognormal:mean={},cv=1", std::max(1, all / 32),
                               to_text(step / 2), to_text(step * 3 / 100));
  TrainOptions slow = small_model(command, quarter, 0.3);
  slow.imbalance = fmt::format("persistent:rank={},factor=2", std::min(3, quarter - 1));
  return {
      experiment(fmt::format("{} ranks, {} of them late by half a step each time", all, std::max(1, all / 32)), "late",
                 std::move(late)),
      experiment(fmt::format("{} ranks, log-normal steps", all), "lognormal",
                 with_lognormal_steps(small_model(command, all, 0.3), command)),
      experiment(fmt::format("{} ranks, log-normal steps", quarter), "lognormal-fewer-ranks",
                 with_lognormal_steps(small_model(command, quarter, 0.4), command)),
      experiment(fmt::format("{} ranks, one of them twice as slow throughout", quarter), "slow", std::move(slow)),
  };
}

Judgement judge_wagma_semantics(const Experiment& finished) {
  STRETTO_CHECK(finished.groups.size() == rows().size(), finished.groups.size(), " groups");
  const double end = seconds_of_all_steps(finished.groups.front().options);
  std::vector<std::vector<double>> losses;
  Table table(
      {"", fmt::format("training loss after {} s", significant(end)), "at the end", "batches applied a second"});
  for (const RunGroup& group : finished.groups) {
    std::vector<double> at_the_end, throughput;
    losses.emplace_back();
    for (const RunSummary& run : group.runs) {
      losses.back().push_back(train_loss_at(run, end));
      at_the_end.push_back(run.train_loss.value_or(kNone));
      throughput.push_back(run.throughput);
    }
    table.add({group.label, with_spread(mean(losses.back()), standard_deviation(losses.back())),
               with_spread(mean(at_the_end), standard_deviation(at_the_end)), significant(mean(throughput))});
  }
  const Judgement required = judge_claims(finished, "training loss", kRequired, losses);
  const Judgement open = judge_claims(finished, "not required", kOpen, losses);
  return {table.to_text() + required.text + open.text, required.holds};
}

}  // namespace stretto::command
