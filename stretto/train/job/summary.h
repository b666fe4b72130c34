#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "stretto/collective/lines/grid_counts.h"
#include "stretto/engine/traffic.h"
#include "stretto/train/job/files/files_elsewhere.h"
#include "stretto/train/job/members/run_members.h"
#include "stretto/train/job/step/rank_ordering.h"

namespace stretto {

/// The results of a training run: one row of the table, one object of the JSON.
struct RunSummary {
  std::string algorithm;
  std::uint64_t seed = 0;
  int ranks = 0;
  bool simulated = false;            ///< all times are virtual ones
  std::string network;               ///< then
  double wall_seconds = 0;           ///< from the first step to the last applied round; evaluation is not in it
  double throughput = 0;             ///< batches applied a second, over all ranks
  double ideal_seconds = 0;          ///< the drawn step times list-scheduled without any waiting
  double sync_ideal_seconds = 0;     ///< the drawn step times with a barrier after each
  double real_compute_share = 0;     ///< real computing time / paced time; 0 without a pace
  std::optional<double> loss;        ///< on test data
  std::optional<double> accuracy;    ///< on test data; none for regression
  std::optional<double> top5;        ///< on test data: the class is among the five guessed first; of more than five
  std::optional<double> train_loss;  ///< on training data
  std::optional<double> train_accuracy;
  std::optional<double> train_top5;
  std::string final_model;          ///< whose loss and accuracy these are: average, best, rank0
  std::uint64_t final_batches = 0;  ///< applied to that model
  struct EvaluationPoint {
    double seconds = 0;         ///< since the first step
    std::uint64_t batches = 0;  ///< applied before it
    std::string of;             ///< average, or replica
    double loss = 0;            ///< on test data
    std::optional<double> accuracy;
    std::optional<double> top5;
    double train_loss = 0;
    std::optional<double> train_accuracy;
    std::optional<double> train_top5;
  };
  std::vector<EvaluationPoint> evaluations;  ///< while the run went on
  double rounds_per_batch = 0;               ///< rounds × ranks / batches applied
  std::uint64_t rounds = 0;
  double staleness_mean = 0;  ///< per batch: in rounds, versions of servers, or exchanges between ranks
  std::uint64_t staleness_max = 0;
  std::vector<std::uint64_t> staleness_histogram;  ///< Ledger::staleness_histogram()
  double fresh_share = 0;                          ///< contributions that were fresh, of those that were not null
  double step_p50 = 0;                             ///< seconds that a step takes: the middle one of the ranks
  double step_p99 = 0;                             ///< the same, the longest of the ranks
  std::optional<OrderingFigures> ordering;         ///< where gradients are reduced in one order
  std::vector<std::vector<GridCounts>> lines;      ///< where models are averaged in a grid, by dimension, then rank
  std::vector<double> apart;                       ///< there, by rank: RankReport::apart
  double wait_share = 0;                           ///< time inside exchange / (ranks × wall time)
  Traffic sent;                                    ///< by all ranks, from the first step to the end of the last round
  double messages_per_step = 0;  ///< sent.messages / steps of all ranks: those of one rank in one step
  double bytes_per_step = 0;     ///< sent.bytes / steps of all ranks
  struct Deposits {
    std::uint64_t made = 0, applied = 0, dropped = 0, pending = 0, lost = 0;  ///< dropped: by servers (k-sync)
    double passed_over = 0;      ///< batches applied that a replica has not, on average (delivery latest)
    std::optional<double> kept;  ///< Ledger::kept()
  } deposits;
  bool replicas_identical = false;
  std::vector<double> lost_seconds;  ///< per rank: time the others waited because of it (ledger)
  std::vector<std::string> hosts;    ///< per rank: the name of its host; empty where all are on one
  struct CurvePoint {
    double seconds = 0;         ///< when so many batches had been applied; never less than at the point before
    std::uint64_t batches = 0;  ///< applied
    double loss = 0;            ///< mean training loss since the last point
  };
  std::vector<CurvePoint> curve;
  std::string ledger;                           ///< as a table for people
  std::uint64_t lost_records = 0;               ///< lines of records and trace that could not be written (a full disk)
  std::string why_lost;                         ///< why the first of them could not; empty where there is none
  std::optional<MembersFigures> members;        ///< where they change
  std::vector<FilesElsewhere> files_elsewhere;  ///< of ranks that keep theirs on their own hosts
};

}  // namespace stretto
