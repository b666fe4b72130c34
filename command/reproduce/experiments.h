#pragma once

#include <span>
#include <string>
#include <vector>

#include "command/reproduce/reproductions.h"
#include "stretto/collective/lines/line_options.h"
#include "stretto/train/simulated/churn.h"

namespace stretto::command {

// The experiments of training_reproductions(), each with what judges its runs.

/// `stretto reproduce wagma-throughput`: ResNet-50's parameters, two ranks of all late by half a step, in virtual time
/// and without gradients (WAGMA-SGD, arXiv 2005.00124, section V-B). The last experiment has as many ranks as the
/// command says, and is judged; those before it have fewer, or more, to show how it scales.
std::vector<Experiment> wagma_throughput_experiments(const ReproduceCommand& command);

/// `stretto reproduce table2`: the steps per second of Table 2 of the eager-SGD paper, in the same way: four ranks of
/// all late by 460 ms.
std::vector<Experiment> table2_experiments(const ReproduceCommand& command);

/// `stretto reproduce resnet50-throughput`: Fig. 11a of the eager-SGD paper, in the same way: one rank of sixteen late
/// by 300 and by 460 ms. Those with as many ranks as the command says are judged; the others show how it scales.
std::vector<Experiment> resnet50_experiments(const ReproduceCommand& command);

/// WAGMA over each of the others, in batches applied and in rounds, beside the paper's. Holds where it is at least 1.25
/// times synchronous and local SGD.
Judgement judge_wagma_throughput(const Experiment& finished);
/// The same figures, of which nothing is said.
Judgement show_wagma_throughput(const Experiment& finished);
/// Compares 256 ranks with 64, beside the paper's statement. Nothing is required.
Judgement judge_wagma_scaling(std::span<const Experiment> finished);
/// Steps per second beside the paper's. Holds where the order is the paper's: D-PSGD, SGP, eager-SGD.
Judgement judge_table2(const Experiment& finished);
/// eager-solo over each of the others. Holds where it is as far ahead of synchronous SGD as in the paper.
Judgement judge_resnet50(const Experiment& finished);
Judgement show_resnet50(const Experiment& finished);
/// Whether the larger delay is the larger gain.
Judgement judge_resnet50_delays(std::span<const Experiment> finished);

/// `stretto reproduce prediction`: jobs of two to `ranks` ranks under six kinds of imbalance, live, each by four of
/// ten algorithms in turn; with every number of ranks each of the ten has its turn.
std::vector<Experiment> prediction_experiments(const ReproduceCommand& command);

/// The first is one worker by itself, for what a step takes longer than it is paced. Of the others what `stretto
/// predict run` says, from their pace, their delays and that noise, and how far it is off: |predicted / measured − 1|
/// of the batches a second. Holds where the median is at most 3 %, the 95th percentile 8 %, the largest 12 %, and no
/// share of fresh contributions is off by more than 3 points.
Judgement judge_predictions(std::span<const Experiment> finished);

/// `stretto reproduce virtual-time`: the same jobs live and simulated, on half as many ranks and on all. The groups of
/// an experiment are pairs: an algorithm live, then the same in virtual time.
std::vector<Experiment> virtual_time_experiments(const ReproduceCommand& command);

/// Compares the runs of such an experiment, and judges whether virtual time predicts real time: batches a second to 3
/// %, rounds per batch to 5 %, the mean staleness to 5 % or 0.03, by the means over all runs.
Judgement judge_virtual_time(const Experiment& finished);

/// `stretto reproduce churn`: a quarter of the members, and all, that live half an hour and two hours, in virtual time
/// and without gradients, by algorithms that go on where members change.
std::vector<Experiment> churn_experiments(const ReproduceCommand& command);

/// The cost of changes of members in a run.
struct MembersCost {
  std::uint64_t changes = 0;  ///< views after the first
  double members = 0;         ///< that were there, in the mean over time
  double lost_share = 0;      ///< of their time: in no step whose batch counts
  double steps_a_change = 0;  ///< that every member has lost by a change, all that is lost being counted to changes
};
/// Of a run whose members change, and whose steps take `step` seconds each.
MembersCost members_cost(const RunSummary& run, double step);

/// The cost of a change, beside a step, and batches a second beside restarts from checkpoints (restarts_keep()).
/// Holds where a change costs about a step under sync, no more under the others, or half a phase of theirs, and all are
/// faster than restarts.
Judgement judge_churn(const Experiment& finished);

/// `stretto reproduce churn-learning`: `vowels` by an algorithm of each kind that goes on where members change, in
/// virtual time. The groups are pairs: an algorithm whose members stay, then the same whose members come and go.
std::vector<Experiment> churn_learning_experiments(const ReproduceCommand& command);

/// The test accuracy after as many batches. Holds where the median of the runs whose members change is no lower than
/// the lowest of those whose members stay.
Judgement judge_churn_learning(const Experiment& finished);

/// `stretto reproduce wagma-live`: `vowels` and `plaid`, whose sequences differ in length, by averaging in groups and
/// by what it is compared with, in real time.
std::vector<Experiment> wagma_live_experiments(const ReproduceCommand& command);

/// The training loss of all after the same times, and what the WAGMA-SGD paper says of naturally imbalanced sequences
/// (section V-C, Fig. 7). Nothing is required.
Judgement judge_wagma_live(const Experiment& finished);

/// `stretto reproduce wagma-ablation`: averaging in groups without one of its parts (WAGMA-SGD, arXiv 2005.00124,
/// section V-B), by the paper's rules and by those of `wagma-quorum`.
std::vector<Experiment> wagma_ablation_experiments(const ReproduceCommand& command);

/// The training loss of the mean model after as many batches, beside the paper's accuracy, and the paper's statements:
/// other groups in each round are better than always the same, than smaller ones, and than none, and one group of all
/// ranks is no better and slower.
Judgement judge_wagma_ablation(const Experiment& finished);

/// `stretto reproduce wagma-accuracy`: the time that each algorithm takes to a test accuracy of 90 %, where two of 64
/// ranks are late by half a step each time (WAGMA-SGD, arXiv 2005.00124, Fig. 5), by the model of rank 0 as it is.
/// First with data by label, then with samples of all labels on every rank.
std::vector<Experiment> wagma_accuracy_experiments(const ReproduceCommand& command);

/// Judges the times to an accuracy, beside the paper's accuracies. Holds where `wagma` takes no longer than the
/// algorithms that the paper has beside it, and `wagma-quorum` no longer than any: the first, or within the spread of
/// it.
Judgement judge_wagma_accuracy(const Experiment& finished);

/// `stretto reproduce wagma-semantics`: what a late rank does in group averaging, by the training loss after a given
/// time. An experiment is a kind of imbalance; a group is a rule. The last two have a quarter of the ranks.
std::vector<Experiment> wagma_semantics_experiments(const ReproduceCommand& command);

/// The training loss of the mean model when --steps steps without delays would be over. Holds where `wagma-quorum`,
/// which is what is recommended, is better than the paper's rule and not worse than any other rule of groups.
Judgement judge_wagma_semantics(const Experiment& finished);

/// `stretto reproduce grid-semantics`: how models move in the lines of an elastic grid, beside averaging in groups, by
/// the training loss after a given time. An experiment is a kind of imbalance, a group is a rule; the first two have a
/// quarter of the ranks, and in the last one messages are slow.
std::vector<Experiment> grid_semantics_experiments(const ReproduceCommand& command);

/// The training loss of the mean model when --steps steps without delays would be over. Holds where what is recommended
/// for a grid is better than the paper's rule, and not worse than momentum that stays local, and sent by a byte for
/// each number it is not worse than that; it says whether it is worse than `wagma-quorum`.
Judgement judge_grid_semantics(const Experiment& finished);
/// The same figures, of which nothing is required.
Judgement show_grid_semantics(const Experiment& finished);

/// The share of what its nodes' own steps have moved an elastic grid by that is still in their models: of 4 × 4 nodes
/// in virtual time, whose steps are of log-normal length, while a round of a line takes as long as one.
double surviving_share(ElasticUpdate update, double alpha, std::uint64_t seed);
/// Holds where ElasticUpdate::paper keeps the shares that were reckoned for three alphas, to 0.02, and carry all.
Judgement judge_surviving_steps(std::span<const Experiment> finished);

/// `stretto reproduce grid-scaling`: an elastic grid and parameter servers on 1, 4 and 16 nodes with AlexNet's
/// parameters, its step and its link (Peng, UCB/EECS-2018-77, Table 4.1), in virtual time and without gradients. Then
/// as many nodes as the command says, in ever more dimensions, some of them late; and members that are lost, too.
std::vector<Experiment> grid_scaling_experiments(const ReproduceCommand& command);

/// The shares of the ideal speed-up, beside the paper's. Holds where those of the grid are at least 95 %, and those of
/// servers less than 50 %.
Judgement judge_grid_scaling(const Experiment& finished);
/// Holds where a grid loses at most 5 % to waiting while it trains, and makes twice the batches of synchronous SGD.
Judgement judge_many_nodes(const Experiment& finished);

/// `stretto reproduce grid-churn`: an elastic grid, whose lines change, beside `eager-quorum`, whose members all change
/// worlds, with 16, 64, 256 and `ranks` members, as far as those are not more than `ranks`, that live two hours and are
/// lost, in virtual time and without gradients.
std::vector<Experiment> grid_churn_experiments(const ReproduceCommand& command);

/// The time in seconds, of all members together, that they are there up to `seconds`: by what the churn draws.
double members_time(const Churn& churn, std::uint64_t seed, int places, double seconds);

/// Batches in results a second. Holds where the grid has no more of them below 64 members, and has more from 256 on,
/// and where a change of all worlds takes at most a step of each member.
Judgement judge_grid_churn(const Experiment& finished);
/// From how many members on the grid has more.
Judgement judge_where_grid_pays(std::span<const Experiment> finished);

/// `stretto reproduce alexnet-grid`: a small convolutional network on `digits` with real gradients in virtual time, on
/// one node, on a quarter of the nodes, and on all, as many batches in all (Peng, UCB/EECS-2018-77, section 4.4).
std::vector<Experiment> alexnet_grid_experiments(const ReproduceCommand& command);

/// Holds where the mean model is within 3 points of a single node's accuracy, and nodes of the larger grid are further
/// from it than those of the smaller one.
Judgement judge_alexnet_grid(const Experiment& finished);
/// `stretto reproduce momentum-exchange`: an elastic grid under the imbalances of grid-semantics, with momentum that
/// stays local, is averaged, or is exchanged as particles do that collide.
std::vector<Experiment> momentum_exchange_experiments(const ReproduceCommand& command);

/// Nodes that collide in pairs drawn anew each time, along directions drawn anew, and do nothing else.
struct Exchanged {
  double decades_before = 0, decades_after = 0;  ///< between the energies of dimensions
  double sum_off = 0;     ///< the length of what the sum of all velocities has changed by, beside its own
  double energy_off = 0;  ///< likewise of the sum of their squares
};
Exchanged exchange_momenta(int nodes, std::uint64_t seed);

/// The training loss. Nothing is required.
Judgement show_momentum_exchange(const Experiment& finished);
/// By collisions alone, with as many seeds as there were runs: the sums stay, and energies become alike.
Judgement judge_momentum_exchange(std::span<const Experiment> finished);

}  // namespace stretto::command
