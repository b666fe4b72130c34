#include "stretto/check/partial/search.h"

#include <algorithm>
#include <chrono>

#include "stretto/base/defect.h"
#include "stretto/check/partial/rank_actor.h"

namespace stretto {
namespace {

constexpr std::uint64_t kJudgedFrom = 10'000;  // rounds from which on coverage is judged

std::string shortfall(const Coverage& c) {
  std::string out;
  const auto want = [&](std::uint64_t count, double share, std::uint64_t of, const char* what) {
    if (static_cast<double>(count) < share * static_cast<double>(of) || count == 0) {
      out += text(out.empty() ? "" : ", ", what, " in ", count, " of ", of, " rounds");
    }
  };
  want(c.pipelined, 0.05, c.rounds - c.on_boards, "s − c ≥ 2");  // 12 ± 2 % of 20,000 rounds
  want(c.on_boards, 0.2, c.rounds, "boards");
  want(c.between_boards, 0.05, c.rounds, "several boards");  // 16 ± 3 % of 20,000 rounds
  want(c.between_hosts, 0.02, c.rounds, "several hosts");    // 7 ± 2 % of 20,000 rounds
  want(c.real, 0.1, c.rounds, "float32");
  want(c.late, 0.3, c.rounds, "late ranks");
  want(c.drained, 0, c.rounds, "drained ranks");
  want(c.full, 0, c.rounds, "full rounds");
  want(c.held, 0, c.rounds, "held rounds");
  want(c.passes, 0, c.rounds, "dropped batches");
  return out;
}

Finding run_checked(Scenario scenario) {
  if (defect(Defect::full_beside_the_rounds)) scenario.options.full_every = 0;
  Oracle oracle(scenario);
  const std::uint64_t messages = run_ranks(scenario, oracle);
  return {oracle.violation(), oracle.coverage(), messages};
}

}  // namespace

Finding run_scenario(const Scenario& scenario) {
  const CheckFailuresThrow checks_throw;
  try {
    return run_checked(scenario);
  } catch (const CheckFailure& failure) {
    return {.violation = text("internal check: ", failure.what())};
  }
}

SearchResult search(const SearchOptions& options) {
  SearchResult result;
  const auto start = std::chrono::steady_clock::now();
  auto told = start;
  for (std::uint64_t seed = options.first_seed; result.coverage.rounds < options.rounds; ++seed) {
    const Scenario scenario = draw_scenario(seed, options.limits);
    Finding finding = run_scenario(scenario);
    ++result.seeds;
    result.coverage += finding.coverage;
    result.messages += finding.messages;
    if (finding.violation) {
      result.violation = std::move(finding.violation);
      result.violating_seed = seed;
      result.scenario = scenario.to_string();
      break;
    }
    const auto now = std::chrono::steady_clock::now();
    if (options.progress && now - told > std::chrono::seconds(1)) {
      told = now;
      options.progress(result.coverage);
    }
    if (seed == options.last_seed) break;
  }
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  const bool judged = !options.limits.policy && !options.limits.over && options.limits.ranks == 0 &&
                      result.coverage.rounds >= kJudgedFrom;
  if (judged && !result.violation) result.shortfall = shortfall(result.coverage);
  return result;
}

}  // namespace stretto
