#pragma once

#include <string>

namespace stretto::command {

/// A job that begins anew from its last checkpoint, with all of its processes, whenever one of them is lost.
struct RestartingJob {
  int members = 1;
  double life = 1;            ///< seconds, the mean of a member's, exponential
  double step = 1;            ///< seconds
  double restart = 4.4;       ///< seconds: torchrun with four ranks, as measured (docs/lab/elastic.md)
  double steps_between = 50;  ///< checkpoints, which take no time
};

/// The share of its time in which such a job makes steps that it keeps: with losses of the mean distance M = life /
/// members a stretch of T seconds between checkpoints and a restart of R take M · exp(R/M) · (exp(T/M) − 1) (Daly, A
/// higher order estimate of the optimum checkpoint interval for restart dumps, FGCS 2006). Nobody waits for machines.
double restarts_keep(const RestartingJob& job);

/// In words, the assumptions of restarts_keep() about a restart.
std::string restarts_in_words();

}  // namespace stretto::command
