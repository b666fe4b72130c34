#pragma once

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

/// WAGMA over each of the others, in batches applied and in rounds, beside the paper's. Holds where it is at least 1.25
/// times synchronous and local SGD.
Judgement judge_wagma_throughput(const Experiment& finished);
/// The same table, of which nothing is required.
Judgement show_wagma_throughput(const Experiment& finished);
/// Steps per second beside the paper's. Holds where the order is the paper's: D-PSGD, SGP, eager-SGD.
Judgement judge_table2(const Experiment& finished);

}  // namespace stretto::command
