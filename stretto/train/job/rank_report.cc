#include "stretto/train/job/rank_report.h"

#include <limits>
#include <nlohmann/json.hpp>

#include "stretto/base/words.h"

namespace stretto {
namespace {

using nlohmann::json;

json score_to_json(const std::optional<TaskScore>& score) {
  if (!score) return nullptr;
  const auto share = [](const std::optional<double>& value) { return value ? json(*value) : json(); };
  return {{"loss", score->loss}, {"accuracy", share(score->accuracy)}, {"top5", share(score->top5)}};
}

// Numbers that are not finite travel as null.
double number(const json& value) {
  return value.is_null() ? std::numeric_limits<double>::quiet_NaN() : value.get<double>();
}

std::optional<TaskScore> score_from_json(const json& value) {
  if (value.is_null()) return std::nullopt;
  TaskScore score{.loss = number(value.at("loss"))};
  if (!value.at("accuracy").is_null()) score.accuracy = value.at("accuracy").get<double>();
  if (!value.at("top5").is_null()) score.top5 = value.at("top5").get<double>();
  return score;
}

json evaluations_to_json(const std::vector<EvaluationPoint>& points) {
  json out = json::array();
  for (const EvaluationPoint& point : points) {
    out.push_back({{"seconds", point.seconds},
                   {"batches", point.batches},
                   {"average", point.average},
                   {"test", score_to_json(point.test)},
                   {"training", score_to_json(point.training)}});
  }
  return out;
}

std::vector<EvaluationPoint> evaluations_from_json(const json& value) {
  std::vector<EvaluationPoint> out;
  for (const json& point : value) {
    out.push_back({.seconds = point.at("seconds"),
                   .batches = point.at("batches"),
                   .average = point.at("average"),
                   .test = score_from_json(point.at("test")).value_or(TaskScore()),
                   .training = score_from_json(point.at("training")).value_or(TaskScore())});
  }
  return out;
}

json totals_to_json(const std::optional<RoundTotals>& totals) {
  if (!totals) return nullptr;
  return {{"rounds", totals->rounds},
          {"batches", totals->batches},
          {"dropped", totals->dropped},
          {"passed_over", totals->passed_over},
          {"staleness_mean", totals->staleness_mean},
          {"staleness_max", totals->staleness_max},
          {"staleness_histogram", totals->staleness_histogram},
          {"fresh", totals->fresh},
          {"stale", totals->stale},
          {"null", totals->null},
          {"lost_seconds", totals->lost_seconds},
          {"lost_deposits", totals->lost_deposits},
          {"kept_deposits", totals->kept_deposits ? json(*totals->kept_deposits) : json()},
          {"ledger", totals->ledger}};
}

std::optional<RoundTotals> totals_from_json(const json& value) {
  if (value.is_null()) return std::nullopt;
  return RoundTotals{.rounds = value.at("rounds"),
                     .batches = value.at("batches"),
                     .dropped = value.at("dropped"),
                     .passed_over = value.at("passed_over"),
                     .staleness_mean = value.at("staleness_mean"),
                     .staleness_max = value.at("staleness_max"),
                     .staleness_histogram = value.at("staleness_histogram"),
                     .fresh = value.at("fresh"),
                     .stale = value.at("stale"),
                     .null = value.at("null"),
                     .lost_seconds = value.at("lost_seconds"),
                     .lost_deposits = value.at("lost_deposits"),
                     .kept_deposits = value.at("kept_deposits").is_null()
                                          ? std::nullopt
                                          : std::optional<double>(value.at("kept_deposits")),
                     .ledger = value.at("ledger")};
}

}  // namespace

std::string to_json(const RankReport& report) {
  json losses = json::array();
  for (const LossBin& bin : report.losses) losses.push_back({bin.seconds, bin.batches, bin.sum, bin.count});
  json error;
  if (report.error) {
    error = {{"code", static_cast<int>(report.error->code)},
             {"message", report.error->message},
             {"rank", report.error->rank}};
  }
  return json{{"rank", report.rank},
              {"usage_error", report.usage_error},
              {"error", error},
              {"seconds", report.seconds},
              {"waited", report.waited},
              {"computed", report.computed},
              {"compute_share", report.compute_share},
              {"units", report.units},
              {"made", report.made},
              {"sent", {report.sent.messages, report.sent.body_bytes, report.sent.bytes}},
              {"lost_records", report.lost_records},
              {"why_lost", report.why_lost},
              {"identical", report.identical},
              {"step_p50", report.step_p50},
              {"step_p99", report.step_p99},
              {"ordering", report.ordering ? json::parse(to_json(*report.ordering)) : json()},
              {"losses", losses},
              {"totals", totals_to_json(report.totals)},
              {"test", score_to_json(report.test)},
              {"training", score_to_json(report.training)},
              {"final_batches", report.final_batches},
              {"evaluations", evaluations_to_json(report.evaluations)}}
      .dump(-1, ' ', false, json::error_handler_t::replace);
}

Result<RankReport> rank_report_from_json(const std::string& text) {
  try {
    const json value = json::parse(text);
    RankReport report{.rank = value.at("rank"), .usage_error = value.at("usage_error")};
    if (const json& error = value.at("error"); !error.is_null()) {
      report.error = Error{static_cast<Errc>(error.at("code").get<int>()), error.at("message"), error.at("rank")};
    }
    report.seconds = value.at("seconds");
    report.waited = value.at("waited");
    report.computed = value.at("computed");
    report.compute_share = value.at("compute_share");
    report.units = value.at("units");
    report.made = value.at("made");
    const json& sent = value.at("sent");
    report.sent = {sent.at(0), sent.at(1), sent.at(2)};
    report.lost_records = value.at("lost_records");
    report.why_lost = value.at("why_lost");
    report.identical = value.at("identical");
    report.step_p50 = value.at("step_p50");
    report.step_p99 = value.at("step_p99");
    if (const json& ordering = value.at("ordering"); !ordering.is_null()) {
      report.ordering = rank_ordering_from_json(ordering.dump());
    }
    for (const json& bin : value.at("losses")) {
      report.losses.push_back({number(bin.at(0)), bin.at(1), number(bin.at(2)), bin.at(3)});
    }
    report.totals = totals_from_json(value.at("totals"));
    report.test = score_from_json(value.at("test"));
    report.training = score_from_json(value.at("training"));
    report.final_batches = value.at("final_batches");
    report.evaluations = evaluations_from_json(value.at("evaluations"));
    return report;
  } catch (const json::exception& error) {
    return Error{Errc::bad_input, stretto::text("a rank's report cannot be read: ", json_fault(error))};
  }
}

}  // namespace stretto
