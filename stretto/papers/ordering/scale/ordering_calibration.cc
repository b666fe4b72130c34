#include "stretto/papers/ordering/scale/ordering_calibration.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <span>
#include <utility>
#include <vector>

#include "stretto/base/words.h"

namespace stretto {

using nlohmann::json;

namespace {

constexpr const char* kUnits = "seconds";
constexpr double kMost = 1e9;

/// The fields of one object of the file. What is not as expected is refused: throws Failure (Errc::bad_input).
class CalibrationFields {
 public:
  /// `path`: of the object, empty for the whole. Refuses keys that are not `known`.
  CalibrationFields(const json& object, std::string path, std::span<const std::string> known)
      : object_(object), path_(std::move(path)) {
    if (!object.is_object()) refuse(path_, "expected an object");
    for (const auto& [key, value] : object.items()) {
      if (std::ranges::find(known, key) != known.end()) continue;
      refuse(where(key), text("there is no such key; ", suggestion(key, known)));
    }
  }

  const json& value(const std::string& key, const char* expected) const {
    const auto found = object_.find(key);
    if (found == object_.end()) refuse(where(key), text("missing; expected ", expected));
    return *found;
  }

  std::string words(const std::string& key, const char* expected) const {
    const json& found = value(key, expected);
    if (!found.is_string()) refuse(where(key), text("expected ", expected, "; found ", found.dump()));
    return found.get<std::string>();
  }

  /// Requires: `expected` says at least 0.
  double number(const std::string& key, const char* expected) const {
    const json& found = value(key, expected);
    const double number = found.is_number() ? found.get<double>() : NAN;
    if (!(number >= 0 && number <= kMost)) refuse(where(key), text("expected ", expected, "; found ", found.dump()));
    return number;
  }

  DelayDistribution delays(const std::string& key) const {
    constexpr const char* kExpected = "quantiles in seconds, ascending from 0 on";
    const json& list = value(key, kExpected);
    if (!list.is_array() || list.empty()) refuse(where(key), text("expected ", kExpected));
    std::vector<double> quantiles;
    double before = 0;
    for (const json& each : list) {
      const double quantile = each.is_number() ? each.get<double>() : NAN;
      if (!(quantile >= before && quantile <= kMost)) {
        refuse(text(where(key), "[", quantiles.size(), "]"), text("expected ", kExpected, "; found ", each.dump()));
      }
      quantiles.push_back(before = quantile);
    }
    return DelayDistribution::of_quantiles(std::move(quantiles));
  }

 private:
  [[noreturn]] static void refuse(const std::string& where, const std::string& why) {
    throw Failure({Errc::bad_input, where.empty() ? why : text(where, ": ", why)});
  }
  std::string where(const std::string& key) const { return path_.empty() ? key : text(path_, ".", key); }

  const json& object_;
  const std::string path_;
};

OrderingCosts costs_of(const json& whole) {
  constexpr const char* kTime = "seconds, at least 0, as in 0.0005";
  constexpr const char* kRate = "events per second, at least 0, as in 20";
  static const std::vector<std::string> known{"oversleep_free",
                                              "oversleep_busy",
                                              "control_allreduce",
                                              "control_allreduce_per_doubling",
                                              "cycle_processor",
                                              "spin_stretch",
                                              "pause",
                                              "pauses_per_second_beside_spinning",
                                              "topo_bookkeeping",
                                              "pauses_per_second"};
  const CalibrationFields fields(whole, "costs", known);
  OrderingCosts costs;
  costs.oversleep_free = fields.delays("oversleep_free");
  costs.oversleep_busy = fields.delays("oversleep_busy");
  costs.control = fields.number("control_allreduce", kTime);
  costs.control_doubling = fields.number("control_allreduce_per_doubling", kTime);
  costs.look = fields.number("cycle_processor", kTime);
  costs.spin_stretch = fields.number("spin_stretch", "a ratio, at least 0, as in 1");
  costs.preemption_rate = fields.number("pauses_per_second_beside_spinning", kRate);
  costs.pause_rate = fields.number("pauses_per_second", kRate);
  costs.pause = fields.delays("pause");
  costs.bookkeeping = fields.number("topo_bookkeeping", kTime);
  return costs;
}

std::vector<double> quantiles_of(const DelayDistribution& delays) {
  if (!delays.quantiles().empty()) return {delays.quantiles().begin(), delays.quantiles().end()};
  if (delays.mean() == 0) return {0};
  constexpr int kQuantiles = 1001;
  std::vector<double> quantiles;
  for (int i = 0; i < kQuantiles; ++i) quantiles.push_back(delays.at(i / static_cast<double>(kQuantiles)));
  return quantiles;
}

}  // namespace

OrderingCalibration paper_calibration() {
  OrderingCosts costs;
  // Of other sources than the paper, and of little weight: the timer slack of Linux, and a small MPI_Allreduce over
  // InfiniBand.
  costs.oversleep_free = DelayDistribution::exponential(60e-6);
  costs.control = 10e-6;
  costs.control_doubling = 5e-6;
  costs.look = 20e-6;
  // Fitted.
  costs.oversleep_busy = DelayDistribution::exponential(3e-3);
  costs.pause = DelayDistribution::exponential(5.5e-3);
  costs.pause_rate = 6.7;
  costs.preemption_rate = 32;
  costs.bookkeeping = 5.2e-3;
  return {"paper", "Summit (POWER9, V100), fitted to what is published of it", "", std::move(costs)};
}

OrderedJob paper_job(int ranks) {
  OrderedJob job;
  job.ranks = ranks;
  job.compute = 56e-3;
  job.input_threads = 6;  // not published: with the one that schedules, as many as there are cores
  job.input = 0.48 * job.compute;
  job.groups = {{1, 2 * 25'557'032.0}};  // gradients of 16 bits
  job.cluster = {.ranks_per_host = 6,
                 .host_bandwidth = 50e9,  // NVLink
                 .link_bandwidth = 23e9,  // two rails of EDR InfiniBand
                 .copy_bandwidth = 700e9,
                 .host_doubling = 2.2e-3};
  return job;
}

Result<OrderingCalibration> read_calibration(std::string_view content, const std::string& source) {
  try {
    const json whole = json::parse(content);
    static const std::vector<std::string> known{"units", "machine", "date", "costs", "measured"};
    const CalibrationFields fields(whole, "", known);
    if (const std::string units = fields.words("units", kUnits); units != kUnits) {
      throw Failure({Errc::bad_input, text("units: expected ", kUnits, "; found ", units)});
    }
    OrderingCalibration out;
    out.source = source;
    out.machine = fields.words("machine", "the machine on which it was measured");
    out.date = fields.words("date", "the day on which it was measured, as in 2026-11-25");
    out.costs = costs_of(fields.value("costs", "an object"));
    return out;
  } catch (const Failure& failure) {
    return Error{Errc::bad_input, text("'", source, "': ", failure.error().message)};
  } catch (const json::exception& error) {
    return Error{
        Errc::bad_input,
        text("'", source, "': expected JSON that stretto bench ordering-costs has written: ", json_fault(error))};
  }
}

std::string to_json(const OrderingCalibration& calibration, std::string_view measured) {
  const OrderingCosts& costs = calibration.costs;
  const nlohmann::ordered_json whole = {{"units", kUnits},
                                        {"machine", calibration.machine},
                                        {"date", calibration.date},
                                        {"costs",
                                         {{"oversleep_free", quantiles_of(costs.oversleep_free)},
                                          {"oversleep_busy", quantiles_of(costs.oversleep_busy)},
                                          {"control_allreduce", costs.control},
                                          {"control_allreduce_per_doubling", costs.control_doubling},
                                          {"cycle_processor", costs.look},
                                          {"spin_stretch", costs.spin_stretch},
                                          {"pauses_per_second_beside_spinning", costs.preemption_rate},
                                          {"pauses_per_second", costs.pause_rate},
                                          {"pause", quantiles_of(costs.pause)},
                                          {"topo_bookkeeping", costs.bookkeeping}}},
                                        {"measured", nlohmann::ordered_json::parse(measured)}};
  return whole.dump(2) + "\n";
}

}  // namespace stretto
