#include "stretto/train/job/summary_json.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "stretto/imbalance/duration.h"

namespace stretto {
namespace {

using nlohmann::ordered_json;

const char* name_of(Normalize normalize) {
  switch (normalize) {
    case Normalize::ranks: return "ranks";
    case Normalize::contributors: return "contributors";
    case Normalize::samples: return "samples";
  }
  return "";
}

ordered_json number(std::optional<double> value) {
  return value && std::isfinite(*value) ? ordered_json(*value) : ordered_json();
}

}  // namespace

std::string to_json(const TrainOptions& o) {
  return ordered_json{{"workload", o.workload},
                      {"algorithm", o.algorithm},
                      {"ranks", o.ranks},
                      {"steps", o.steps},
                      {"epochs", o.epochs},
                      {"batch", o.batch},
                      {"lr", o.lr},
                      {"lr_schedule", o.lr_schedule},
                      {"momentum", o.momentum},
                      {"imbalance", o.imbalance},
                      {"pace", to_text(o.pace)},
                      {"data", o.data},
                      {"seed", o.seed},
                      {"max_lag", o.max_lag},
                      {"seats", o.seats},
                      {"quorum", o.quorum},
                      {"sync_every", o.sync_every},
                      {"delivery", o.delivery},
                      {"normalize", name_of(o.normalize)},
                      {"order", o.fixed_order ? "fixed" : "arrival"},
                      {"algorithm_options", o.algorithm_options.values()},
                      {"evaluate_every", o.evaluate_every},
                      {"evaluate", o.evaluate},
                      {"final", o.final_model},
                      {"checkpoint_every", o.checkpoint_every},
                      {"progress_by", o.progress_by == ProgressBy::thread ? "thread" : "application"},
                      {"time_scale", o.time_scale},
                      {"simulated", o.simulated},
                      {"network", o.network},
                      {"no_gradients", o.no_gradients},
                      {"model_bytes", o.model_bytes}}
      .dump(2);
}

std::string to_json(const RunSummary& s) {
  ordered_json curve = ordered_json::array();
  for (const auto& point : s.curve) {
    curve.push_back({{"seconds", point.seconds}, {"batches", point.batches}, {"loss", number(point.loss)}});
  }
  ordered_json evaluations = ordered_json::array();
  for (const auto& point : s.evaluations) {
    evaluations.push_back({{"seconds", point.seconds},
                           {"batches", point.batches},
                           {"of", point.of},
                           {"loss", number(point.loss)},
                           {"accuracy", number(point.accuracy)},
                           {"top5", number(point.top5)},
                           {"train_loss", number(point.train_loss)},
                           {"train_accuracy", number(point.train_accuracy)},
                           {"train_top5", number(point.train_top5)}});
  }
  return ordered_json{
      {"algorithm", s.algorithm},
      {"seed", s.seed},
      {"ranks", s.ranks},
      {"simulated", s.simulated},
      {"network", s.simulated ? ordered_json(s.network) : ordered_json()},
      {"wall_seconds", s.wall_seconds},
      {"throughput", s.throughput},
      {"ideal_seconds", s.ideal_seconds},
      {"sync_ideal_seconds", s.sync_ideal_seconds},
      {"real_compute_share", s.real_compute_share},
      {"loss", number(s.loss)},
      {"accuracy", number(s.accuracy)},
      {"top5", number(s.top5)},
      {"train_loss", number(s.train_loss)},
      {"train_accuracy", number(s.train_accuracy)},
      {"train_top5", number(s.train_top5)},
      {"final", {{"model", s.final_model}, {"batches", s.final_batches}}},
      {"rounds", s.rounds},
      {"rounds_per_batch", s.rounds_per_batch},
      {"staleness", {{"mean", s.staleness_mean}, {"max", s.staleness_max}}},
      {"fresh_share", s.fresh_share},
      {"wait_share", s.wait_share},
      {"messages_per_step", s.messages_per_step},
      {"bytes_per_step", s.bytes_per_step},
      {"sent", {{"messages", s.sent.messages}, {"body_bytes", s.sent.body_bytes}, {"bytes", s.sent.bytes}}},
      {"deposits",
       {{"made", s.deposits.made},
        {"applied", s.deposits.applied},
        {"dropped", s.deposits.dropped},
        {"pending", s.deposits.pending},
        {"lost", s.deposits.lost}}},
      {"replicas_identical", s.replicas_identical},
      {"lost_seconds", s.lost_seconds},
      {"curve", curve},
      {"evaluations", evaluations}}
      .dump(2);
}

}  // namespace stretto
