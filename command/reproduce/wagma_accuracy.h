#pragma once

#include <vector>

#include "command/reproduce/reproductions.h"

namespace stretto::command {

/// `stretto reproduce wagma-accuracy`: the time that each algorithm takes to a test accuracy of 90 %, where two of 64
/// ranks are late by half a step each time (WAGMA-SGD, arXiv 2005.00124, Fig. 5), by the model of rank 0 as it is.
/// First with data by label, then with samples of all labels on every rank.
std::vector<Experiment> wagma_accuracy_experiments(const ReproduceCommand& command);

/// Judges the times to an accuracy, beside the paper's accuracies. Holds where `wagma` takes no longer than the
/// algorithms that the paper has beside it, and `wagma-quorum` no longer than any: the first, or within the spread of
/// it.
Judgement judge_wagma_accuracy(const Experiment& finished);

}  // namespace stretto::command
