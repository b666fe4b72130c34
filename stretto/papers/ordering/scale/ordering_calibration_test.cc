#include "stretto/papers/ordering/scale/ordering_calibration.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace stretto {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

OrderingCalibration written() {
  OrderingCalibration calibration{"here.json", "a machine", "2026-11-25", {}};
  calibration.costs.oversleep_free = DelayDistribution::of_quantiles({0.001, 0.002, 0.008});
  calibration.costs.oversleep_busy = DelayDistribution::of_quantiles({0.25});
  calibration.costs.control = 0.5;
  calibration.costs.control_doubling = 0.125;
  calibration.costs.look = 0.0625;
  calibration.costs.spin_stretch = 1.5;
  calibration.costs.preemption_rate = 12;
  calibration.costs.pause_rate = 7;
  calibration.costs.bookkeeping = 0.75;
  return calibration;
}

std::string refusal(const std::string& json) {
  const auto read = read_calibration(json, "here.json");
  return read ? "accepted" : read.error().message;
}

std::string replaced(const std::string& what, const std::string& by) {
  std::string json = to_json(written());
  json.replace(json.find(what), what.size(), by);
  return json;
}

TEST(OrderingCalibration, ReadsWhatItWrites) {
  const auto read = read_calibration(to_json(written(), R"({"runs": 3})"), "here.json");
  ASSERT_TRUE(read.ok()) << read.error().message;
  EXPECT_EQ(read->source, "here.json");
  EXPECT_EQ(read->machine, "a machine");
  EXPECT_EQ(read->date, "2026-11-25");
  EXPECT_THAT(read->costs.oversleep_free.quantiles(), ElementsAre(0.001, 0.002, 0.008));
  EXPECT_THAT(read->costs.oversleep_busy.quantiles(), ElementsAre(0.25));
  EXPECT_EQ(read->costs.pause.mean(), 0);
  EXPECT_EQ(read->costs.control_latency(8), 0.875);
  EXPECT_EQ(read->costs.look, 0.0625);
  EXPECT_EQ(read->costs.spin_stretch, 1.5);
  EXPECT_EQ(read->costs.preemption_rate, 12);
  EXPECT_EQ(read->costs.pause_rate, 7);
  EXPECT_EQ(read->costs.bookkeeping, 0.75);
}

TEST(OrderingCalibration, AnExponentialDelayIsWrittenByItsQuantiles) {
  OrderingCalibration calibration = written();
  calibration.costs.pause = DelayDistribution::exponential(2);
  const auto read = read_calibration(to_json(calibration), "here.json");
  ASSERT_TRUE(read.ok()) << read.error().message;
  EXPECT_NEAR(read->costs.pause.mean(), 2, 0.02);  // the longest thousandth is missing
}

TEST(OrderingCalibration, BadInput) {
  EXPECT_EQ(refusal(replaced(R"("seconds")", R"("milliseconds")")),
            "'here.json': units: expected seconds; found milliseconds");
  EXPECT_THAT(refusal(replaced(R"("units": "seconds",)", "")), HasSubstr("units: missing; expected seconds"));
  EXPECT_THAT(refusal(replaced(R"("machine": "a machine",)", "")), HasSubstr("machine: missing"));
  EXPECT_THAT(refusal(replaced("0.002", "0.0005")), HasSubstr("costs.oversleep_free[1]: expected quantiles"));
  EXPECT_THAT(refusal(replaced("0.001", "-1")), HasSubstr("costs.oversleep_free[0]: expected quantiles"));
  EXPECT_THAT(refusal(replaced("0.75", "-0.75")), HasSubstr("costs.topo_bookkeeping: expected seconds"));
  EXPECT_THAT(refusal(replaced("spin_stretch", "spin_strech")), HasSubstr("costs.spin_strech: there is no such key"));
  EXPECT_THAT(refusal("{"), HasSubstr("expected JSON"));
  EXPECT_THAT(refusal("[]"), HasSubstr("expected an object"));
}

}  // namespace
}  // namespace stretto
