#pragma once

#include <span>
#include <vector>

#include "command/reproduce/reproductions.h"

namespace stretto::command {

/// `stretto reproduce prediction`: jobs of two to `ranks` ranks under six kinds of imbalance, live, each by four of
/// ten algorithms in turn; with every number of ranks each of the ten has its turn.
std::vector<Experiment> prediction_experiments(const ReproduceCommand& command);

/// The first is one worker by itself, for what a step takes longer than it is paced. Of the others what `stretto
/// predict run` says, from their pace, their delays and that noise, and how far it is off: |predicted / measured − 1|
/// of the batches a second. Holds where the median is at most 3 %, the 95th percentile 8 %, the largest 12 %, and no
/// share of fresh contributions is off by more than 3 points.
Judgement judge_predictions(std::span<const Experiment> finished);

}  // namespace stretto::command
