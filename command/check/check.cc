#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <limits>
#include <map>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "command/check/each_search.h"
#include "command/cli/command_line.h"
#include "command/cli/commands.h"
#include "command/cli/exit_code.h"
#include "command/cli/output.h"
#include "command/cli/progress.h"
#include "stretto/base/defect.h"
#include "stretto/base/error.h"
#include "stretto/base/words.h"
#include "stretto/check/job_searches.h"
#include "stretto/papers/register.h"

namespace stretto::command {

namespace {

const std::map<std::string, Policy::Kind> kPolicies = {{"full", Policy::Kind::full},
                                                       {"solo", Policy::Kind::solo},
                                                       {"majority", Policy::Kind::majority},
                                                       {"quorum", Policy::Kind::quorum},
                                                       {"deadline", Policy::Kind::deadline}};
const std::map<std::string, Over> kOver = {
    {"messages", Over::messages}, {"board", Over::board}, {"boards", Over::boards}};
/// Of members that change: who is there, what is carried from world to world, and where models are averaged instead.
const std::vector<std::string> kOfMembers = {"members", "carried", "averaged"};
constexpr std::uint64_t kUnlimited = std::numeric_limits<std::uint64_t>::max();
constexpr std::uint64_t kDefaultRounds = 100'000;
constexpr std::uint64_t kOthersShare = 10;  // without --collective: of the rounds, for each of the other searches

struct CheckCommand {
  std::string collective;  // empty: all
  bool ordering = false;   // --ordering
  bool members = false;    // --members
  bool grid = false;       // --grid
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
/// Switches the defect on. Returns the collective in whose search it shows.
std::string plant(const std::string& name) {
  std::vector<std::string> known;
  for (const PlantedDefect& defect : planted_defects()) {
    known.emplace_back(defect.name);
    if (defect.name == name) {
      switch_on(defect.which);
      return std::string(defect.collective);
    }
  }
  throw UsageError(fmt::format("--defect {}: {}", name, suggestion(name, known)));
}
#else
std::string plant(const std::string& name) {
  throw UsageError(
      fmt::format("--defect {}: this program has no planted defects; `make defects` builds one that "
                  "does, build/release/bin/stretto-with-defects",
                  name));
}
#endif

/// Of the library's collectives, and of those of papers.
std::span<const JobSearch> all_searches() {
  static const std::vector<JobSearch> all = [] {
    std::vector<JobSearch> searches(job_searches().begin(), job_searches().end());
    const std::vector<JobSearch> others = paper_searches();
    searches.insert(searches.end(), others.begin(), others.end());
    return searches;
  }();
  return all;
}

/// Null: there is none of this name.
const JobSearch* find_search(std::string_view name) {
  const auto found = std::ranges::find(all_searches(), name, &JobSearch::name);
  return found == all_searches().end() ? nullptr : &*found;
}

std::vector<std::string> collective_names() {
  std::vector<std::string> names;
  for (const JobSearch& search : all_searches()) names.emplace_back(search.name);
  return names;
}

void describe_options(CommandLine& line, CheckCommand& command) {
  std::vector<std::string> kinds;
  for (const JobSearch& search : all_searches()) {
    kinds.push_back(fmt::format("{}: {}", search.name, search.description));
  }
  line.heading("What is searched");
  line.option("--collective", "NAME",
              fmt::format("Only this kind. {}. Default: partial, and then each of the others with a tenth of the "
                          "rounds.",
                          fmt::join(kinds, "; ")),
              one_of(command.collective, collective_names()));
  line.flag("--ordering", "", "The same as --collective ordering.",
            [&command](std::string_view, const std::string&) { command.ordering = true; });
  line.flag("--members", "",
            "Members of a job that change: --collective members, carried and averaged, each with as many rounds.",
            [&command](std::string_view, const std::string&) { command.members = true; });
  line.flag("--grid", "", "The same as --collective grid.",
            [&command](std::string_view, const std::string&) { command.grid = true; });
  line.option("--rounds", "N",
              fmt::format("Takes seed after seed until there were so many rounds in all. Default {}, or what --seeds "
                          "has. 500,000 take a minute on one core at 8 ranks.",
                          kDefaultRounds),
              into(command.rounds, 1, "100000"));
  line.option("--seeds", "A..B",
              "Only these seeds, a job each; one number runs one again, to the bit. new: starts at a seed that nobody "
              "knows, and prints it. Default: from 1 on.",
              [&command](std::string_view option, const std::string& text) { parse_seeds(command, option, text); });
  line.option("--policy", "NAME",
              "partial: only rounds of this policy, beside full ones: full, solo, majority, quorum or deadline. "
              "Default: drawn.",
              one_of(command.policy, {"full", "solo", "majority", "quorum", "deadline"}));
  line.option(
      "--over", "WHAT",
      "partial, group and buckets: only rounds over this: messages, board (all ranks meet in the memory of one host), "
      "or boards (they meet at several, with messages between these; buckets: at one). Default: drawn.",
      one_of(command.over, {"messages", "board", "boards"}));
  line.option("--ranks", "N",
              "This many ranks; what has no such jobs is left out. Default: drawn from 1 to 33, or from what a search "
              "has (ordering: 2 to 5).",
              into(command.ranks, 1, 64, "8"));
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
      "reached; without --policy, --over and --ranks, and from 10,000 rounds of a collective on, it fails when that is "
      "too little.");
}

void print_defects() {
  const std::vector<std::string> searched = collective_names();
  for (const PlantedDefect& defect : planted_defects()) {
    if (std::ranges::count(searched, defect.collective) != 0) print_to(stdout, fmt::format("{}\n", defect.name));
  }
}

std::string replay_line(const CheckCommand& command, std::uint64_t seed) {
  std::string out = fmt::format("stretto check --collective {} --seeds {}", command.collective, seed);
  if (!command.policy.empty()) out += " --policy " + command.policy;
  if (!command.over.empty()) out += " --over " + command.over;
  if (command.ranks > 0) out += fmt::format(" --ranks {}", command.ranks);
  if (!command.defect.empty()) out += " --defect " + command.defect;
  return out;
}

bool search(const CheckCommand& command, std::uint64_t rounds) {
  const JobSearch& searched = *find_search(command.collective);
  JobLimits limits{.ranks = command.ranks};
  if (!command.over.empty()) limits.over = kOver.at(command.over);
  if (!command.policy.empty()) limits.policy = kPolicies.at(command.policy);
  std::optional<Progress> progress(std::in_place, "check", "rounds", rounds == kUnlimited ? 0 : rounds);
  const JobSearchResult result =
      search_jobs(searched, {.first_seed = *command.first_seed,
                             .last_seed = command.last_seed,
                             .rounds = rounds,
                             .limits = limits,
                             .progress = [&](std::uint64_t done) { progress->update(done); }});
  progress.reset();
  print_to(stdout, fmt::format("{}: {} rounds of {} jobs, {} messages, in {:.1f} s ({:.0f} rounds a minute)\n",
                               searched.name, result.rounds, result.jobs, result.messages, result.seconds,
                               result.seconds > 0 ? 60 * static_cast<double>(result.rounds) / result.seconds : 0));
  for (std::size_t i = 0; i < searched.reaches.size(); ++i) {
    print_to(stdout, fmt::format("{}{}: {}{}", i == 0 ? "reached: " : ", ", searched.reaches[i].name, result.reached[i],
                                 i + 1 == searched.reaches.size() ? "\n" : ""));
  }
  if (result.violation) {
    print_to(stdout, fmt::format("VIOLATED at seed {}: {}\n  {}\n  again: {}\n", result.violating_seed,
                                 *result.violation, result.job, replay_line(command, result.violating_seed)));
  } else if (!result.shortfall.empty()) {
    print_to(stdout, fmt::format("the search did not reach enough: {}\n", result.shortfall));
  }
  return !result.violation && result.shortfall.empty();
}

void reject_without_effect(const CheckCommand& command) {
  if (command.collective.empty()) return;
  const JobSearch& search = *find_search(command.collective);
  for (const auto& [option, value, taken] : {std::tuple{"--policy", command.policy, search.takes_policy},
                                             std::tuple{"--over", command.over, search.takes_over}}) {
    if (value.empty() || taken) continue;
    throw UsageError(fmt::format("{} {} has no effect with --collective {}: expected with partial alone", option, value,
                                 command.collective));
  }
}

/// Whether the search has jobs of so many ranks.
bool has_ranks(const JobSearch& search, int ranks) {
  return ranks == 0 || (ranks >= search.fewest_ranks && ranks <= search.most_ranks);
}

/// Chooses the collective by --ordering or --grid, and refuses one that cannot have the ranks.
void settle_collective(CheckCommand& command) {
  for (const auto& [given, name] : {std::pair{command.ordering, "ordering"}, std::pair{command.grid, "grid"}}) {
    if (!given) continue;
    if (!command.collective.empty() && command.collective != name) {
      throw UsageError(
          fmt::format("--{} and --collective {} exclude each other: leave one of them out", name, command.collective));
    }
    command.collective = name;
  }
  if (command.members && !command.collective.empty()) {
    throw UsageError(
        fmt::format("--members and --collective {} exclude each other: leave one of them out", command.collective));
  }
  const JobSearch* search = find_search(command.collective);
  if (search != nullptr && !has_ranks(*search, command.ranks)) {
    throw UsageError(fmt::format("--ranks {} with --collective {}: expected {} to {}, as in --ranks {}", command.ranks,
                                 search->name, search->fewest_ranks, search->most_ranks, search->fewest_ranks));
  }
}

int run(const CheckCommand& given) {
  CheckCommand command = given;
  if (command.defect == "list") {
    print_defects();
    return kSuccess;
  }
  settle_collective(command);
  reject_without_effect(command);
  if (!command.defect.empty()) {
    const std::string shows_in = plant(command.defect);
    if (command.collective.empty()) command.collective = shows_in;
    command.members = false;
    settle_collective(command);
  }
  if (command.members && !(command.policy.empty() && command.over.empty())) {
    throw UsageError("--policy and --over have no effect with --members: expected with --collective carried");
  }
  if (command.collective.empty() && !(command.policy.empty() && command.over.empty())) command.collective = "partial";
  if (!command.first_seed) command.first_seed = 1;
  const bool bounded = command.last_seed != kUnlimited;
  const std::uint64_t rounds = command.rounds > 0 ? command.rounds : bounded ? kUnlimited : kDefaultRounds;
  print_to(stdout, fmt::format("seeds from {} on\n", *command.first_seed));
  std::fflush(stdout);
  const bool all = command.collective.empty() && !command.members;
  const std::vector<std::string> names = command.members ? kOfMembers
                                         : all           ? collective_names()
                                                         : std::vector{command.collective};
  const auto found_in = not_clean(names, [&](const std::string& name) {
    const JobSearch& one_of_all = *find_search(name);
    if (!has_ranks(one_of_all, command.ranks)) {
      print_to(stdout,
               fmt::format("{}: left out, has {} to {} ranks\n", name, one_of_all.fewest_ranks, one_of_all.most_ranks));
      return true;
    }
    CheckCommand one = command;
    one.collective = name;
    const bool others = all && name != "partial" && rounds != kUnlimited;
    return search(one, others ? (rounds + kOthersShare - 1) / kOthersShare : rounds);
  });
  if (found_in.empty()) {
    print_to(stdout, fmt::format("no violation\n"));
    return kSuccess;
  }
  if (names.size() > 1) print_to(stdout, fmt::format("not clean: {}\n", fmt::join(found_in, ", ")));
  return kFailedRun;
}

}  // namespace

Subcommand check_command() {
  return make_command(
      {.name = "check",
       .summary = "Searches for a violation of what partial collectives promise, by simulation from seeds.",
       .introduction =
           "Searches for a violation of what collectives promise that do not wait: deterministic simulation "
           "testing, for developers and for whoever wants to know."},
      CheckCommand(), describe_options, run);
}

}  // namespace stretto::command
