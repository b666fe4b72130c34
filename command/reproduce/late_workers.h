#pragma once

#include <span>
#include <vector>

#include "command/reproduce/reproductions.h"

namespace stretto::command {

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

}  // namespace stretto::command
