#include "stretto/predict/ordering/ordering_calibration.h"

#include <cmath>
#include <nlohmann/json.hpp>
#include <vector>

#include "stretto/predict/model/json_fields.h"

namespace stretto {

using nlohmann::json;

namespace {

constexpr const char* kUnits = "seconds";
constexpr NumberRange kRate{0, true, 1e9, "events per second, at least 0, as in 20"};
constexpr NumberRange kStretch{0, true, 1e3, "a ratio, at least 0, as in 1"};

DelayDistribution delays_of(const JsonFields& fields, const std::string& key) {
  std::vector<double> quantiles;
  double before = 0;
  for (const json& value : fields.list(key, "quantiles in seconds")) {
    const double quantile = value.is_number() ? value.get<double>() : NAN;
    if (!(quantile >= before && quantile <= kLongestSeconds)) {
      refuse_value(text(fields.where(key), "[", quantiles.size(), "]"),
                   text("expected quantiles in seconds, ascending from 0 on; found ", shown_value(value)));
    }
    quantiles.push_back(before = quantile);
  }
  return DelayDistribution::of_quantiles(std::move(quantiles));
}

OrderingCosts costs_of(const json& whole) {
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
  const JsonFields fields(whole, "costs", known);
  OrderingCosts costs;
  costs.oversleep_free = delays_of(fields, "oversleep_free");
  costs.oversleep_busy = delays_of(fields, "oversleep_busy");
  costs.control = fields.number("control_allreduce", kSeconds);
  costs.control_doubling = fields.number("control_allreduce_per_doubling", kSeconds);
  costs.look = fields.number("cycle_processor", kSeconds);
  costs.spin_stretch = fields.number("spin_stretch", kStretch);
  costs.preemption_rate = fields.number("pauses_per_second_beside_spinning", kRate);
  costs.pause_rate = fields.number("pauses_per_second", kRate);
  costs.pause = delays_of(fields, "pause");
  costs.bookkeeping = fields.number("topo_bookkeeping", kSeconds);
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
    const json whole = parse_json(content);
    static const std::vector<std::string> known{"units", "machine", "date", "costs", "measured"};
    const JsonFields fields(whole, "", known);
    if (const std::string units = fields.words("units", kUnits); units != kUnits) {
      refuse_value("units", text("expected ", kUnits, "; found ", units));
    }
    OrderingCalibration out;
    out.source = source;
    out.machine = fields.words("machine", "the machine on which it was measured");
    out.date = fields.words("date", "the day on which it was measured, as in 2026-11-25");
    const json* costs = fields.find("costs");
    if (costs == nullptr) fields.missing("costs", "an object");
    out.costs = costs_of(*costs);
    return out;
  } catch (const Failure& failure) {
    return Error{Errc::bad_input, text("'", source, "': ", failure.error().message)};
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
