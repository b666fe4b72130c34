#pragma once

#include <vector>

#include "command/reproduce/reproductions.h"

namespace stretto::command {

/// `stretto reproduce wagma-live`: `vowels` and `plaid`, whose sequences differ in length, by averaging in groups and
/// by what it is compared with, in real time.
std::vector<Experiment> wagma_live_experiments(const ReproduceCommand& command);

/// The training loss of all after the same times, and what the WAGMA-SGD paper says of naturally imbalanced sequences
/// (section V-C, Fig. 7). Nothing is required.
Judgement judge_wagma_live(const Experiment& finished);

}  // namespace stretto::command
