#include "command/reproduce/reproductions.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdio>

#include "command/cli/command_line.h"
#include "command/cli/table.h"
#include "command/reproduce/experiments.h"
#include "command/train/training_options.h"
#include "stretto/base/clock.h"
#include "stretto/base/error.h"
#include "stretto/transport/job_memory.h"

namespace stretto::command {

namespace {

using namespace std::chrono_literals;

RunGroup group(const std::string& algorithm, TrainOptions options, const std::string& folder) {
  options.algorithm = algorithm;
  if (!options.out.empty()) options.out += "/" + folder;
  return {algorithm, std::move(options), {}};
}

std::string half_quorum(int ranks) {
  return fmt::format("eager-quorum:{}", (ranks + 1) / 2);
}

// eager-SGD section 7.2, Fig. 10: each step one random rank of 8 sleeps.
std::vector<Experiment> hyperplane_experiments(const ReproduceCommand& command) {
  struct Row {
    int delay_ms;
    double paper;  // eager-solo over sync
  };
  constexpr std::array<Row, 3> kRows = {{{200, 1.50}, {300, 1.75}, {400, 2.01}}};
  constexpr int kRowsOfABatch = 256;  // 2,048 over 8 ranks
  TrainOptions options = base_options(command, "hyperplane");
  options.batch = kRowsOfABatch;
  // The pace is that of a row; the option gives the time of a step.
  options.pace = command.pace / kRowsOfABatch;
  std::vector<Experiment> out;
  for (const Row& row : kRows) {
    options.imbalance = fmt::format("random:ranks=1,delay={}ms", row.delay_ms);
    const std::string folder = fmt::format("delay{}ms", row.delay_ms);
    const double step = seconds(command.pace);
    const double delay = row.delay_ms / 1e3;
    const double ideal = ideal_of_random_delay(step, delay, command.ranks);
    const std::string quorum = half_quorum(command.ranks);
    out.push_back(
        {fmt::format("One random rank of {} is {} ms late each step", command.ranks, row.delay_ms),
         {group("sync", options, folder), group("eager-solo", options, folder), group(quorum, options, folder)},
         {"1",
          fmt::format("ideal {:.2f}; paper {:.2f}, in rounds at the pace of undelayed ranks: (T + d)/T = {:.2f}", ideal,
                      row.paper, (step + delay) / step),
          "not in the paper"}});
  }
  return out;
}

std::vector<Experiment> vowels_experiments(const ReproduceCommand& command) {
  const TrainOptions natural = base_options(command, "vowels");
  TrainOptions slow = natural;
  slow.imbalance = fmt::format("persistent:rank={},factor=3", std::min(3, command.ranks - 1));
  const std::string quorum = half_quorum(command.ranks);
  const auto groups = [&](const TrainOptions& options, const std::string& folder) {
    return std::vector<RunGroup>{group("sync", options, folder), group(quorum, options, folder),
                                 group("eager-solo", options, folder)};
  };
  return {{"Natural imbalance: utterances of different length",
           groups(natural, "natural"),
           {"1", "at least 1.2", "within 3 % of the ideal"}},
          {"One rank three times slower throughout",
           groups(slow, "slow-rank"),
           {"1", "at least 2.3 (ideal 2.74)", "the ideal, where max_lag is at least 4"}}};
}

std::vector<Experiment> lag_experiments(const ReproduceCommand& command) {
  struct Row {
    int max_lag;
    const char* expect;
  };
  constexpr std::array<Row, 5> kRows = {
      {{1, "0.36 of the ideal"}, {2, "0.68"}, {3, "0.95 to 1"}, {4, "at least 0.98"}, {16, "at least 0.98"}}};
  TrainOptions options = base_options(command, "digits");
  options.algorithm = "eager-solo";
  options.imbalance = fmt::format("persistent:rank={},factor=3", std::min(3, command.ranks - 1));
  Experiment experiment{"One rank three times slower, equal batches, eager-solo: what max_lag costs", {}, {}};
  for (const Row& row : kRows) {
    options.max_lag = row.max_lag;
    experiment.groups.push_back({fmt::format("max_lag {}", row.max_lag), options, {}});
    experiment.expect.emplace_back(row.expect);
  }
  return {experiment};
}

const std::vector<Reproduction>& table() {
  static const std::vector<Reproduction> reproductions = {
      {"hyperplane",
       "Training under delays of one random rank a step: eager-SGD, Fig. 10.",
       "Linear regression in 8,192 dimensions on 8 ranks of which each step a random one is late (eager-SGD, section "
       "7.2, Fig. 10). Computation is paced, delays are injected; the paper's learning rate and noise are unpublished, "
       "ours are those of the workload.",
       "hyperplane",
       {.steps = 768, .pace = 400ms, .scale = 0.1},
       hyperplane_experiments},
      {"vowels",
       "Training on naturally imbalanced sequences, and with one slow rank.",
       "An LSTM on utterances of different length: what waiting costs under natural imbalance, and with one rank three "
       "times slower than the rest; with the paired difference in test accuracy.",
       "vowels",
       {.repeats = 10, .epochs = 40, .pace = 400us},
       vowels_experiments},
      {"lag",
       "How much max_lag a slow rank needs.",
       "Equal batches, one rank three times slower, and a bound on staleness of 1, 2, 3, 4 and 16 rounds: a bound that "
       "is too small only slows.",
       "digits",
       {.epochs = 20, .pace = 4ms},
       lag_experiments},
      {"virtual-time",
       "Whether virtual time predicts real time.",
       "The same jobs live and in virtual time, on half of the ranks and on all: batches a second, rounds per batch "
       "and "
       "mean staleness beside each other, with the differences allowed.",
       "vowels",
       {.epochs = 10, .pace = 4ms},
       virtual_time_experiments},
      {"prediction",
       "Whether throughput is predicted: every family of algorithms under six kinds of imbalance.",
       "Small jobs of 2 ranks to --ranks, live, paced (of more than eight at a slower pace, since cores are few) and "
       "with "
       "injected delays, and what stretto predict run says of them: the error of the batches a second and of the share "
       "of fresh contributions, by algorithm, by imbalance and by ranks; how far apart the step times are; and whether "
       "the setting that they recommend was the fastest of the four algorithms tried there. Ten minutes.",
       "digits",
       {.steps = 100, .pace = 4ms},
       prediction_experiments,
       judge_predictions,
       true},
      {"churn",
       "What changes of members cost, by how long they live, beside restarts from checkpoints.",
       "Members that are lost and replaced, as machines that may be taken back are, in virtual time and without "
       "gradients: batches a second of three algorithms, what a change costs, and what restarts from checkpoints "
       "would leave, by arithmetic.",
       "digits",
       {.ranks = 64, .steps = 1800, .pace = 1s},
       churn_experiments},
      {"churn-learning",
       "Whether members that come and go change what is learned.",
       "An LSTM on utterances of different length, in virtual time: the accuracy that four algorithms come to where "
       "members are lost, leave and come, beside that of runs of as many batches whose members stay.",
       "vowels",
       {.repeats = 5, .epochs = 40, .pace = 10ms},
       churn_learning_experiments},
      {"wagma-throughput",
       "Averaging in groups beside what it is compared with, two ranks late: WAGMA-SGD, Fig. 4.",
       "ResNet-50's parameters on 64 ranks, of which each step two are late by half a step (WAGMA-SGD, arXiv "
       "2005.00124, section V-B), in virtual time and without gradients; then with 4 to 1,024 ranks.",
       "digits",
       {.ranks = 64, .steps = 300, .pace = 640ms},
       wagma_throughput_experiments,
       judge_wagma_scaling},
      {"table2",
       "Steps per second beside asynchronous and decentralized training: eager-SGD, Table 2.",
       "ResNet-50's parameters on 64 ranks, of which each step four are late by 460 ms (eager-SGD, Table 2), in "
       "virtual "
       "time and without gradients.",
       "digits",
       {.ranks = 64, .steps = 300, .pace = 640ms},
       table2_experiments},
      {"resnet50-throughput",
       "Throughput where one rank of sixteen is late: eager-SGD, Fig. 11a.",
       "ResNet-50's parameters on 64 ranks, of which each step four are late by 300 and by 460 ms (eager-SGD, section "
       "7.2.2, Fig. 11a), in virtual time and without gradients; then with as large a share of 16 and 256 ranks late.",
       "digits",
       {.ranks = 64, .steps = 300, .pace = 640ms},
       resnet50_experiments,
       judge_resnet50_delays},
      {"wagma-live",
       "Group averaging beside what it is compared with, on naturally imbalanced sequences.",
       "LSTMs on sequences of different length, live: batches a second, loss and accuracy over time of averaging in "
       "groups (WAGMA-SGD) and of what it is compared with. Computation is paced, nothing is injected.",
       "vowels",
       {.repeats = 3, .epochs = 20, .pace = 400us},
       wagma_live_experiments},
      {"wagma-ablation",
       "What groups, their order and their size are good for: WAGMA-SGD, section V-B.",
       "Averaging in groups without one of its parts (WAGMA-SGD, arXiv 2005.00124, section V-B): without groups, with "
       "groups that are always the same, with smaller ones, with all ranks as one. A small model with real gradients "
       "in "
       "virtual time; each rank has three of the ten labels at most. A minute on one core.",
       "digits",
       {.ranks = 16, .repeats = 20, .steps = 100, .pace = 12500us},
       wagma_ablation_experiments},
      {"wagma-semantics",
       "What a late rank should do in group averaging: four kinds of imbalance, nine rules.",
       "The training loss after the time of --steps steps, under four kinds of imbalance and for nine rules of what a "
       "late "
       "rank does: which sum it takes, how it adds its own step to it, what it publishes, whether it makes the batches "
       "it "
       "has missed, how many ranks a round waits for. A small model with real gradients in virtual time; each rank has "
       "three of the ten labels at most. A minute and a half on one core.",
       "digits",
       {.ranks = 64, .repeats = 5, .steps = 60, .pace = 12500us},
       wagma_semantics_experiments},
      {"wagma-accuracy",
       "How long each algorithm takes to an accuracy, two ranks late: WAGMA-SGD, Fig. 5.",
       "Seconds to a test accuracy of 90 % by algorithms of every family, each with a learning rate that suits it, on "
       "64 "
       "ranks of which each step two are late by half a step (WAGMA-SGD, arXiv 2005.00124, Fig. 5). A small model with "
       "real gradients in virtual time, first with data by label, then without. Three minutes on one core.",
       "digits",
       {.ranks = 64, .repeats = 5, .steps = 80, .pace = 12500us},
       wagma_accuracy_experiments},
      {"grid-semantics",
       "How models should move in the lines of an elastic grid: three kinds of imbalance, eight rules.",
       "The training loss after the time of --steps steps, under three kinds of imbalance and where messages are slow: "
       "of synchronous SGD, of averaging in groups, and of an elastic grid by the paper's rule and by those that lose "
       "no step, with momentum that stays local or travels with the model, with contributions missing, and sent by a "
       "byte for each number. A small "
       "model with real gradients in virtual time. Then how much of their own steps nodes keep under both rules. Two "
       "minutes on one core.",
       "digits",
       {.ranks = 64, .repeats = 5, .steps = 60, .pace = 12500us},
       grid_semantics_experiments,
       judge_surviving_steps},
      {"grid-scaling",
       "Throughput of an elastic grid and of servers, by the number of nodes: Peng, Table 4.1.",
       "AlexNet's parameters on 1, 4 and 16 nodes over the paper's link (Peng, UCB/EECS-2018-77, Table 4.1): an "
       "elastic "
       "grid, and parameter servers on all nodes; then --ranks nodes in one dimension to as many as there may be, with "
       "nodes that are late, and with nodes that are lost. In virtual time and without gradients: memory that nodes "
       "copy is not in it. Three minutes on one core; a run of 1,024 nodes takes about two.",
       "digits",
       {.ranks = 64, .steps = 1000, .pace = 662ms},
       grid_scaling_experiments},
      {"grid-churn",
       "From how many members on lines that change are cheaper than worlds that do.",
       "Members that are lost and replaced, in virtual time and without gradients: the batches in results of an "
       "elastic "
       "grid, whose lines change beside training, and of eager-quorum, where all members go to another world, with 16, "
       "64, 256 and --ranks members, as far as those are not more than --ranks. Fewer members make more steps, so that "
       "as many are lost. Ten minutes on one core; with --ranks 16 --steps 300 ten seconds, with --ranks 1000 about "
       "an hour, and 4 GB.",
       "digits",
       {.ranks = 256, .repeats = 3, .steps = 1800, .pace = 1s},
       grid_churn_experiments,
       judge_where_grid_pays},
      {"alexnet-grid",
       "Accuracy of a convolutional network on an elastic grid: Peng, Figs 4.2 and 4.3.",
       "The accuracy that a small convolutional network comes to on 2 × 2 and 4 × 4 nodes, by the paper's rule and by "
       "the one that loses no step, beside that of one node after as many batches (Peng, UCB/EECS-2018-77, section "
       "4.4, AlexNet there), and how far a node's own model is from the mean. Real gradients in virtual time, a round "
       "in three steps. Five minutes on one core.",
       "digits-conv",
       {.ranks = 16, .repeats = 5, .epochs = 60, .pace = 10ms},
       alexnet_grid_experiments},
      {"momentum-exchange",
       "Momentum exchanged as particles do that collide, in an elastic grid.",
       "Nodes that exchange momentum along directions drawn at random (Peng, UCB/EECS-2018-77, section 6.1.7): by "
       "collisions alone, whether the sums stay and energies become alike in all dimensions; and in an elastic grid "
       "the "
       "training loss beside that of momentum that stays local or is averaged. A small model with real gradients in "
       "virtual time. A minute on one core.",
       "digits",
       {.ranks = 64, .repeats = 5, .steps = 60, .pace = 12500us},
       momentum_exchange_experiments,
       judge_momentum_exchange},
  };
  return reproductions;
}

void describe_options(CommandLine& line, ReproduceCommand& command, const Reproduction& reproduction) {
  const bool whole_step = reproduction.workload == "hyperplane";
  line.heading("The experiment");
  line.option("--ranks", "N", fmt::format("Worker processes. Default {}.", command.ranks),
              into(command.ranks, 2, JobMemory::kMaxRanks, "8"));
  line.option("--repeats", "N", fmt::format("Runs of each, with seeds from --seed on. Default {}.", command.repeats),
              into(command.repeats, 1, 1000, "10"));
  line.option("--seed", "N", "Default 1.", into(command.seed, 0, "1"));
  if (command.steps > 0) {
    line.option("--steps", "N", fmt::format("N × ranks batches in all. Default {}.", command.steps),
                into(command.steps, 1, "100"));
  } else {
    line.option("--epochs", "N", fmt::format("Passes over the data in all. Default {}.", command.epochs),
                into(command.epochs, 1, "10"));
  }
  line.option("--pace", "TIME",
              fmt::format("What {} takes, before --scale. Default {}.",
                          whole_step ? "a step" : "a unit of work of a batch", to_text(command.pace)),
              into(command.pace, to_text(command.pace)));
  line.option("--scale", "X",
              fmt::format("Multiplies all times, paces and delays alike: ratios stay. Default {}.", command.scale),
              into(command.scale, 1e-6, 1e3, "0.1"));
  line.heading("Output");
  line.option("--out", "DIR",
              "A run folder for each run, and what is measured as CSV and, where matplotlib is to be had, as SVG: "
              "curves over batches and over time, the throughput over the number of ranks.",
              into(command.out));
  command.output.add_option(line);
  line.example(fmt::format("stretto reproduce {}", reproduction.name), "All of it.");
  line.example(command.steps > 0 ? fmt::format("stretto reproduce {} --steps 50", reproduction.name)
                                 : fmt::format("stretto reproduce {} --repeats 1 --epochs 4", reproduction.name),
               "A quick look.");
}

}  // namespace

std::string statements_table(std::span<const Statement> statements) {
  Table table({"statement", "in the paper", "here", ""});
  for (const Statement& statement : statements) {
    table.add({statement.text, statement.paper, statement.here, statement.holds ? "pass" : "FAIL"});
  }
  return table.to_text();
}

const RunGroup& labelled(const Experiment& experiment, std::string_view label) {
  const auto found = std::ranges::find(experiment.groups, label, &RunGroup::label);
  STRETTO_CHECK(found != experiment.groups.end(), "no group ", label);
  return *found;
}

TrainOptions base_options(const ReproduceCommand& command, const std::string& workload) {
  TrainOptions options;
  options.workload = workload;
  options.ranks = command.ranks;
  options.seed = command.seed;
  options.steps = command.steps;
  options.epochs = command.epochs;
  options.pace = command.pace;
  options.time_scale = command.scale;
  options.out = command.out;
  return options;
}

RunGroup group_of(const AlgorithmRow& row, TrainOptions options) {
  options.algorithm = row.algorithm;
  if (row.sync_every != 0) options.sync_every = row.sync_every;
  options.algorithm_options = row.options;
  return {std::string(row.label), std::move(options), {}};
}

std::span<const Reproduction> training_reproductions() {
  return table();
}

Subcommand reproduction_command(const Reproduction& reproduction, const RunReproduction& run) {
  ReproduceCommand defaults = reproduction.defaults;
  defaults.name = reproduction.name;
  const auto describe = [&reproduction](CommandLine& line, ReproduceCommand& command) {
    describe_options(line, command, reproduction);
  };
  const auto checked = [&reproduction, run](const ReproduceCommand& command) {
    for (const Experiment& experiment : reproduction.experiments(command)) {
      for (const RunGroup& group : experiment.groups) check_training(group.options);
    }
    return run(reproduction, command);
  };
  return make_command(
      {.name = reproduction.name, .summary = reproduction.summary, .introduction = reproduction.introduction}, defaults,
      describe, checked);
}

Subcommand reproduce_command(std::vector<Subcommand> others, const RunReproduction& run) {
  Subcommand group{.name = "reproduce",
                   .summary = "Repeats a measurement of the papers and prints theirs beside ours.",
                   .introduction = "Repeats measurements of the papers and prints theirs beside ours.",
                   .table = std::move(others)};
  for (const Reproduction& reproduction : training_reproductions()) {
    group.table.push_back(reproduction_command(reproduction, run));
  }
  return group;
}

double ideal_of_random_delay(double step, double delay, int ranks) {
  return (step + delay) / (step + delay / ranks);
}

}  // namespace stretto::command
