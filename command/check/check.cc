#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <limits>
#include <map>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "command/check/each_search.h"
#include "command/cli/command_line.h"
#include "command/cli/exit_code.h"
#include "command/cli/output.h"
#include "command/cli/progress.h"
#include "command/commands.h"
#include "stretto/base/defect.h"
#include "stretto/base/error.h"
#include "stretto/base/words.h"
#include "stretto/check/job_search.h"
#include "stretto/check/partial/search.h"
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
constexpr std::uint64_t kUnlimited = std::numeric_limits<std::uint64_t>::max();
constexpr std::uint64_t kDefaultRounds = 100'000;
constexpr std::uint64_t kOthersShare = 10;  // without --collective: of the rounds, for each of the other searches

struct CheckCommand {
  std::string collective;  // empty: all
  bool ordering = false;   // --ordering
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
  std::vector<std::string> names{"partial"};
  for (const JobSearch& search : all_searches()) names.emplace_back(search.name);
  return names;
}

void describe_options(CommandLine& line, CheckCommand& command) {
  std::string others;
  for (const JobSearch& search : all_searches()) others += fmt::format("; {}: {}", search.name, search.description);
  line.heading("What is searched");
  line.option("--collective", "NAME",
              fmt::format("Only this kind. partial: the partial allreduce{}. Default: partial, and then each of the "
                          "others with a tenth of the rounds.",
                          others),
              one_of(command.collective, collective_names()));
  line.flag("--ordering", "", "The same as --collective ordering.",
            [&command](std::string_view, const std::string&) { command.ordering = true; });
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
          "several {:.1f} %, of several hosts {:.1f} %;\n"
          "         float32 in {:.1f} %; {} batches dropped; {} jobs with a crash\n",
          pipelined, share(coverage.late), share(coverage.drained), share(coverage.full), share(coverage.held),
          share(coverage.empty), share(coverage.on_boards - coverage.between_boards), share(coverage.between_boards),
          share(coverage.between_hosts), share(coverage.real), coverage.passes, coverage.crashes));
}

/// Says how the search of a collective has ended. Returns whether it has found nothing, and reached enough.
bool conclude(const CheckCommand& command, const std::optional<std::string>& violation, std::uint64_t seed,
              const std::string& job, const std::string& shortfall) {
  if (violation) {
    print_to(stdout, fmt::format("VIOLATED at seed {}: {}\n  {}\n  again: {}\n", seed, *violation, job,
                                 replay_line(command, seed)));
    return false;
  }
  if (!shortfall.empty()) {
    print_to(stdout, fmt::format("the search did not reach enough: {}\n", shortfall));
    return false;
  }
  return true;
}

bool search_partial(const CheckCommand& command, std::uint64_t rounds) {
  SearchOptions options{.first_seed = *command.first_seed, .last_seed = command.last_seed, .rounds = rounds};
  if (!command.policy.empty()) options.limits.policy = kPolicies.at(command.policy);
  if (!command.over.empty()) options.limits.over = kOver.at(command.over);
  options.limits.ranks = command.ranks;
  std::optional<Progress> progress(std::in_place, "check", "rounds", rounds == kUnlimited ? 0 : rounds);
  options.progress = [&](const Coverage& coverage) { progress->update(coverage.rounds); };
  const SearchResult result = search(options);
  progress.reset();
  print_coverage(result);
  return conclude(command, result.violation, result.violating_seed, result.scenario, result.shortfall);
}

bool search_other(const CheckCommand& command, std::uint64_t rounds) {
  const JobSearch& search = *find_search(command.collective);
  std::optional<Progress> progress(std::in_place, "check", "rounds", rounds == kUnlimited ? 0 : rounds);
  const JobSearchResult result =
      search_jobs(search, {.first_seed = *command.first_seed,
                           .last_seed = command.last_seed,
                           .rounds = rounds,
                           .ranks = command.ranks,
                           .over = command.over.empty() ? std::nullopt : std::optional(kOver.at(command.over)),
                           .progress = [&](std::uint64_t searched) { progress->update(searched); }});
  progress.reset();
  print_to(stdout, fmt::format("{}: {} rounds of {} jobs, {} messages, in {:.1f} s ({:.0f} rounds a minute)\n",
                               search.name, result.rounds, result.jobs, result.messages, result.seconds,
                               result.seconds > 0 ? 60 * static_cast<double>(result.rounds) / result.seconds : 0));
  for (std::size_t i = 0; i < search.reaches.size(); ++i) {
    print_to(stdout, fmt::format("{}{}: {}{}", i == 0 ? "reached: " : ", ", search.reaches[i], result.reached[i],
                                 i + 1 == search.reaches.size() ? "\n" : ""));
  }
  return conclude(command, result.violation, result.violating_seed, result.job, result.shortfall);
}

void reject_without_effect(const CheckCommand& command) {
  if (command.collective.empty() || command.collective == "partial") return;
  const bool takes_over = find_search(command.collective)->run_over != nullptr;
  for (const auto& [option, value] :
       {std::pair{"--policy", command.policy}, std::pair{"--over", takes_over ? "" : command.over}}) {
    if (value.empty()) continue;
    throw UsageError(fmt::format("{} {} has no effect with --collective {}: expected with partial alone", option, value,
                                 command.collective));
  }
}

/// Whether the search has jobs of so many ranks.
bool has_ranks(const JobSearch& search, int ranks) {
  return ranks == 0 || (ranks >= search.fewest_ranks && ranks <= search.most_ranks);
}

/// Chooses the collective by --ordering, and refuses one that cannot have the ranks.
void settle_collective(CheckCommand& command) {
  if (command.ordering && !command.collective.empty() && command.collective != "ordering") {
    throw UsageError(
        fmt::format("--ordering and --collective {} exclude each other: leave one of them out", command.collective));
  }
  if (command.ordering) command.collective = "ordering";
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
    settle_collective(command);
  }
  if (command.collective.empty() && !(command.policy.empty() && command.over.empty())) command.collective = "partial";
  if (!command.first_seed) command.first_seed = 1;
  const bool bounded = command.last_seed != kUnlimited;
  const std::uint64_t rounds = command.rounds > 0 ? command.rounds : bounded ? kUnlimited : kDefaultRounds;
  print_to(stdout, fmt::format("seeds from {} on\n", *command.first_seed));
  std::fflush(stdout);
  const bool all = command.collective.empty();
  const std::vector<std::string> names = all ? collective_names() : std::vector{command.collective};
  const auto found_in = not_clean(names, [&](const std::string& name) {
    if (const JobSearch* search = find_search(name); search != nullptr && !has_ranks(*search, command.ranks)) {
      print_to(stdout,
               fmt::format("{}: left out, has {} to {} ranks\n", name, search->fewest_ranks, search->most_ranks));
      return true;
    }
    CheckCommand one = command;
    one.collective = name;
    const bool others = all && name != "partial" && rounds != kUnlimited;
    return name == "partial" ? search_partial(one, rounds)
                             : search_other(one, others ? (rounds + kOthersShare - 1) / kOthersShare : rounds);
  });
  if (found_in.empty()) {
    print_to(stdout, fmt::format("no violation\n"));
    return kSuccess;
  }
  if (all) print_to(stdout, fmt::format("not clean: {}\n", fmt::join(found_in, ", ")));
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
