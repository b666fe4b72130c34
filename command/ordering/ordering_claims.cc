#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "command/cli/table.h"
#include "command/ordering/ordering_scale.h"

namespace stretto::command {

namespace {

using enum OrderingScheme;

constexpr double kPoint = 0.01;
constexpr double kWithin = 5 * kPoint;  // of the paper's number
constexpr double kComputation = 56e-3;  // of a rank alone, in the paper's job
constexpr double kLimit = 30;           // seconds for the five schemes on the most ranks

constexpr std::array kCompared = {gs, nbcs, scp, topo};  // with the coordinator
/// Whose gain the fit knows nothing of.
constexpr OrderingScheme kNotFitted = scp;
/// Of the paper, on kPaperRanks.
constexpr double kCoordinatorOverhead = 0.46, kTopoOverhead = 0.034, kScalingLoss = 0.697;

std::string points(double share) {
  return fmt::format("{:+.1f} %", 100 * share);
}

class Claims {
 public:
  Claims(const ScaleRuns& runs, const ScaleOptions& options, bool fitted)
      : runs_(runs), fitted_(fitted), most_(scale_ranks(options).back()), whole_(most_ == kPaperRanks) {}

  void weak() {
    std::array<double, kCompared.size()> gains{};
    std::string seen;
    for (std::size_t i = 0; i < kCompared.size(); ++i) {
      gains[i] = runs_.gain("weak", most_, kCompared[i]);
      seen += fmt::format("{}{}", i == 0 ? "" : ", ", points(gains[i]));
    }
    add(fmt::format("gains on {} ranks: gs < nbcs < scp, and scp at most 1 point above topo", most_),
        "+10, +16, +18, +21 %", seen, gains[0] < gains[1] && gains[1] < gains[2] && gains[2] <= gains[3] + kPoint);
    if (fitted_ && whole_) near_the_paper(gains);
    overheads();
    input();
    const double handed_on = runs_.at("weak", most_, coordinator).skew_correlation[0];
    const double forgotten = runs_.at("weak", most_, gs).skew_correlation[0];
    add("autocorrelation of skew at lag 1: coordinator at least 0.8, gs at most 0.1", "–",
        fmt::format("{:.2f}, {:.2f}", handed_on, forgotten), handed_on >= 0.8 && std::abs(forgotten) <= 0.1);
  }

  void strong() {
    double best = 0;
    for (const int ranks : runs_.ranks_of("strong")) best = std::max(best, runs_.gain("strong", ranks, topo));
    add("strong scaling: topo's largest gain within 5 points", "+19 %", points(best), std::abs(best - 0.19) <= kWithin,
        Required::no);
  }

  void close(const ScaleChecks& checks) {
    add(fmt::format("five orderings of {} ranks within {:.0f} s of a core", most_, kLimit), "–",
        fmt::format("{:.1f} s", checks.seconds), checks.seconds <= kLimit);
    add("the same seed gives the same bits", "–", checks.same_bits ? "yes" : "no", checks.same_bits);
    add("thread by thread on cores, 6, 24 and 96 ranks: within 10 % of these", "–", percent(checks.apart),
        checks.apart <= 0.1);
  }

  Judgement judgement() const {
    std::string text = statements_table(statements_);
    if (!without_input_.empty()) {
      text += fmt::format("\nwithout input pipeline on {} ranks (asked of {} alone): {}", most_, kPaperRanks,
                          without_input_);
    }
    if (some_not_required_) text += "\nthe paper's strong scaling is not required";
    if (!fitted_) text += "\nof costs that are not the fit to the paper nothing is required";
    return {text, holds_ || !fitted_, statements_};
  }

 private:
  enum class Required { yes, no };
  void add(std::string text, std::string paper, std::string here, bool holds, Required required = Required::yes) {
    if (required == Required::no) {
      some_not_required_ = true;
    } else {
      holds_ = holds_ && holds;
    }
    statements_.push_back({std::move(text), std::move(paper), std::move(here), holds});
  }

  void near_the_paper(std::span<const double> gains) {
    const auto close = [&](const std::string& what, double paper, double here, bool fitted) {
      add(fmt::format("{} within 5 points{}", what, fitted ? " (fitted)" : " (not fitted)"), percent(paper),
          percent(here), std::abs(here - paper) <= kWithin);
    };
    for (std::size_t i = 0; i < kCompared.size(); ++i) {
      close(fmt::format("gain of {}", name_of(kCompared[i])), paper_gain(kCompared[i]), gains[i],
            kCompared[i] != kNotFitted);
    }
    close("overhead of the coordinator", kCoordinatorOverhead, share_of_overhead(most_, coordinator), true);
    close("overhead of topo", kTopoOverhead, share_of_overhead(most_, topo), true);
    close("scaling loss of the coordinator", kScalingLoss,
          1 - kComputation / runs_.at("weak", most_, coordinator).mean_step(), true);
  }

  void overheads() {
    const std::vector<int> ranks = runs_.ranks_of("weak");
    std::vector<double> of_coordinator, of_topo;
    for (const int each : ranks) {
      of_coordinator.push_back(share_of_overhead(each, coordinator));
      of_topo.push_back(share_of_overhead(each, topo));
    }
    const double last = of_coordinator.back();
    add(whole_ ? "overhead of the coordinator rises with every number of ranks, to 36 to 56 %"
               : "overhead of the coordinator rises with every number of ranks",
        "46 %", fmt::format("{} to {}", percent(of_coordinator.front()), percent(last)),
        std::ranges::is_sorted(of_coordinator) && (!whole_ || (last >= 0.36 && last <= 0.56)));
    add("overhead of topo is at most 8 % on 6 ranks and never rises", "3.4 % in the end",
        fmt::format("{} to {}", percent(of_topo.front()), percent(of_topo.back())),
        of_topo.front() <= 0.08 && std::ranges::is_sorted(of_topo, std::greater()));
  }

  void input() {
    double largest = 0;
    for (const OrderingScheme scheme : kCompared) {
      const double gain = runs_.gain(input_experiment(0), most_, scheme);
      if (whole_) {
        add(fmt::format("without input pipeline {} gains or loses at most 4 %", name_of(scheme)), "–", points(gain),
            std::abs(gain) <= 4 * kPoint);
      } else {
        without_input_ += fmt::format("{}{} {}", without_input_.empty() ? "" : ", ", name_of(scheme), points(gain));
      }
    }
    bool rises = true;
    std::string seen;
    for (const double share : {0.0, 0.24, 0.48, 0.72}) {
      const double gain = runs_.gain(input_experiment(share), most_, topo);
      rises = rises && (share == 0 || gain > largest);
      largest = gain;
      seen += fmt::format("{}{}", share == 0 ? "" : ", ", points(gain));
    }
    add("the more input (0, 24, 48, 72 % of the computation), the larger topo's gain", "so by network", seen, rises);
  }

  double share_of_overhead(int ranks, OrderingScheme scheme) const {
    const OrderedSteps& steps = runs_.at("weak", ranks, scheme);
    return steps.overhead / steps.mean_step();
  }

  const ScaleRuns& runs_;
  const bool fitted_;
  const int most_;
  const bool whole_;
  std::vector<Statement> statements_;
  std::string without_input_;  // gains on fewer ranks than the paper's, of which nothing is asked
  bool holds_ = true;          // of those that are required
  bool some_not_required_ = false;
};

}  // namespace

Judgement judge_scale(const ScaleRuns& runs, const ScaleOptions& options, bool fitted, const ScaleChecks& checks) {
  Claims claims(runs, options, fitted);
  if (options.strong) {
    claims.strong();
  } else {
    claims.weak();
  }
  claims.close(checks);
  return claims.judgement();
}

}  // namespace stretto::command
