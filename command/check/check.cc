#include <fmt/format.h>

#include <cstdio>
#include <limits>
#include <map>
#include <optional>
#include <random>

#include "command/cli/command_line.h"
#include "command/cli/exit_code.h"
#include "command/cli/print.h"
#include "command/cli/progress.h"
#include "command/commands.h"
#include "stretto/base/defect.h"
#include "stretto/base/error.h"
#include "stretto/base/words/suggest.h"
#include "stretto/check/search.h"

namespace stretto::command {

namespace {

const std::map<std::string, Policy::Kind> kPolicies = {{"full", Policy::Kind::full},
                                                       {"solo", Policy::Kind::solo},
                                                       {"majority", Policy::Kind::majority},
                                                       {"quorum", Policy::Kind::quorum},
                                                       {"deadline", Policy::Kind::deadline}};
const std::map<std::string, Over> kOver = {
    {"messages", Over::messages}, {"board", Over::board}, {"boards", Over::boards}};
constexpr std::uint64_t kUnlimited = std::numeric_limits<std::uint64_t>::max();
constexpr std::uint64_t kDefaultRounds = 100'000;

struct CheckCommand {
  std::optional<std::uint64_t> first_seed;
  std::uint64_t last_seed = kUnlimited;
  std::uint64_t rounds = 0;  // 0: not given
  std::string policy;
  std::string over;
  int ranks = 0;
  std::string defect;
};

void parse_seeds(CheckCommand& command, std::string_view option, const std::string& text) {
  constexpr std::string_view kExample = "1..100";
  if (text == "new") {
    command.first_seed = std::random_device{}();
    return;
  }
  const std::size_t dots = text.find("..");
  const auto parse = [&](const std::string& number) {
    std::uint64_t seed = 0;
    const bool digits = !number.empty() && number.find_first_not_of("0123456789") == std::string::npos;
    if (!digits || number.size() > 19) reject(option, text, "expected a seed, a range of seeds, or new", kExample);
    for (const char c : number) seed = seed * 10 + static_cast<std::uint64_t>(c - '0');
    return seed;
  };
  command.first_seed = parse(text.substr(0, dots));
  command.last_seed = dots == std::string::npos ? *command.first_seed : parse(text.substr(dots + 2));
  if (command.last_seed < *command.first_seed) reject(option, text, "expected the smaller seed first", kExample);
}

#ifdef STRETTO_DEFECTS
void plant(const std::string& name) {
  std::vector<std::string> known;
  for (const auto& [which, its_name] : defect_names()) {
    known.push_back(its_name);
    if (its_name == name) return switch_on(which);
  }
  throw UsageError(fmt::format("--defect {}: {}", name, suggestion(name, known)));
}
#else
void plant(const std::string& name) {
  throw UsageError(
      fmt::format("--defect {}: this build has no planted defects; `cmake --preset defects` makes one that "
                  "does, build/defects/bin/stretto",
                  name));
}
#endif

void describe_options(CommandLine& line, CheckCommand& command) {
  line.heading("What is searched");
  line.option("--rounds", "N",
              fmt::format("Takes seed after seed until there were so many rounds in all. Default {}, or what --seeds "
                          "has. 500,000 take a minute on one core at 8 ranks.",
                          kDefaultRounds),
              into(command.rounds, 1, "100000"));
  line.option("--seeds", "A..B",
              "Only these seeds; one number runs one again, to the bit. new: starts at a seed that nobody knows, and "
              "prints it. Default: from 1 on.",
              [&command](std::string_view option, const std::string& text) { parse_seeds(command, option, text); });
  line.option("--policy", "NAME",
              "Only rounds of this policy, beside full ones: full, solo, majority, quorum or deadline. Default: drawn.",
              one_of(command.policy, {"full", "solo", "majority", "quorum", "deadline"}));
  line.option("--over", "WHAT",
              "Only rounds over this: messages, board (all ranks meet in the memory of one host), or boards (they meet "
              "at several, with messages between these). Default: drawn.",
              one_of(command.over, {"messages", "board", "boards"}));
  line.option("--ranks", "N", "This many ranks. Default: drawn from 1 to 33.", into(command.ranks, 1, 64, "8"));
  line.option("--defect", "NAME",
              "In a build with planted defects: switches one on, which the search must then find. --defect list names "
              "them.",
              into(command.defect));
  line.example("stretto check", "A hundred thousand rounds, always the same ones.");
  line.example("stretto check --seeds new --rounds 20000", "Twenty thousand that nobody has tried yet.");
  line.example("stretto check --seeds 4711", "One scenario again: what a violation tells you to type.");
  line.note(
      "From each seed it draws a job (ranks, buckets, policy, delays, reordered messages, stalls, slow ranks and "
      "links, unequal numbers of steps, full rounds in between, crashes), runs the real engine and the real protocol "
      "on a simulated network, and checks after every transition that nothing promised is broken. It prints what it "
      "reached; without --policy, --over and --ranks, and from 10,000 rounds on, it fails when that is too little.");
}

void print_defects() {
  for (const auto& [which, name] : defect_names()) print_to(stdout, fmt::format("{}\n", name));
}

std::string replay_line(const CheckCommand& command, std::uint64_t seed) {
  std::string out = fmt::format("stretto check --seeds {}", seed);
  if (!command.policy.empty()) out += " --policy " + command.policy;
  if (!command.over.empty()) out += " --over " + command.over;
  if (command.ranks > 0) out += fmt::format(" --ranks {}", command.ranks);
  if (!command.defect.empty()) out += " --defect " + command.defect;
  return out;
}

void print_coverage(const SearchResult& result) {
  const Coverage& coverage = result.coverage;
  const auto share = [&](std::uint64_t count) {
    return coverage.rounds == 0 ? 0.0 : 100 * static_cast<double>(count) / static_cast<double>(coverage.rounds);
  };
  const std::uint64_t by_messages = coverage.rounds - coverage.on_boards;
  const double pipelined =
      by_messages == 0 ? 0.0 : 100 * static_cast<double>(coverage.pipelined) / static_cast<double>(by_messages);
  print_to(stdout, fmt::format("{} rounds of {} jobs, {} messages, in {:.1f} s ({:.0f} rounds a minute)\n",
                               coverage.rounds, coverage.scenarios, result.messages, result.seconds,
                               result.seconds > 0 ? 60 * static_cast<double>(coverage.rounds) / result.seconds : 0));
  print_to(
      stdout,
      fmt::format(
          "reached: s - c >= 2 on some rank in {:.1f} % of the rounds by messages, a late rank in {:.1f} % of all, a "
          "drained rank in {:.1f} %,\n"
          "         full rounds {:.1f} %, held back by max_lag {:.1f} %, empty {:.1f} %; on a board {:.1f} %, on "
          "several {:.1f} %;\n"
          "         float32 in {:.1f} %; {} jobs with a crash\n",
          pipelined, share(coverage.late), share(coverage.drained), share(coverage.full), share(coverage.held),
          share(coverage.empty), share(coverage.on_boards - coverage.between_boards), share(coverage.between_boards),
          share(coverage.real), coverage.crashes));
}

int run(const CheckCommand& command) {
  if (command.defect == "list") {
    print_defects();
    return kSuccess;
  }
  if (!command.defect.empty()) plant(command.defect);

  SearchOptions options;
  options.first_seed = command.first_seed.value_or(1);
  options.last_seed = command.last_seed;
  const bool bounded = command.last_seed != kUnlimited;
  options.rounds = command.rounds > 0 ? command.rounds : bounded ? kUnlimited : kDefaultRounds;
  if (!command.policy.empty()) options.limits.policy = kPolicies.at(command.policy);
  if (!command.over.empty()) options.limits.over = kOver.at(command.over);
  options.limits.ranks = command.ranks;
  std::optional<Progress> progress(std::in_place, "check", "rounds", options.rounds == kUnlimited ? 0 : options.rounds);
  options.progress = [&](const Coverage& coverage) { progress->update(coverage.rounds); };

  print_to(stdout, fmt::format("seeds from {} on\n", options.first_seed));
  std::fflush(stdout);
  const SearchResult result = search(options);
  progress.reset();
  print_coverage(result);
  if (result.violation) {
    print_to(stdout, fmt::format("VIOLATED at seed {}: {}\n  {}\n  again: {}\n", result.violating_seed,
                                 *result.violation, result.scenario, replay_line(command, result.violating_seed)));
    return kFailedRun;
  }
  if (!result.shortfall.empty()) {
    print_to(stdout, fmt::format("the search did not reach enough: {}\n", result.shortfall));
    return kFailedRun;
  }
  print_to(stdout, fmt::format("no violation\n"));
  return kSuccess;
}

}  // namespace

Subcommand check_command() {
  return make_command(
      {.name = "check",
       .summary = "Searches for a violation of what partial collectives promise, by simulation from seeds.",
       .introduction = "Searches for a violation of what a partial allreduce promises: deterministic simulation "
                       "testing, for developers and for whoever wants to know."},
      CheckCommand(), describe_options, run);
}

}  // namespace stretto::command
