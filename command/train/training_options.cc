#include "command/train/training_options.h"

#include <fmt/format.h>

#include <algorithm>

#include "command/cli/exit_code.h"
#include "command/machine/programs.h"
#include "command/predict/simulated_choice.h"
#include "command/run/hosts_of_job.h"
#include "command/run/job_options.h"
#include "command/train/rate_watch.h"
#include "stretto/base/error.h"
#include "stretto/base/function_ref.h"
#include "stretto/base/words.h"
#include "stretto/dispenser/dispenser.h"
#include "stretto/membership/hosts/settings.h"
#include "stretto/membership/job.h"
#include "stretto/observe/run_folder.h"
#include "stretto/simulate/cluster.h"
#include "stretto/train/job/run.h"
#include "stretto/train/options/option_table.h"
#include "stretto/train/recipes/recipes.h"
#include "stretto/transport/job_memory.h"

namespace stretto::command {

namespace {

std::vector<std::string> workload_names() {
  std::vector<std::string> out;
  for (const WorkloadInfo& info : workload_catalogue()) out.emplace_back(info.name);
  return out;
}

/// The place of this process among a fixed number of ranks: a member of a job that changes has none.
std::optional<LaunchedRank> fixed_place() {
  return launched_as_member() ? std::nullopt : launched_rank();
}

// Checks the name alone: the values possible behind its colon depend on the number of ranks.
void check_algorithm(std::string_view option, const std::string& text) {
  const std::string name = text.substr(0, text.find(':'));
  for (const std::string& known : algorithm_names()) {
    if (known == name) return;
  }
  throw UsageError(fmt::format("{} {}: {}", option, text, suggestion(name, algorithm_names())));
}

// Calls `take`, whose complaints begin with the name of an option without its dashes.
void with_dashes(FunctionRef<void()> take) {
  try {
    take();
  } catch (const UsageError& error) {
    throw UsageError(fmt::format("--{}", error.what()));
  }
}

std::vector<std::string> known_values(const JobOption& option) {
  if (option.name == "algorithm") return algorithm_names();
  if (option.name == "data") return {"shared", "partitioned", "ring", "sampled", "labels"};
  if (option.name == "network") return {"latency=", "bandwidth="};
  if (option.is_flag()) return {};
  return {option.words.begin(), option.words.end()};
}

// Beyond JobOption::set(): suggests what was meant, and refuses a text whose parts do not fit.
void check_text(const JobOption& option, std::string_view written, const std::string& text) {
  if (option.name == "algorithm") return check_algorithm(written, text);
  if (option.name == "network") return with_dashes([&] { parse_network(text); });
  if (option.name == "data" && text.starts_with("labels:")) {
    if (labels_a_rank(text) == 0) reject(written, text, "expected labels:K with K from 1", "labels:3");
  } else if (const auto known = known_values(option); !known.empty()) {
    std::string word;
    one_of(word, known)(written, text);
  }
}

/// `--ranks MIN:MAX`.
void set_range(const JobOption& ranks, TrainOptions& options, std::string_view written, const std::string& text) {
  const std::size_t colon = text.find(':');
  TrainOptions least, most;
  ranks.set(least, written, text.substr(0, colon));
  ranks.set(most, written, text.substr(colon + 1));
  if (least.ranks > most.ranks) {
    throw UsageError(
        fmt::format("{} {}: expected MIN:MAX, of which the first is not above the second, as in 2:8", written, text));
  }
  options.least = least.ranks;
  options.ranks = most.ranks;
}

/// `gives_ranks`: is set where --ranks is given.
void describe(CommandLine& line, TrainOptions& options, std::string_view heading, bool* gives_ranks = nullptr) {
  line.heading(std::string(heading));
  for (const JobOption& option : job_options()) {
    if (option.heading != heading) continue;
    const auto add = option.is_flag() ? &CommandLine::flag : &CommandLine::option;
    const Setter::Function set = [&option, &options, gives_ranks](std::string_view written, const std::string& text) {
      if (option.name == "ranks" && gives_ranks != nullptr) *gives_ranks = true;
      if (option.name == "ranks" && text.find(':') != std::string::npos)
        return set_range(option, options, written, text);
      check_text(option, written, text);
      option.set(options, written, option.is_flag() ? "true" : text);
    };
    (line.*add)(fmt::format("--{}", option.name), std::string(option.value), std::string(option.help),
                {known_values(option), set});
  }
}

void describe_job(CommandLine& line, TrainOptions& options, bool* gives_ranks = nullptr) {
  if (const auto launched = fixed_place()) options.ranks = launched->ranks;
  line.positional("WORKLOAD", CommandLine::Presence::required, fmt::format("what to train: {}", join(workload_names())),
                  one_of(options.workload, workload_names()));
  describe(line, options, "The job", gives_ranks);
}

void describe_algorithm(CommandLine& line, TrainOptions& options) {
  describe(line, options, "How it averages");
  line.heading("What only some algorithms have");
  for (const AlgorithmOption& option : algorithm_options()) {
    const std::string name(option.name);
    line.option(
        "--" + name, std::string(option.value), std::string(option.help),
        {{option.words.begin(), option.words.end()}, [&options, name](std::string_view, const std::string& value) {
           with_dashes([&] { options.algorithm_options.set(name, value); });
         }});
  }
  describe(line, options, "Who is slow");
  describe(line, options, "In virtual time");
}

void add_epilogue(CommandLine& line) {
  std::vector<std::pair<std::string, std::string>> algorithms;
  for (const RecipeInfo& recipe : recipes()) {
    algorithms.emplace_back(fmt::format("{}{}", recipe.name, recipe.argument), fmt::format("{}.", recipe.description));
  }
  line.topic("Algorithms", std::move(algorithms));
  std::vector<std::pair<std::string, std::string>> workloads;
  for (const WorkloadInfo& info : workload_catalogue()) {
    workloads.emplace_back(info.name,
                           fmt::format("{}. Needs {}. Unit of work: {}.", info.description, info.needs, info.unit));
  }
  line.topic("Workloads", std::move(workloads));
  std::vector<std::pair<std::string, std::string>> codes;
  for (const ExitMeaning& exit : exit_meanings()) codes.emplace_back(std::to_string(exit.code), exit.meaning);
  line.topic("Exit status", std::move(codes));
  line.note("Throughput is always counted in batches whose gradients were applied.");
}

void describe_train(CommandLine& line, TrainCommand& command) {
  describe_job(line, command.options, &command.gives_ranks);
  describe(line, command.options, "The algorithm");
  describe_algorithm(line, command.options);
  describe(line, command.options, "Between hosts");
  describe_hosts(line, command.members);
  line.heading("Processes that come");
  describe_restarts(line, command.members);
  describe_members(line, command.members);
  line.heading("How fast it should be");
  line.flag("--predict", "STEPS",
            "Predicts the rate from the first steps of the run (50 of each rank, or so many), shows it beside the "
            "measured one, and says when the two drift apart by more than 10 % and what has changed: computing, one "
            "rank, or the rounds.",
            [&command](std::string_view option, const std::string& text) {
              command.predict_from = RateWatch::kSteps;
              if (!text.empty()) into(command.predict_from, RateWatch::kFewest, "20")(option, text);
            });
  describe(line, command.options, "What it leaves behind");
  command.output.add_option(line);
  line.example("stretto train vowels --algorithm eager-quorum", "Real, naturally imbalanced data on four ranks.");
  line.example(
      "stretto train digits --ranks 8 --pace 1ms --imbalance persistent:rank=3,factor=3 --algorithm eager-solo",
      "One rank three times slower than the rest; nobody waits for it.");
  line.example("mpirun -n 4 stretto train vowels", "The same job, started by MPI's launcher.");
  line.example("stretto train vowels --hosts a:2,b:2", "Two ranks on each of two hosts, by ssh.");
  line.example("stretto train vowels --ranks 2:8 --restarts 3 --listen 29400",
               "Goes on with two; others take the places of lost ones, and come by stretto join.");
  line.example("stretto train digits --simulated --ranks 64 --pace 1ms --algorithm eager-solo",
               "64 ranks on this machine, in virtual time.");
  line.example("stretto train vowels --pace 500us --predict", "Does it go as fast as it began, and if not, why?");
  add_epilogue(line);
}

void describe_compare(CommandLine& line, CompareCommand& command) {
  describe_job(line, command.options);
  line.heading("The comparison");
  line.option("--algorithms", "LIST",
              fmt::format("Which ones of those below; the first is what the others are compared with. Default {}.",
                          command.list),
              into(command.list, algorithm_names()));
  line.option("--repeats", "N",
              "Runs of each algorithm, with seeds from --seed on, interleaved. From two on the table has spreads, and "
              "differences their 95 % intervals. Default 3.",
              into(command.repeats, 1, 1000, "10"));
  describe_algorithm(line, command.options);
  line.heading("What it leaves behind");
  line.option(
      "--out", "DIR",
      "A run folder for each run, and curves of the training loss over batches and over time: as CSV, and as SVG "
      "where matplotlib is in .venv.",
      into(command.options.out));
  command.output.add_option(line);
  line.example("stretto compare vowels --pace 500us", "Does not waiting pay on this data?");
  line.example(
      "stretto compare vowels --ranks 8 --algorithms sync,eager-quorum:6,eager-quorum:4,eager-quorum:2,eager-solo "
      "--repeats 10 --pace 500us",
      "The dial from waiting to staleness.");
  line.example("stretto compare digits --pace 1ms --imbalance random:ranks=1,delay=20ms --json=result.json",
               "Injected delays, for a program to read.");
  line.example("stretto compare --program ./mine --ranks 4 -- --epochs 3",
               "The same for a program of your own: `stretto compare --program ./mine --help`.");
  add_epilogue(line);
}

TaskFacts plentiful(const WorkloadInfo& info) {
  TaskFacts facts;
  facts.name = info.name;
  facts.unit = info.unit;
  facts.samples = std::uint64_t{1} << 24;  // whether the data suffices is known when it has been read
  facts.classifies = info.classifies;
  facts.sums_in_passes = info.sums_in_passes;
  facts.batch = info.batch;
  facts.lr = info.lr;
  facts.momentum = info.momentum;
  facts.epochs = info.epochs;
  return facts;
}

}  // namespace

void require_effect(const TrainOptions& options, std::span<const std::string> algorithms) {
  const auto require = [&](bool was_given, const char* option, auto has_effect, const char* expected) {
    if (!was_given || std::ranges::any_of(algorithms, has_effect)) return;
    throw UsageError(fmt::format("{} has no effect with {}: {}", option, join(algorithms), expected));
  };
  require(
      options.quorum != 0, "--quorum", [](const std::string& name) { return name == "eager-quorum"; },
      "expected with eager-quorum, without a number behind its colon");
  const auto recipe = [](const std::string& algorithm) {
    return find_recipe(algorithm.substr(0, algorithm.find(':')));
  };
  for (const auto& [name, value] : options.algorithm_options.values()) {
    std::vector<std::string> takers;
    for (const RecipeInfo& known : recipes()) {
      if (std::ranges::count(known.options, name) != 0) takers.emplace_back(known.name);
    }
    require(
        true, fmt::format("--{} {}", name, value).c_str(),
        [&](const std::string& algorithm) { return std::ranges::count(takers, recipe(algorithm)->name) != 0; },
        fmt::format("expected with {}", join(takers, " or ")).c_str());
  }
  require(
      options.normalize == Normalize::ranks, "--normalize ranks",
      [&](const std::string& algorithm) { return !recipe(algorithm)->averages_models; },
      "models are averaged over those that contribute; expected contributors or samples");
  require(
      options.fixed_order == false, "--order arrival",
      [](const std::string& name) { return name != "local" && name != "diloco" && name != "sync"; },
      "it sums in one order; leave it out, or say --order fixed");
  if (options.fixed_order == false && options.simulated) {
    throw UsageError("--order arrival has no effect with --simulated, which sums in one order; leave it out");
  }
  if (!options.between.empty()) with_dashes([&] { (void)between_hosts({}, options.between); });
  if (options.seats > 1 && options.delivery == "latest") {
    throw UsageError(fmt::format(
        "--seats {} has no effect with --delivery latest: rounds are held by messages alone there; leave it out",
        options.seats));
  }
}

void check_training(const TrainOptions& options) {
  if (options.simulated && launched_from_outside()) {
    throw UsageError("--simulated: all ranks are in one process; start it by itself, with --ranks N");
  }
  resolved(options, plentiful(workload_info(options.workload)));
  if (const auto launched = fixed_place(); launched && launched->ranks != options.ranks) {
    throw UsageError(fmt::format("--ranks {}: this job was started with {} ranks; leave --ranks out", options.ranks,
                                 launched->ranks));
  }
  if (launched_from_outside()) return;  // the host may not have the folders: who prepares them looks at them
  if (!options.resume.empty()) {
    if (const auto folder = RunFolder::open(options.resume); !folder) {
      throw UsageError(fmt::format("--resume {}: {}", options.resume, folder.error().message));
    }
  }
  if (!options.out.empty()) require_writable_folder("--out", options.out);
}

int code_of(const EndOfPrograms& end) {
  if (end.interrupted) return kInterrupted;
  return end.status > 128 || end.first_lost > 128 ? static_cast<int>(kLostRank) : end.status;
}

bool TrainCommand::starts_hosts() const {
  return !members.hosts.empty() && !launched_from_outside();
}

bool TrainCommand::starts_members() const {
  return has_member_options(members) && !launched_as_member();
}

namespace {

/// Takes from the hosts how many ranks there are, where no option says it.
void take_hosts(TrainCommand& command) {
  if (command.options.simulated || command.predict_from != 0) {
    throw UsageError(fmt::format("{} with --hosts: expected ranks on this host",
                                 command.options.simulated ? "--simulated" : "--predict"));
  }
  command.members.ranks = command.gives_ranks ? command.options.ranks : 0;
  command.members.least = command.options.least;
  if (command.options.liveness > Duration::zero()) command.members.liveness = command.options.liveness;
  check_hosts(command.members);
  command.options.ranks = command.members.ranks;
}

/// A fixed number of ranks on hosts, each of which is this command again.
int run_ranks_on_hosts(const TrainCommand& command) {
  ProgramRanks job = command.members;
  job.program = own_program();
  job.is_own = is_stretto();
  return code_of(run_program_ranks(job, "stretto train"));
}

/// Takes from the options of the run what those of its members do not say.
void check_members(TrainCommand& command) {
  if (!command.starts_members()) return;
  const TrainOptions& options = command.options;
  if (options.simulated) {
    throw UsageError("--simulated with options of processes that come: expected --churn, or a real run");
  }
  if (command.predict_from != 0) {
    throw UsageError(
        "--predict: only ranks that stretto forks can be watched, and no process comes to these; leave it "
        "out, or --restarts and the like");
  }
  command.members.ranks = options.ranks;
  command.members.least = options.least;
  if (options.liveness > Duration::zero()) command.members.liveness = options.liveness;
  check_member_options(command.members);
}

}  // namespace

void check_prediction(const TrainOptions& options) {
  if (const auto launched = fixed_place()) {
    throw UsageError(
        fmt::format("--predict: no process watches the ranks that {} starts; leave it out, or start the "
                    "ranks by --ranks {}",
                    launched->starter, launched->ranks));
  }
  if (options.simulated) {
    throw UsageError("--predict: a simulated run is as fast as its model says; leave out --predict or --simulated");
  }
  const RecipeInfo* recipe = find_recipe(options.algorithm.substr(0, options.algorithm.find(':')));
  if (recipe != nullptr && recipe->name == "k-sync") {
    throw UsageError("--predict: how many batches k-sync drops is known when it has ended; expected another algorithm");
  }
  const std::string servers = options.algorithm_options.word("servers", "");
  if (servers.starts_with("dedicated")) {
    throw UsageError(
        fmt::format("--predict: with --servers {} some ranks make no steps; expected a number of servers "
                    "among the ranks that do, as in --servers 1",
                    servers));
  }
  require_simulation(options);
}

Subcommand train_command(std::function<int(const TrainCommand&)> run) {
  const auto checked = [run = std::move(run)](TrainCommand& command) {
    if (command.starts_hosts()) take_hosts(command);
    const bool on_hosts = command.starts_hosts() && command.members.least == 0;
    TrainOptions options = command.options;
    if (on_hosts) options.out = options.resume = "";  // of rank 0's host
    check_training(options);
    check_members(command);
    if (command.predict_from != 0) check_prediction(command.options);
    require_effect(command.options, std::span(&command.options.algorithm, 1));
    return on_hosts ? run_ranks_on_hosts(command) : run(command);
  };
  return make_command({.name = "train",
                       .summary = "Trains a network on several ranks, by one algorithm.",
                       .introduction = "Trains a network on real data in several worker processes, and says what "
                                       "waiting for each other cost."},
                      TrainCommand(), describe_train, checked);
}

Subcommand compare_command(std::function<int(const CompareCommand&)> run) {
  const auto checked = [run = std::move(run)](CompareCommand& command) {
    if (launched_rank()) {
      throw UsageError("compare starts its own ranks, run after run: start it by itself, with --ranks N");
    }
    for (const std::string& algorithm : split_policies(command.list)) {
      check_algorithm("--algorithms", algorithm);
      TrainOptions options = command.options;
      options.algorithm = algorithm;
      check_training(options);
      command.algorithms.push_back(algorithm);
    }
    require_effect(command.options, command.algorithms);
    return run(command);
  };
  return make_command({.name = "compare",
                       .summary = "Trains the same job by several algorithms and shows what waiting cost.",
                       .introduction = "Trains the same job by several algorithms, with the same seeds and the same "
                                       "delays, and shows in one table what each gains and costs."},
                      CompareCommand(), describe_compare, checked);
}

}  // namespace stretto::command
