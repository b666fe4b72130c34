#include "command/train/compare_program.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "command/cli/exit_code.h"
#include "command/cli/output.h"
#include "command/cli/table.h"
#include "command/cli/values.h"
#include "command/machine/machine.h"
#include "command/machine/programs.h"
#include "command/statistics/statistics.h"
#include "command/train/report.h"
#include "stretto/base/error.h"
#include "stretto/base/machine/cores.h"
#include "stretto/imbalance/spec.h"
#include "stretto/membership/job.h"
#include "stretto/observe/run_folder.h"
#include "stretto/observe/temporary_folder.h"
#include "stretto/observe/whole_file.h"
#include "stretto/train/loop/loop_report.h"
#include "stretto/train/recipes/recipes.h"
#include "stretto/transport/job_memory.h"

namespace stretto::command {

namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr std::string_view kShell = "/bin/sh";
constexpr std::string_view kFolderOfEachRun = "STRETTO_OUT names a folder of each run's own";

struct ProgramCommand {
  std::string program;
  std::vector<std::string> words;      // between the program and its arguments
  std::vector<std::string> arguments;  // of the program
  std::string name;                    // of what runs, in messages
  std::string function;                // FILE.py:FUNCTION; empty: it is a program
  std::string python;                  // --python
  std::string list = "sync,eager-quorum,eager-solo";
  std::vector<std::string> algorithms;  // those of `list`
  int ranks = 0;                        // 0: the program's own
  int repeats = 3;
  std::uint64_t seed = 1;
  std::string imbalance;
  std::string out;
  Output output;
};

/// The runs of one optimizer of the program by one algorithm, one a seed.
struct OptimizerRuns {
  std::string algorithm;
  int optimizer = 0;
  std::vector<LoopReport> runs;
};

void describe_comparison(CommandLine& line, ProgramCommand& command) {
  line.option("--algorithms", "LIST",
              fmt::format("Which ones; the first is what the others are compared with. Default {}.", command.list),
              into(command.list, algorithm_names()));
  line.option("--repeats", "N", "Runs by each algorithm, with seeds from --seed on, interleaved. Default 3.",
              into(command.repeats, 1, 1000, "10"));
  line.option("--seed", "N", "Of the first run: added to the seeds of batches() and of the options. Default 1.",
              into(command.seed, 0, "7"));
  line.option(
      "--imbalance", "SPEC",
      "Which ranks are slow, by sleeping in the steps of the first optimizer: as `stretto train --imbalance` has "
      "it, such as persistent:rank=3,factor=3. Default none.",
      into(command.imbalance));
  line.rest("ARGUMENTS", command.arguments);
  line.heading("What it leaves behind");
  line.option("--out", "DIR", "The reports and steps of every run, its output, and waiting.svg: who waits for whom.",
              into(command.out));
  command.output.add_option(line);
}

void describe_options(CommandLine& line, ProgramCommand& command) {
  line.heading("The comparison");
  line.option("--program", "PROGRAM", "What to run: a file, or a name on PATH. It starts its ranks by run_ranks().",
              into(command.program));
  line.option("--ranks", "N", "How many ranks run_ranks() starts. Default: as many as the program says.",
              into(command.ranks, 1, JobMemory::kMaxRanks, "4"));
  describe_comparison(line, command);
  line.example("stretto compare --program ./mine --ranks 4 -- --epochs 3", "Does not waiting pay for this program?");
  line.note(
      "A number that the program hands to DistributedOptimizer::record() is a column of the table: \"test accuracy\" "
      "(a share) or \"test loss\" is compared in the last line, too. A program with several optimizers has a row for "
      "each; the speed-up is that of the first. The environment variables STRETTO_ALGORITHM, STRETTO_RANKS, "
      "STRETTO_SEED and STRETTO_OUT tell the program what to do.");
}

void describe_function(CommandLine& line, ProgramCommand& command) {
  command.ranks = 4;
  line.positional("FILE.py:FUNCTION", CommandLine::Presence::required,
                  "a function of Python without arguments, which builds its own model and stretto.Optimizer, trains, "
                  "and returns a number: a loss, an accuracy",
                  into(command.function));
  line.heading("The comparison");
  line.option("--ranks", "N", "How many processes. Default 4.", into(command.ranks, 1, JobMemory::kMaxRanks, "4"));
  describe_comparison(line, command);
  line.heading("What runs it");
  line.option(
      "--python", "PROGRAM",
      "An interpreter that has the package stretto. Default: that of STRETTO_PYTHON, of the virtual environment "
      "that is active, of the nearest .venv, or python3.",
      into(command.python));
  line.example("stretto compare train.py:train --algorithms sync,eager-quorum",
               "Does not waiting pay for this training?");
  line.example("stretto compare train.py:train --imbalance persistent:rank=3,factor=3 -- --epochs 3",
               "And if one rank were three times slower? sys.argv of the file has what follows --.");
  line.note(
      "The file is imported in each rank, with RANK and WORLD_SIZE as torchrun sets them. The algorithm that the "
      "function "
      "names is overridden; STRETTO_SEED is there to be read. What it returns, the mean over the ranks, is the column "
      "\"metric\". In a script or a notebook stretto.compare() does the same.");
}

/// The file that is run. Throws UsageError where it cannot be.
std::string executable(const std::string& program) {
  const std::string path = program.find('/') == std::string::npos ? find_on_path(program) : program;
  std::error_code error;
  if (path.empty() || !fs::exists(path, error)) {
    const bool here = path.empty() && fs::exists(program, error);
    throw UsageError(fmt::format("--program {}: there is no such program{}", program,
                                 here ? fmt::format(" on PATH; did you mean ./{}?", program) : ""));
  }
  if (!fs::is_regular_file(path, error) || ::access(path.c_str(), X_OK) != 0) {
    throw UsageError(fmt::format("--program {}: it cannot be run (no executable file)", program));
  }
  return fs::absolute(path).string();
}

std::string last_line(const std::string& text) {
  const std::size_t end = text.find_last_not_of('\n');
  if (end == std::string::npos) return {};
  const std::size_t begin = text.find_last_of('\n', end);
  return text.substr(begin == std::string::npos ? 0 : begin + 1,
                     end - (begin == std::string::npos ? 0 : begin + 1) + 1);
}

fs::path folder_of(const fs::path& run, std::size_t optimizer) {
  return loop_report_folder(run.string(), static_cast<int>(optimizer));
}

/// Removes what an earlier run has left in its folder, and nothing else.
void clear(const fs::path& run) {
  std::error_code ignored;
  for (std::size_t i = 0; fs::exists(folder_of(run, i), ignored); ++i) {
    fs::remove(folder_of(run, i) / "report.json", ignored);
    for (int rank = 0; fs::remove(folder_of(run, i) / fmt::format("records-{}.jsonl", rank), ignored); ++rank) {
    }
    if (!fs::remove(folder_of(run, i), ignored)) break;  // something else is in it
  }
}

/// One run, whose reports come back by optimizer. `is_first`: no other one has left files before it. Throws Failure.
std::vector<LoopReport> run_once(const ProgramCommand& command, const std::string& algorithm, std::uint64_t seed,
                                 const fs::path& folder, bool is_first) {
  clear(folder);
  fs::create_directories(folder);
  // The shell keeps what the program prints beside its reports.
  std::vector<std::string> arguments{std::string(kShell), "-c",
                                     "exec \"$@\" >\"$STRETTO_OUT/stdout\" 2>\"$STRETTO_OUT/stderr\"", "sh",
                                     command.program};
  arguments.insert(arguments.end(), command.words.begin(), command.words.end());
  arguments.insert(arguments.end(), command.arguments.begin(), command.arguments.end());
  std::vector<std::string> environment{"STRETTO_ALGORITHM=" + algorithm, fmt::format("STRETTO_SEED={}", seed),
                                       "STRETTO_OUT=" + fs::absolute(folder).string()};
  if (command.ranks != 0) environment.push_back(fmt::format("STRETTO_RANKS={}", command.ranks));
  if (!command.imbalance.empty()) environment.push_back("STRETTO_IMBALANCE=" + command.imbalance);
  const auto ended = run_program(arguments, environment, std::chrono::hours(1000));
  if (!ended) {
    const auto said = read_whole_file((folder / "stderr").string(), FileContent::bytes);
    std::string why = said ? last_line(*said) : std::string();
    if (why.empty()) why = "it" + ended.error().message.substr(kShell.size());
    if (!is_first) why += fmt::format("; does it go on from a file of the run before? {}", kFolderOfEachRun);
    throw Failure({Errc::aborted, fmt::format("{} failed under {}: {}", command.name, algorithm, why)});
  }
  std::vector<LoopReport> reports;
  for (;;) {
    const fs::path of_one = folder_of(folder, reports.size());
    if (!fs::exists(of_one / "records-0.jsonl")) break;
    auto report = read_loop_report(of_one.string());
    if (!report) {
      throw Failure({Errc::bad_input,
                     fmt::format("{} ended under {} before its optimizer {} had finished: call finish() on every rank",
                                 command.name, algorithm, reports.size())});
    }
    reports.push_back(*std::move(report));
  }
  if (reports.empty()) {
    throw Failure({Errc::bad_input,
                   fmt::format("{} has made no {} under {}: nothing can be compared", command.name,
                               command.function.empty() ? "DistributedOptimizer" : "stretto.Optimizer", algorithm)});
  }
  if (reports.front().batches == 0) {
    throw Failure(
        {Errc::bad_input,
         fmt::format("{} has applied no batch under {}: does it go on from a checkpoint of the run before? {}",
                     command.name, algorithm, kFolderOfEachRun)});
  }
  return reports;
}

double throughput(const LoopReport& run) {
  return run.seconds > 0 ? static_cast<double>(run.batches) / run.seconds : 0;
}

template <class Get>
std::string spread_of(const OptimizerRuns& row, Get get) {
  std::vector<double> values;
  for (const LoopReport& run : row.runs) values.push_back(get(run));
  return with_spread(mean(values), standard_deviation(values), 3);
}

double recorded(const LoopReport& run, const std::string& name) {
  const auto found = run.recorded.find(name);
  return found == run.recorded.end() ? std::numeric_limits<double>::quiet_NaN() : found->second;
}

/// As the verdict and the picture want them: the first optimizer of each algorithm.
std::vector<RunGroup> groups_of(const std::vector<OptimizerRuns>& rows, std::uint64_t seed) {
  std::vector<RunGroup> groups;
  for (const OptimizerRuns& row : rows) {
    if (row.optimizer != 0) continue;
    RunGroup group{row.algorithm, {}, {}};
    for (const LoopReport& run : row.runs) {
      RunSummary summary;
      summary.seed = seed + group.runs.size();
      summary.throughput = throughput(run);
      if (run.recorded.contains("test accuracy")) summary.accuracy = run.recorded.at("test accuracy");
      if (run.recorded.contains("test loss")) summary.loss = run.recorded.at("test loss");
      group.runs.push_back(std::move(summary));
    }
    groups.push_back(std::move(group));
  }
  return groups;
}

std::string table_of(const std::vector<OptimizerRuns>& rows, const std::vector<RunGroup>& groups) {
  std::set<std::string> names;
  bool several = false;
  for (const OptimizerRuns& row : rows) {
    several |= row.optimizer != 0;
    for (const LoopReport& run : row.runs) {
      for (const auto& [name, value] : run.recorded) names.insert(name);
    }
  }
  std::vector<std::string> head{"algorithm"};
  if (several) head.emplace_back("optimizer");
  head.insert(head.end(), {"batches/s", "speed-up"});
  head.insert(head.end(), names.begin(), names.end());
  head.insert(head.end(), {"staleness", "waiting"});
  Table table(head);
  std::size_t group = 0;
  for (const OptimizerRuns& row : rows) {
    std::vector<std::string> cells{row.algorithm};
    if (several) cells.push_back(fmt::format("{}", row.optimizer));
    cells.push_back(spread_of(row, throughput));
    cells.push_back(row.optimizer == 0 ? significant(mean(speedups(groups.front(), groups[group++]))) + "×" : "");
    for (const std::string& name : names) {
      cells.push_back(spread_of(row, [&name](const LoopReport& run) { return recorded(run, name); }));
    }
    std::uint64_t stalest = 0;
    double stale = 0, waited = 0, all = 0;
    for (const LoopReport& run : row.runs) {
      stalest = std::max(stalest, run.staleness_max);
      stale += run.staleness_mean / static_cast<double>(row.runs.size());
      waited += run.waited;
      all += run.waited + run.computed;
    }
    cells.push_back(fmt::format("{:.2f}, max {}", stale, stalest));
    cells.push_back(percent(all > 0 ? waited / all : 0, 0));
    table.add(cells);
  }
  return table.to_text();
}

Json json_of(const ProgramCommand& command, const std::vector<OptimizerRuns>& rows, const std::vector<RunGroup>& groups,
             const Machine& machine) {
  Json out = {{"program", command.name},
              {"imbalance", command.imbalance.empty() ? "none" : command.imbalance},
              {"runs", Json::array()}};
  std::size_t group = 0;
  for (const OptimizerRuns& row : rows) {
    const std::vector<double> gains =
        row.optimizer == 0 ? speedups(groups.front(), groups[group++]) : std::vector<double>();
    for (std::size_t i = 0; i < row.runs.size(); ++i) {
      const LoopReport& run = row.runs[i];
      out["runs"].push_back({{"algorithm", row.algorithm},
                             {"optimizer", row.optimizer},
                             {"seed", command.seed + i},
                             {"ranks", run.ranks},
                             {"batches", run.batches},
                             {"throughput", throughput(run)},
                             {"speedup", gains.empty() ? Json(nullptr) : Json(gains[i])},
                             {"staleness_mean", run.staleness_mean},
                             {"staleness_max", run.staleness_max},
                             {"computed", run.computed},
                             {"waited", run.waited},
                             {"lost_deposits", run.lost_deposits},
                             {"replicas_identical", run.replicas_identical},
                             {"recorded", run.recorded}});
    }
  }
  out["machine"] = machine.to_json();
  return out;
}

/// Says what is to be run, and how. Throws UsageError where it cannot be.
void find_program(ProgramCommand& command) {
  if (!command.imbalance.empty()) {
    command.imbalance =
        Imbalance::parse(command.imbalance, command.ranks == 0 ? JobMemory::kMaxRanks : command.ranks).to_string();
  }
  if (command.function.empty()) {
    command.name = command.program = executable(command.program);
    return;
  }
  const PythonFunction function = parse_python_function(command.function);
  command.name = command.function;
  command.program = python_interpreter(command.python);
  require_function(command.program, function);
  command.words = {"-m", "stretto._compare_entry", function.file, function.function};
}

int run(const ProgramCommand& given) {
  ProgramCommand command = given;
  if (launched_rank()) throw UsageError("compare starts the program, run after run: start it by itself");
  command.algorithms = split_policies(command.list);
  if (command.algorithms.empty()) throw UsageError("--algorithms: expected at least one");
  find_program(command);
  std::optional<RunFolderLock> lock;
  if (!command.out.empty()) {
    require_writable_folder("--out", command.out);
    lock.emplace(command.out);
  }
  const Machine machine = this_machine();
  command.output.say(machine.to_text());
  if (!command.imbalance.empty()) command.output.say("injected: " + command.imbalance);
  std::optional<TemporaryFolder> temporary;
  const fs::path out = command.out.empty() ? fs::path(temporary.emplace().path()) : fs::path(command.out);

  std::vector<std::vector<OptimizerRuns>> by_algorithm(command.algorithms.size());
  for (int repeat = 0; repeat < command.repeats; ++repeat) {
    for (std::size_t position = 0; position < by_algorithm.size(); ++position) {
      const std::size_t at = rotated(position, repeat, by_algorithm.size());
      const std::string& algorithm = command.algorithms[at];
      const std::uint64_t seed = command.seed + static_cast<std::uint64_t>(repeat);
      const fs::path folder = out / run_folder_name({algorithm, {}, {}}, seed);
      const auto reports = run_once(command, algorithm, seed, folder, repeat == 0 && position == 0);
      auto& rows = by_algorithm[at];
      if (rows.empty()) rows.resize(reports.size());
      if (rows.size() != reports.size()) {
        throw Failure({Errc::bad_input, fmt::format("{} has made {} optimizers under {} where it made {} before",
                                                    command.name, reports.size(), algorithm, rows.size())});
      }
      for (std::size_t i = 0; i < rows.size(); ++i) {
        rows[i].algorithm = algorithm;
        rows[i].optimizer = static_cast<int>(i);
        rows[i].runs.push_back(reports[i]);
      }
    }
  }
  std::vector<OptimizerRuns> rows;
  for (auto& of_one : by_algorithm) rows.insert(rows.end(), of_one.begin(), of_one.end());
  const std::vector<RunGroup> groups = groups_of(rows, command.seed);
  command.output.say(table_of(rows, groups));
  if (const int ranks = rows.front().runs.front().ranks; ranks > num_cores()) {
    command.output.say(
        fmt::format("{} ranks on {} cores: ranks wait for cores as well as for each other", ranks, num_cores()));
  }
  if (command.out.empty()) {
    command.output.say("--out DIR keeps reports and records of every step, and draws who waits for whom");
  } else {
    command.output.say(write_waiting(command.out, groups, folder_of(".", 0).string()));
  }
  if (const std::string gain = conclusion(groups); !gain.empty()) command.output.say("\n" + gain);
  command.output.emit(json_of(command, rows, groups, machine));
  for (const OptimizerRuns& row : rows) {
    for (const LoopReport& run : row.runs) {
      if (run.replicas_identical && run.lost_deposits == 0) continue;
      print_to(stderr, fmt::format("a promise is broken under {}: {}\n", row.algorithm,
                                   run.replicas_identical ? "gradients were lost" : "the replicas differ"));
      return kFailedRun;
    }
  }
  return kSuccess;
}

Subcommand compare_program_command() {
  return make_command({.name = "compare",
                       .summary = "The same for a program of your own.",
                       .introduction = "Runs a program of your own, built on DistributedOptimizer, once for each "
                                       "algorithm and seed, and shows in one table what each gains and costs. What "
                                       "follows -- goes to the program.",
                       .with = "--program PROGRAM"},
                      ProgramCommand(), describe_options, run);
}

Subcommand compare_function_command() {
  return make_command(
      {.name = "compare",
       .summary = "The same for a function of Python.",
       .introduction = "Runs a function of Python, which trains by stretto.Optimizer, on several ranks, "
                       "once for each algorithm and seed, and shows in one table what each gains and "
                       "costs.",
       .with = "FILE.py:FUNCTION",
       .is_value = names_python_file},
      ProgramCommand(), describe_function, run);
}

}  // namespace

void add_comparisons_of_own(Subcommand& program) {
  const auto compare = std::ranges::find(program.table, "compare", &Subcommand::name);
  program.table.insert(compare + 1, {compare_program_command(), compare_function_command()});
}

}  // namespace stretto::command
