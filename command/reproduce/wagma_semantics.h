#pragma once

#include <vector>

#include "command/reproduce/reproductions.h"

namespace stretto::command {

/// `stretto reproduce wagma-semantics`: what a late rank does in group averaging, by the training loss after a given
/// time. An experiment is a kind of imbalance; a group is a rule. The last two have a quarter of the ranks.
std::vector<Experiment> wagma_semantics_experiments(const ReproduceCommand& command);

/// The training loss of the mean model when --steps steps without delays would be over. Holds where `wagma-quorum`,
/// which is what is recommended, is better than the paper's rule and not worse than any other rule of groups.
Judgement judge_wagma_semantics(const Experiment& finished);

}  // namespace stretto::command
