#include "stretto/train/job/summary_json.h"

#include <algorithm>
#include <cmath>
#include <concepts>
#include <deque>
#include <limits>
#include <nlohmann/json.hpp>

#include "stretto/base/words.h"
#include "stretto/train/options/option_table.h"

namespace stretto {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

// What a run does not depend on, and what each version has recorded.
constexpr std::string_view kUnrecorded[] = {"between", "compute-threads", "liveness", "out",
                                            "records", "timeline",        "resume"};
constexpr std::string_view kNeeded[] = {"workload", "algorithm", "ranks"};

bool is_text(const JobOption& option) {
  return option.kind == AlgorithmOption::Kind::time ||
         (option.kind == AlgorithmOption::Kind::word && !option.is_flag());
}

template <class T>
constexpr bool kIsList = false;
template <class T>
constexpr bool kIsList<std::vector<T>> = true;
template <class T>
constexpr bool kIsList<std::deque<T>> = true;

/// Writes a record as an object, whose members are those that fields(json, record) names, in that order. JsonReader
/// reads it by the same function. A number that is not finite becomes null.
class JsonWriter {
 public:
  template <class T>
  using Of = const T;

  template <class T>
  void operator()(const char* name, const T& value) {
    object_[name] = json_of(value);
  }
  /// Members that `use(json)` names, in an object of their own.
  template <class Use>
  void nest(const char* name, const Use& use) {
    JsonWriter inner;
    use(inner);
    object_[name] = std::move(inner.object_);
  }
  void null(const char* name) { object_[name] = nullptr; }
  /// Whether a member that may be left out is there.
  bool has(const char* /*name*/, bool is_there = true) const { return is_there; }

  template <class T>
  static ordered_json json_of(const T& value) {
    if constexpr (std::floating_point<T>) {
      return std::isfinite(value) ? ordered_json(value) : ordered_json();
    } else if constexpr (std::is_same_v<T, Duration>) {
      return value.count();
    } else if constexpr (std::is_same_v<T, TimePoint>) {
      return value.since_start.count();
    } else if constexpr (kIsList<T>) {
      ordered_json out = ordered_json::array();
      for (const auto& each : value) out.push_back(json_of(each));
      return out;
    } else if constexpr (requires { value.has_value(); }) {
      return value ? json_of(*value) : ordered_json();
    } else if constexpr (std::constructible_from<ordered_json, const T&>) {
      return value;
    } else {
      JsonWriter inner;
      fields(inner, value);
      return std::move(inner.object_);
    }
  }

 private:
  ordered_json object_ = ordered_json::object();
};

class JsonReader {
 public:
  template <class T>
  using Of = T;

  explicit JsonReader(const json& object) : object_(object) {}

  template <class T>
  void operator()(const char* name, T& value) {
    read(object_.at(name), value);
  }
  template <class Use>
  void nest(const char* name, const Use& use) {
    JsonReader inner(object_.at(name));
    use(inner);
  }
  void null(const char* /*name*/) {}
  bool has(const char* name, bool /*is_there*/ = true) const { return object_.contains(name); }

  template <class T>
  static void read(const json& from, T& value) {
    if constexpr (std::floating_point<T>) {
      value = from.is_null() ? std::numeric_limits<T>::quiet_NaN() : from.get<T>();
    } else if constexpr (std::is_same_v<T, Duration>) {
      value = Duration(from.get<std::int64_t>());
    } else if constexpr (std::is_same_v<T, TimePoint>) {
      read(from, value.since_start);
    } else if constexpr (kIsList<T>) {
      for (const json& each : from) read(each, value.emplace_back());
    } else if constexpr (requires { value.has_value(); }) {
      if (!from.is_null()) read(from, value.emplace());
    } else if constexpr (std::constructible_from<json, const T&>) {
      from.get_to(value);
    } else {
      JsonReader inner(from);
      fields(inner, value);
    }
  }

 private:
  const json& object_;
};

template <class Json>
void fields(Json& json, typename Json::template Of<Traffic>& t) {
  json("messages", t.messages);
  json("body_bytes", t.body_bytes);
  json("bytes", t.bytes);
}

template <class Json>
void fields(Json& json, typename Json::template Of<Error>& e) {
  json("code", e.code);
  json("message", e.message);
  json("rank", e.rank);
}

template <class Json>
void fields(Json& json, typename Json::template Of<TaskScore>& s) {
  json("loss", s.loss);
  json("accuracy", s.accuracy);
  json("top5", s.top5);
}

template <class Json>
void fields(Json& json, typename Json::template Of<EvaluationPoint>& p) {
  json("seconds", p.seconds);
  json("batches", p.batches);
  json("average", p.average);
  json("test", p.test);
  json("training", p.training);
}

template <class Json>
void fields(Json& json, typename Json::template Of<LossBin>& b) {
  json("seconds", b.seconds);
  json("batches", b.batches);
  json("sum", b.sum);
  json("count", b.count);
}

template <class Json>
void fields(Json& json, typename Json::template Of<MembersFor>& m) {
  json("epoch", m.epoch);
  json("rounds", m.rounds);
  json("seconds", m.seconds);
  json("members", m.members);
}

template <class Json>
void fields(Json& json, typename Json::template Of<MembersFigures>& m) {
  json("worlds", m.worlds);
  json("batches", m.batches);
}

template <class Json>
void fields(Json& json, typename Json::template Of<RoundTotals>& t) {
  json("rounds", t.rounds);
  json("batches", t.batches);
  json("dropped", t.dropped);
  json("passed_over", t.passed_over);
  json("staleness_mean", t.staleness_mean);
  json("staleness_max", t.staleness_max);
  json("staleness_histogram", t.staleness_histogram);
  json("fresh", t.fresh);
  json("stale", t.stale);
  json("null", t.null);
  json("lost_seconds", t.lost_seconds);
  if (json.has("hosts", !t.hosts.empty())) json("hosts", t.hosts);
  json("lost_deposits", t.lost_deposits);
  json("kept_deposits", t.kept_deposits);
  json("ledger", t.ledger);
  if (json.has("members", t.members.has_value())) json("members", t.members);
}

template <class Json>
void fields(Json& json, typename Json::template Of<BufferTimes>& b) {
  json("set", b.set);
  json("number", b.number);
  json("begun", b.begun);
  json("submitted", b.submitted);
}

template <class Json>
void fields(Json& json, typename Json::template Of<CoreSharing>& c) {
  json("slice_ns", c.slice_ns);
  json("throttled_periods", c.throttled_periods);
  json("throttled_microseconds", c.throttled_microseconds);
}

template <class Json>
void fields(Json& json, typename Json::template Of<OrderingStatistics>& s) {
  json("steps", s.steps);
  json("tensors", s.tensors);
  json("buffers", s.buffers);
  json("buffer_bytes", s.buffer_bytes);
  json("void_buffers", s.void_buffers);
  json("deviations", s.deviations);
  json("cycles", s.cycles);
  json("controls", s.controls);
  json("control_messages", s.control_messages);
  json("control_bytes", s.control_bytes);
  json("negotiation", s.negotiation);
  json("background_cpu", s.background_cpu);
  json("spun", s.spun);
  json("oversleeps", s.oversleeps);
  json("cycle_times", s.cycle_times);
  json("arrivals", s.arrivals);
  json("syncs", s.syncs);
  json("buffer_times", s.buffer_times);
  json("timed_tensors", s.timed_tensors);
}

template <class Json>
void fields(Json& json, typename Json::template Of<RankOrdering>& r) {
  json("clock", r.clock);
  json("steps", r.steps);
  json("step_p50", r.step_p50);
  json("step_p99", r.step_p99);
  json("application", r.application);
  json("input", r.input);
  json("sharing", r.sharing);
  json("statistics", r.statistics);
}

template <class Json>
void fields(Json& json, typename Json::template Of<CoreSets>& c) {
  json("app", c.application);
  json("input", c.input);
  json("bg", c.background);
  json("dynamic", c.lends);
  json("shared", c.overlap);
}

template <class Json>
void fields(Json& json, typename Json::template Of<OrderingFigures::Rank>& r) {
  json("step_p50", r.step_p50);
  json("step_p99", r.step_p99);
  json("negotiation", r.negotiation);
  json("negotiation_share", r.negotiation_share);
  json("control_messages", r.control_messages);
  json("control_bytes", r.control_bytes);
  json("cycles", r.cycles);
  json("buffers", r.buffers);
  json("fill", r.fill);
  json("application_cpu", r.application_cpu);
  json("input_cpu", r.input_cpu);
  json("background_cpu", r.background_cpu);
  json("spin_cpu", r.spin_cpu);
  json("cycle_p50", r.cycle_p50);
  json("cycle_p99", r.cycle_p99);
  json("oversleep_p50", r.oversleep_p50);
  json("oversleep_p90", r.oversleep_p90);
  json("oversleep_p99", r.oversleep_p99);
  json("oversleep_max", r.oversleep_max);
  json("stall", r.stall);
  json("stall_share", r.stall_share);
  json("slice_seconds", r.slice_seconds);
  json("throttled_periods", r.throttled_periods);
  json("throttled_seconds", r.throttled_seconds);
  json("deviations", r.deviations);
  json("void_buffers", r.void_buffers);
}

template <class Json>
void fields(Json& json, typename Json::template Of<OrderingFigures>& f) {
  json("cores", f.cores);
  json("all", f.all);
  json("skew_p50", f.skew_p50);
  json("skew_p99", f.skew_p99);
  json("cascade", f.cascade);
  json("ranks", f.ranks);
}

template <class Json>
void fields(Json& json, typename Json::template Of<GridCounts>& c) {
  json("opened", c.opened);
  json("skipped", c.skipped);
  json("completed", c.completed);
  json("forced", c.forced);
  json("abandoned", c.abandoned);
  json("applied", c.applied);
  json("fresh", c.fresh);
  json("null", c.null);
  json("missing", c.missing);
  json("previous", c.previous);
  json("late", c.late);
  json("bytes_sent", c.bytes_sent);
  json("to_apply_ns", c.to_apply);
  json("contributed", c.contributed);
  json("steps_between", c.steps_between);
  if (json.has("entered", c.entered != 0)) json("entered", c.entered);
}

template <class Json>
void fields(Json& json, typename Json::template Of<RankReport>& r) {
  json("rank", r.rank);
  json("usage_error", r.usage_error);
  json("error", r.error);
  json("seconds", r.seconds);
  json("waited", r.waited);
  json("computed", r.computed);
  json("compute_share", r.compute_share);
  json("units", r.units);
  json("made", r.made);
  json("sent", r.sent);
  json("lost_records", r.lost_records);
  json("why_lost", r.why_lost);
  json("identical", r.identical);
  json("step_p50", r.step_p50);
  json("step_p99", r.step_p99);
  json("ordering", r.ordering);
  json("lines", r.lines);
  json("apart", r.apart);
  json("losses", r.losses);
  json("totals", r.totals);
  json("test", r.test);
  json("training", r.training);
  json("final_batches", r.final_batches);
  json("evaluations", r.evaluations);
}

template <class Json>
void fields(Json& json, typename Json::template Of<RunSummary::EvaluationPoint>& p) {
  json("seconds", p.seconds);
  json("batches", p.batches);
  json("of", p.of);
  json("loss", p.loss);
  json("accuracy", p.accuracy);
  json("top5", p.top5);
  json("train_loss", p.train_loss);
  json("train_accuracy", p.train_accuracy);
  json("train_top5", p.train_top5);
}

template <class Json>
void fields(Json& json, typename Json::template Of<RunSummary::CurvePoint>& p) {
  json("seconds", p.seconds);
  json("batches", p.batches);
  json("loss", p.loss);
}

template <class Json>
void fields(Json& json, typename Json::template Of<RunSummary::Deposits>& d) {
  json("made", d.made);
  json("applied", d.applied);
  json("dropped", d.dropped);
  json("pending", d.pending);
  json("lost", d.lost);
  if (json.has("passed_over", d.passed_over > 0)) json("passed_over", d.passed_over);
  if (json.has("kept", d.kept.has_value())) json("kept", d.kept);
}

template <class Json>
void fields(Json& json, typename Json::template Of<FilesElsewhere>& f) {
  json("host", f.host);
  json("folder", f.folder);
  json("ranks", f.ranks);
}

template <class Json>
void fields(Json& json, typename Json::template Of<RunSummary>& s) {
  json("algorithm", s.algorithm);
  json("seed", s.seed);
  json("ranks", s.ranks);
  json("simulated", s.simulated);
  if (s.simulated) {
    json("network", s.network);
  } else {
    json.null("network");
  }
  json("wall_seconds", s.wall_seconds);
  json("throughput", s.throughput);
  json("ideal_seconds", s.ideal_seconds);
  json("sync_ideal_seconds", s.sync_ideal_seconds);
  json("real_compute_share", s.real_compute_share);
  json("loss", s.loss);
  json("accuracy", s.accuracy);
  json("top5", s.top5);
  json("train_loss", s.train_loss);
  json("train_accuracy", s.train_accuracy);
  json("train_top5", s.train_top5);
  json.nest("final", [&](auto& final) {
    final("model", s.final_model);
    final("batches", s.final_batches);
  });
  json("rounds", s.rounds);
  json("rounds_per_batch", s.rounds_per_batch);
  json.nest("staleness", [&](auto& staleness) {
    staleness("mean", s.staleness_mean);
    staleness("max", s.staleness_max);
    staleness("histogram", s.staleness_histogram);
  });
  json("fresh_share", s.fresh_share);
  json("wait_share", s.wait_share);
  if (json.has("step_seconds")) {  // older runs do not
    json.nest("step_seconds", [&](auto& step) {
      step("p50", s.step_p50);
      step("p99", s.step_p99);
    });
  }
  if (json.has("ordering")) json("ordering", s.ordering);
  if (json.has("lines", !s.lines.empty())) json("lines", s.lines);
  if (json.has("apart", !s.apart.empty())) json("apart", s.apart);
  json("messages_per_step", s.messages_per_step);
  json("bytes_per_step", s.bytes_per_step);
  json("sent", s.sent);
  json("deposits", s.deposits);
  json("replicas_identical", s.replicas_identical);
  json("lost_seconds", s.lost_seconds);
  if (json.has("hosts", !s.hosts.empty())) json("hosts", s.hosts);
  json("curve", s.curve);
  json("evaluations", s.evaluations);
  if (json.has("members", s.members.has_value())) json("members", s.members);
  if (json.has("files_elsewhere", !s.files_elsewhere.empty())) json("files_elsewhere", s.files_elsewhere);
}

template <class Record>
Result<Record> record_in(const std::string& text, const char* otherwise) {
  try {
    Record record;
    JsonReader::read(json::parse(text), record);
    return record;
  } catch (const json::exception& error) {
    return Error{Errc::bad_input, stretto::text(otherwise, json_fault(error))};
  }
}

}  // namespace

std::string to_json(const TrainOptions& options) {
  ordered_json json;
  for (const JobOption& option : job_options()) {
    if (option.train.index() == 0 || std::ranges::count(kUnrecorded, option.name) != 0) continue;
    const std::string value = option.value_in(options);
    json[option.key()] = is_text(option) ? ordered_json(value) : ordered_json::parse(value);
  }
  json["algorithm_options"] = options.algorithm_options.values();
  json["model_layers"] = ordered_json::array();
  for (const ModelLayer& layer : options.model_layers) {
    json["model_layers"].push_back({layer.bytes, layer.forward, layer.backward});
  }
  return json.dump(2);
}

TrainOptions options_from_json(const std::string& text) {
  const TrainOptions defaults;
  TrainOptions options;
  const auto json = json::parse(text);
  for (const JobOption& option : job_options()) {
    const std::string key = option.key();
    if (!json.contains(key) && std::ranges::count(kNeeded, option.name) == 0) continue;
    const nlohmann::json& given = json.at(key);
    const std::string value = is_text(option) ? given.get<std::string>() : given.dump();
    if (value != option.value_in(defaults)) option.set(options, key, value);
  }
  return options;
}

std::string to_json(const RunSummary& summary) {
  return JsonWriter::json_of(summary).dump(2);
}

Result<RunSummary> summary_from_json(const std::string& text) {
  return record_in<RunSummary>(text, "no summary of a run: ");
}

std::string to_json(const RankReport& report) {
  return JsonWriter::json_of(report).dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

Result<RankReport> rank_report_from_json(const std::string& text) {
  return record_in<RankReport>(text, "a rank's report cannot be read: ");
}

}  // namespace stretto
