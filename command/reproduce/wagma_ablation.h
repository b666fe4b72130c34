#pragma once

#include <vector>

#include "command/reproduce/reproductions.h"

namespace stretto::command {

/// `stretto reproduce wagma-ablation`: averaging in groups without one of its parts (WAGMA-SGD, arXiv 2005.00124,
/// section V-B), by the paper's rules and by those of `wagma-quorum`.
std::vector<Experiment> wagma_ablation_experiments(const ReproduceCommand& command);

/// The training loss of the mean model after as many batches, beside the paper's accuracy, and the paper's statements:
/// other groups in each round are better than always the same, than smaller ones, and than none, and one group of all
/// ranks is no better and slower.
Judgement judge_wagma_ablation(const Experiment& finished);

}  // namespace stretto::command
