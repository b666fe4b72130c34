#include "stretto/train/job/summary_json.h"

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "stretto/base/words.h"
#include "stretto/imbalance/duration.h"

namespace stretto {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

const char* name_of(Normalize normalize) {
  switch (normalize) {
    case Normalize::ranks: return "ranks";
    case Normalize::contributors: return "contributors";
    case Normalize::samples: return "samples";
  }
  return "";
}

ordered_json number_or_null(std::optional<double> value) {
  return value && std::isfinite(*value) ? ordered_json(*value) : ordered_json();
}

// What is no number was written as null; it is read as none, or as NaN.

void read(const json& object, const char* key, std::optional<double>& out) {
  const json& value = object.at(key);
  out = value.is_null() ? std::nullopt : std::optional(value.get<double>());
}

void read(const json& object, const char* key, double& out) {
  std::optional<double> value;
  read(object, key, value);
  out = value.value_or(std::numeric_limits<double>::quiet_NaN());
}

template <class T>
void read(const json& object, const char* key, T& out) {
  object.at(key).get_to(out);
}

RunSummary::EvaluationPoint evaluation_in(const json& object) {
  RunSummary::EvaluationPoint point;
  read(object, "seconds", point.seconds);
  read(object, "batches", point.batches);
  read(object, "of", point.of);
  read(object, "loss", point.loss);
  read(object, "accuracy", point.accuracy);
  read(object, "top5", point.top5);
  read(object, "train_loss", point.train_loss);
  read(object, "train_accuracy", point.train_accuracy);
  read(object, "train_top5", point.train_top5);
  return point;
}

RunSummary summary_in(const json& object) {
  RunSummary s;
  read(object, "algorithm", s.algorithm);
  read(object, "seed", s.seed);
  read(object, "ranks", s.ranks);
  read(object, "simulated", s.simulated);
  if (s.simulated) read(object, "network", s.network);
  read(object, "wall_seconds", s.wall_seconds);
  read(object, "throughput", s.throughput);
  read(object, "ideal_seconds", s.ideal_seconds);
  read(object, "sync_ideal_seconds", s.sync_ideal_seconds);
  read(object, "real_compute_share", s.real_compute_share);
  read(object, "loss", s.loss);
  read(object, "accuracy", s.accuracy);
  read(object, "top5", s.top5);
  read(object, "train_loss", s.train_loss);
  read(object, "train_accuracy", s.train_accuracy);
  read(object, "train_top5", s.train_top5);
  read(object.at("final"), "model", s.final_model);
  read(object.at("final"), "batches", s.final_batches);
  read(object, "rounds", s.rounds);
  read(object, "rounds_per_batch", s.rounds_per_batch);
  read(object.at("staleness"), "mean", s.staleness_mean);
  read(object.at("staleness"), "max", s.staleness_max);
  read(object.at("staleness"), "histogram", s.staleness_histogram);
  read(object, "fresh_share", s.fresh_share);
  read(object, "wait_share", s.wait_share);
  if (const auto steps = object.find("step_seconds"); steps != object.end()) {  // older runs have neither
    read(*steps, "p50", s.step_p50);
    read(*steps, "p99", s.step_p99);
  }
  if (const auto ordering = object.find("ordering"); ordering != object.end() && !ordering->is_null()) {
    s.ordering = ordering_figures_from_json(ordering->dump());
  }
  read(object, "messages_per_step", s.messages_per_step);
  read(object, "bytes_per_step", s.bytes_per_step);
  const json& sent = object.at("sent");
  read(sent, "messages", s.sent.messages);
  read(sent, "body_bytes", s.sent.body_bytes);
  read(sent, "bytes", s.sent.bytes);
  const json& deposits = object.at("deposits");
  read(deposits, "made", s.deposits.made);
  read(deposits, "applied", s.deposits.applied);
  read(deposits, "dropped", s.deposits.dropped);
  read(deposits, "pending", s.deposits.pending);
  read(deposits, "lost", s.deposits.lost);
  if (deposits.contains("passed_over")) read(deposits, "passed_over", s.deposits.passed_over);
  if (deposits.contains("kept")) s.deposits.kept = deposits.at("kept").get<double>();
  read(object, "replicas_identical", s.replicas_identical);
  read(object, "lost_seconds", s.lost_seconds);
  for (const json& point : object.at("curve")) {
    auto& made = s.curve.emplace_back();
    read(point, "seconds", made.seconds);
    read(point, "batches", made.batches);
    read(point, "loss", made.loss);
  }
  for (const json& point : object.at("evaluations")) s.evaluations.push_back(evaluation_in(point));
  return s;
}

}  // namespace

std::string to_json(const TrainOptions& o) {
  ordered_json layers = ordered_json::array();
  for (const ModelLayer& layer : o.model_layers) layers.push_back({layer.bytes, layer.forward, layer.backward});
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
                      {"input_threads", o.input_threads},
                      {"input_load", to_text(o.input_load)},
                      {"simulated", o.simulated},
                      {"network", o.network},
                      {"no_gradients", o.no_gradients},
                      {"model_bytes", o.model_bytes},
                      {"model_buckets", o.model_buckets},
                      {"model_layers", std::move(layers)}}
      .dump(2);
}

std::string to_json(const RunSummary& s) {
  ordered_json deposits = {{"made", s.deposits.made},
                           {"applied", s.deposits.applied},
                           {"dropped", s.deposits.dropped},
                           {"pending", s.deposits.pending},
                           {"lost", s.deposits.lost}};
  if (s.deposits.passed_over > 0) deposits["passed_over"] = s.deposits.passed_over;
  if (s.deposits.kept) deposits["kept"] = *s.deposits.kept;
  ordered_json curve = ordered_json::array();
  for (const auto& point : s.curve) {
    curve.push_back({{"seconds", point.seconds}, {"batches", point.batches}, {"loss", number_or_null(point.loss)}});
  }
  ordered_json evaluations = ordered_json::array();
  for (const auto& point : s.evaluations) {
    evaluations.push_back({{"seconds", point.seconds},
                           {"batches", point.batches},
                           {"of", point.of},
                           {"loss", number_or_null(point.loss)},
                           {"accuracy", number_or_null(point.accuracy)},
                           {"top5", number_or_null(point.top5)},
                           {"train_loss", number_or_null(point.train_loss)},
                           {"train_accuracy", number_or_null(point.train_accuracy)},
                           {"train_top5", number_or_null(point.train_top5)}});
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
      {"loss", number_or_null(s.loss)},
      {"accuracy", number_or_null(s.accuracy)},
      {"top5", number_or_null(s.top5)},
      {"train_loss", number_or_null(s.train_loss)},
      {"train_accuracy", number_or_null(s.train_accuracy)},
      {"train_top5", number_or_null(s.train_top5)},
      {"final", {{"model", s.final_model}, {"batches", s.final_batches}}},
      {"rounds", s.rounds},
      {"rounds_per_batch", s.rounds_per_batch},
      {"staleness", {{"mean", s.staleness_mean}, {"max", s.staleness_max}, {"histogram", s.staleness_histogram}}},
      {"fresh_share", s.fresh_share},
      {"wait_share", s.wait_share},
      {"step_seconds", {{"p50", s.step_p50}, {"p99", s.step_p99}}},
      {"ordering", s.ordering ? ordered_json::parse(to_json(*s.ordering)) : ordered_json()},
      {"messages_per_step", s.messages_per_step},
      {"bytes_per_step", s.bytes_per_step},
      {"sent", {{"messages", s.sent.messages}, {"body_bytes", s.sent.body_bytes}, {"bytes", s.sent.bytes}}},
      {"deposits", deposits},
      {"replicas_identical", s.replicas_identical},
      {"lost_seconds", s.lost_seconds},
      {"curve", curve},
      {"evaluations", evaluations}}
      .dump(2);
}

Result<RunSummary> summary_from_json(const std::string& text) {
  try {
    return summary_in(json::parse(text));
  } catch (const json::exception& error) {
    return Error{Errc::bad_input, stretto::text("no summary of a run: ", json_fault(error))};
  }
}

}  // namespace stretto
