#include "command/train/training_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <limits>

#include "command/predict/simulated_choice.h"
#include "command/train/rate_watch.h"
#include "stretto/base/error.h"
#include "stretto/base/words.h"
#include "stretto/dispenser/dispenser.h"
#include "stretto/imbalance/duration.h"
#include "stretto/membership/job.h"
#include "stretto/observe/run_folder.h"
#include "stretto/simulate/cluster.h"
#include "stretto/train/job/run.h"
#include "stretto/train/recipes/recipes.h"
#include "stretto/transport/job_memory.h"

namespace stretto::command {

namespace {

constexpr double kHuge = std::numeric_limits<double>::max();

std::vector<std::string> workload_names() {
  std::vector<std::string> out;
  for (const WorkloadInfo& info : workload_catalogue()) out.emplace_back(info.name);
  return out;
}

// Checks the name alone: the values possible behind its colon depend on the number of ranks.
void check_algorithm(std::string_view option, const std::string& text) {
  const std::string name = text.substr(0, text.find(':'));
  for (const std::string& known : algorithm_names()) {
    if (known == name) return;
  }
  throw UsageError(fmt::format("{} {}: {}", option, text, suggestion(name, algorithm_names())));
}

// A name of a sharing, or labels:K.
Setter sharing(std::string& data) {
  const std::vector<std::string> known = {"shared", "partitioned", "ring", "sampled", "labels"};
  return {known, [&data, known](std::string_view option, const std::string& text) {
            if (text.starts_with("labels:")) {
              if (labels_a_rank(text) == 0) reject(option, text, "expected labels:K with K from 1", "labels:3");
              data = text;
            } else {
              one_of(data, known)(option, text);
            }
          }};
}

void describe_job(CommandLine& line, TrainOptions& options) {
  if (const auto launched = launched_rank()) options.ranks = launched->ranks;
  line.positional("WORKLOAD", CommandLine::Presence::required, fmt::format("what to train: {}", join(workload_names())),
                  one_of(options.workload, workload_names()));
  line.heading("The job");
  line.option("--ranks", "N",
              "How many worker processes. Default 4; under mpirun, srun and torchrun as many as they have started, if "
              "more than one.",
              into(options.ranks, 1, JobMemory::kMaxRanks, "4"));
  line.option("--steps", "N", "Stop after N × ranks batches in all, whoever computes them.",
              into(options.steps, 1, "200"));
  line.option("--epochs", "N", "Stop after N passes over the training data in all. Default: the workload's.",
              into(options.epochs, 1, "10"));
  line.option("--batch", "N", "Samples a batch and rank. Default: the workload's.",
              into(options.batch, 1, 1 << 20, "4"));
  line.option("--lr", "X", "Learning rate of the averaged gradient. Default: the workload's.",
              into(options.lr, std::numeric_limits<double>::min(), kHuge, "0.1"));
  line.option(
      "--lr-schedule", "S",
      "constant (default); warmup:100 rises over so many steps; decay:10@400@800 divides by 10 at each of these steps; "
      "joined by +. A step is as many batches as there are ranks.",
      into(options.lr_schedule));
  line.option("--momentum", "X", "Of SGD. Default: the workload's.", into(options.momentum, 0, 0.9999, "0.9"));
  line.option("--seed", "N", "Of the model, the order of the data and the injected delays. Default 1.",
              into(options.seed, 0, "1"));
  line.option(
      "--data", "KIND",
      "Who gets which batch. shared: whoever is ready takes the next, so that no rank runs out before the "
      "others; partitioned: fixed, so that a run repeats to the bit; ring: fixed, too, each rank's samples in the next "
      "pass those of the rank before it (GossipGraD); sampled: drawn with replacement; labels:K: each rank's from a "
      "part of the data that has K of the labels at most (labels: 3), so that ranks learn different things. Default: "
      "shared where rounds do not wait for all ranks, partitioned for the others.",
      sharing(options.data));
}

void describe_imbalance(CommandLine& line, TrainOptions& options) {
  line.heading("Who is slow");
  line.option(
      "--imbalance", "SPEC",
      "Delays injected on top of what the data brings: none (default), random:ranks=1,delay=200ms, "
      "rotate:50ms..400ms, linear:1ms..32ms, persistent:rank=3,factor=3 (or delay=40ms), lognormal:mean=20ms,cv=1, "
      "trace:FILE, measured ones (ucf101, wmt16, cloud, habitat, with scale=0.1), and sums of them with +.",
      into(options.imbalance));
  line.option(
      "--pace", "TIME",
      "Emulates an accelerator: a step takes this long for each unit of work (a padded time step of a sequence, "
      "an image, a row), by sleeping the rest. So that many ranks on few cores show the algorithm and not the "
      "scheduler.",
      into(options.pace, "50us"));
  line.option(
      "--input-threads", "N",
      "Emulates an input pipeline: so many threads of each rank burn --input-load for the next batch while this "
      "one is computed, and take cores from it. A step waits for its own batch. Default 0.",
      into(options.input_threads, 1, 1024, "2"));
  line.option("--input-load", "TIME", "With --input-threads: processor time that all of them burn for a batch.",
              into(options.input_load, "20ms"));
}

void describe_simulation(CommandLine& line, TrainOptions& options) {
  line.heading("In virtual time");
  line.flag("--simulated", "",
            "All ranks in one process, on a virtual clock: the gradients are real, and a step takes what --pace and "
            "--imbalance say, a message what --network says. The same seed gives the same bits on any number of cores.",
            [&options](std::string_view, const std::string&) { options.simulated = true; });
  line.option("--network", "SPEC",
              "Between the ranks, one on each host: latency=TIME, bandwidth=RATE of a host's card in each direction, "
              "overhead=TIME of a message at its sender, jitter=TIME, sharing=fifo or fair, unevenness=NUMBER. Default "
              "latency=1us,bandwidth=10GB/s,overhead=100ns.",
              {{"latency=", "bandwidth="}, [&options](std::string_view option, const std::string& written) {
                 try {
                   parse_network(written);
                 } catch (const UsageError& error) {
                   throw UsageError(fmt::format("--{}", error.what()));
                 }
                 if (written.empty()) reject(option, written, "a network", "latency=1us,bandwidth=10GB/s");
                 options.network = written;
               }});
  line.flag("--no-gradients", "", "Compute nothing: throughput alone, of more ranks in less time.",
            [&options](std::string_view, const std::string&) { options.no_gradients = true; });
  line.option("--model-bytes", "SIZE",
              "With --no-gradients: bytes of the model whose messages take their time. Default: the workload's.",
              [&options](std::string_view option, const std::string& written) {
                options.model_bytes = parse_bytes(option, written, "100MiB");
                if (options.model_bytes == 0) reject(option, written, "at least 1 byte", "100MiB");
              });
  line.option(
      "--model-buckets", "N",
      "With --no-gradients: the model is in so many buckets of equal size, which servers share out. Default: 1.",
      into(options.model_buckets, 1, kMostModelBuckets, "8"));
  line.option("--compute-threads", "N",
              "So many ranks compute at once. Default: as many as there are cores. Changes no result.",
              into(options.compute_threads, 1, JobMemory::kMaxRanks, "2"));
}

void describe_algorithm(CommandLine& line, TrainOptions& options, GivenOptions& given) {
  line.heading("How it averages");
  line.option(
      "--quorum", "N",
      "eager-quorum: a round starts when so many ranks have come. The dial between waiting and staleness: P waits "
      "for all, as sync does; 1 for nobody, as eager-solo. Default: half of the ranks.",
      noted(given.quorum, into(options.quorum, 1, JobMemory::kMaxRanks, "2")));
  line.option(
      "--max-lag", "N",
      "No gradient is staler than N rounds. A rank k times slower than the rest needs N ≥ k + 1 to slow nobody; "
      "memory grows with N. Default 4.",
      into(options.max_lag, 1, 1024, "4"));
  line.option(
      "--seats", "N",
      "Ranks that meet in the memory they share: all of a host (default), or so many at each board, fewer at the last, "
      "with messages between the boards. 1: messages alone, as between hosts.",
      noted(given.seats, into(options.seats, 1, JobMemory::kMaxRanks, "1")));
  line.option(
      "--normalize", "BY",
      "What divides the sum of the gradients: ranks (default, as in the papers), contributors (those that "
      "brought something; diloco: phases of --sync-every steps), samples (unequal batches are unbiased).",
      one_of<Normalize>(
          {{"ranks", Normalize::ranks}, {"contributors", Normalize::contributors}, {"samples", Normalize::samples}},
          [&options, &given](Normalize by) {
            options.normalize = by;
            given.normalize_ranks = by == Normalize::ranks;
          }));
  line.option(
      "--evaluate-every", "N",
      "Rank 0 copies a model once N more batches have been applied, and a thread of its own evaluates it on test and "
      "training data while all ranks go on: a curve in summary.json. Default: none while the run goes on.",
      into(options.evaluate_every, 1, "1000"));
  line.option(
      "--evaluate", "WHAT",
      "With --evaluate-every. average (default): at the first round after which all ranks have the same weights; "
      "where models are averaged under a policy such rounds are made. replica: rank 0's as it is.",
      one_of(options.evaluate, {"average", "replica"}));
  line.option("--final", "MODEL",
              "Which model counts at the end. average (default): that of all ranks. best: of those evaluated that with "
              "the lowest training loss. rank0: that rank's before the last average, where models are averaged.",
              one_of(options.final_model, {"average", "best", "rank0"}));
  line.option("--order", "ORDER",
              "arrival (default): sums in the order in which contributions come. fixed: one order, so that runs repeat "
              "to the bit; sync always has it. Not to be confused with --ordering: which gradients are summed when.",
              one_of<bool>({{"arrival", false}, {"fixed", true}}, [&options, &given](bool fixed) {
                options.fixed_order = fixed;
                given.order_arrival = !fixed;
              }));
  line.option(
      "--delivery", "WHAT",
      "every (default): each rank applies every round, so replicas never diverge. latest: only the newest, as in "
      "the paper; replicas drift until --sync-every brings them together.",
      one_of(options.delivery, {"every", "latest"}));
  line.option(
      "--sync-every", "N",
      "Batches between rounds that wait for all. local, diloco: batches of each rank between two rounds (H, "
      "default 8). easgd, easgd-async: between two exchanges (default 10). d-psgd, sgp, osgp, gossip-grad, "
      "ad-psgd: between two averages of all (default: as often as --checkpoint-every and --evaluate average want "
      "one, else only at the end). ps-sync, ps-async, ssp, k-sync: between two points at which all ranks have the same "
      "weights (default: the same).",
      into(options.sync_every, 1, "1000"));
  line.option(
      "--progress-by", "WHO",
      "thread (default): a helper thread takes part in rounds while the rank computes. application: only inside "
      "calls, so a rank that computes holds up the others.",
      one_of<ProgressBy>({{"thread", ProgressBy::thread}, {"application", ProgressBy::application}},
                         [&options](ProgressBy by) { options.progress_by = by; }));
  line.heading("What only some algorithms have");
  for (const AlgorithmOption& option : algorithm_options()) {
    const std::string name(option.name);
    std::vector<std::string> words(option.words.begin(), option.words.end());
    line.option("--" + name, std::string(option.value), std::string(option.help),
                {std::move(words), [&options, name](std::string_view, const std::string& value) {
                   try {
                     options.algorithm_options.set(name, value);
                   } catch (const UsageError& error) {
                     throw UsageError(fmt::format("--{}", error.what()));
                   }
                 }});
  }
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
  describe_job(line, command.options);
  line.heading("The algorithm");
  line.option("--algorithm", "NAME", "One of those below. Default sync.",
              {algorithm_names(), [&command](std::string_view option, const std::string& text) {
                 check_algorithm(option, text);
                 command.options.algorithm = text;
               }});
  describe_algorithm(line, command.options, command.given);
  describe_imbalance(line, command.options);
  describe_simulation(line, command.options);
  line.heading("How fast it should be");
  line.flag("--predict", "STEPS",
            "Predicts the rate from the first steps of the run (50 of each rank, or so many), shows it beside the "
            "measured one, and says when the two drift apart by more than 10 % and what has changed: computing, one "
            "rank, or the rounds.",
            [&command](std::string_view option, const std::string& text) {
              command.predict_from = RateWatch::kSteps;
              if (!text.empty()) into(command.predict_from, RateWatch::kFewest, "20")(option, text);
            });
  line.heading("What it leaves behind");
  line.option("--out", "DIR",
              "Run folder: configuration, a record of every step and rank (JSON lines), summary.json, curves, and "
              "trace.json, which https://ui.perfetto.dev opens.",
              into(command.options.out));
  line.flag(
      "--timeline", "",
      "--ordering: trace.json has a track for each gradient of each rank, with QUEUE, NEGOTIATE, FUSE and TRANSFER "
      "(docs/ordering.md). Four lines a gradient and step, of 120 bytes each.",
      [&command](std::string_view, const std::string&) { command.options.timeline = true; });
  line.option("--checkpoint-every", "N",
              "Batches between checkpoints, in the run folder. Each is a round that waits for all.",
              into(command.options.checkpoint_every, 1, "1000"));
  line.option("--resume", "DIR", "Continues the run of this folder from its last checkpoint.",
              into(command.options.resume));
  command.output.add_option(line);
  line.example("stretto train vowels --algorithm eager-quorum", "Real, naturally imbalanced data on four ranks.");
  line.example(
      "stretto train digits --ranks 8 --pace 1ms --imbalance persistent:rank=3,factor=3 --algorithm eager-solo",
      "One rank three times slower than the rest; nobody waits for it.");
  line.example("mpirun -n 4 stretto train vowels", "The same job over MPI.");
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
  describe_algorithm(line, command.options, command.given);
  describe_imbalance(line, command.options);
  describe_simulation(line, command.options);
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

void require_effect(const GivenOptions& given, const TrainOptions& options, std::span<const std::string> algorithms) {
  const auto require = [&](bool was_given, const char* option, auto has_effect, const char* expected) {
    if (!was_given || std::ranges::any_of(algorithms, has_effect)) return;
    throw UsageError(fmt::format("{} has no effect with {}: {}", option, join(algorithms), expected));
  };
  require(
      given.quorum, "--quorum", [](const std::string& name) { return name == "eager-quorum"; },
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
      given.normalize_ranks, "--normalize ranks",
      [&](const std::string& algorithm) { return !recipe(algorithm)->averages_models; },
      "models are averaged over those that contribute; expected contributors or samples");
  require(
      given.order_arrival, "--order arrival",
      [](const std::string& name) { return name != "local" && name != "diloco" && name != "sync"; },
      "it sums in one order; leave it out, or say --order fixed");
  if (given.order_arrival && options.simulated) {
    throw UsageError("--order arrival has no effect with --simulated, which sums in one order; leave it out");
  }
  const auto launched = launched_rank();
  const bool speaks_mpi = launched && !launched->shares_memory;
  if (given.seats && options.seats > 1 && (options.delivery == "latest" || speaks_mpi)) {
    throw UsageError(fmt::format("--seats {} has no effect {}: rounds are held by messages alone there; leave it out",
                                 options.seats, speaks_mpi ? "under mpirun and srun" : "with --delivery latest"));
  }
}

void check_training(const TrainOptions& options) {
  if (options.simulated && launched_rank()) {
    throw UsageError("--simulated: all ranks are in one process; start it by itself, with --ranks N");
  }
  resolved(options, plentiful(workload_info(options.workload)));
  if (const auto launched = launched_rank(); launched && launched->ranks != options.ranks) {
    throw UsageError(fmt::format("--ranks {}: this job was started with {} ranks; leave --ranks out", options.ranks,
                                 launched->ranks));
  }
  if (!options.resume.empty()) {
    if (const auto folder = RunFolder::open(options.resume); !folder) {
      throw UsageError(fmt::format("--resume {}: {}", options.resume, folder.error().message));
    }
  }
  if (!options.out.empty()) require_writable_folder("--out", options.out);
}

void check_prediction(const TrainOptions& options) {
  if (const auto launched = launched_rank()) {
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
  const auto checked = [run = std::move(run)](const TrainCommand& command) {
    check_training(command.options);
    if (command.predict_from != 0) check_prediction(command.options);
    require_effect(command.given, command.options, std::span(&command.options.algorithm, 1));
    return run(command);
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
    require_effect(command.given, command.options, command.algorithms);
    return run(command);
  };
  return make_command({.name = "compare",
                       .summary = "Trains the same job by several algorithms and shows what waiting cost.",
                       .introduction = "Trains the same job by several algorithms, with the same seeds and the same "
                                       "delays, and shows in one table what each gains and costs."},
                      CompareCommand(), describe_compare, checked);
}

}  // namespace stretto::command
