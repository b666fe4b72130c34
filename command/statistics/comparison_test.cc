#include "command/statistics/comparison.h"

#include <gmock/gmock.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "command/machine/machine.h"

namespace stretto::command {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::HasSubstr;
using Json = nlohmann::ordered_json;

Sample sample(std::size_t contender, int repetition, double value, double background = 0) {
  return {contender, repetition, background, {4, 1000, {value}}};
}

TEST(Figure, IsTheMedianOfWhatWasMeasuredOnAQuietMachine) {
  const std::vector<Sample> samples = {sample(0, 0, 1), sample(0, 1, 90, 0.5), sample(0, 2, 3), sample(0, 3, 2),
                                       sample(1, 0, 50)};
  const Figure figure = figure_of(samples, 0, {4, 1000}, 0);
  EXPECT_EQ(figure.value.estimate, 2);
  EXPECT_EQ(figure.repetitions, 3);
  EXPECT_EQ(figure.loaded, 1);
  EXPECT_EQ(figure.to_text(), "2.00 [1.00, 3.00]*");
}

TEST(Figure, TakesLoadedRepetitionsWhereThereAreNoOthers) {
  const std::vector<Sample> samples = {sample(0, 0, 7, 0.5)};
  EXPECT_EQ(figure_of(samples, 0, {4, 1000}, 0).value.estimate, 7);
  const Figure none = figure_of(samples, 0, {4, 2000}, 0);
  EXPECT_EQ(none.repetitions, 0);
  EXPECT_EQ(none.to_text(), "–");
}

Comparison::Plan two_libraries(std::vector<std::string>& order) {
  const auto contender = [&order](const std::string& library, double value) {
    return Contender{library, "full", [&order, library, value](int ranks) -> Result<std::vector<Reading>> {
                       order.push_back(library);
                       return std::vector<Reading>{{ranks, 64, {value, std::nan("")}}};
                     }};
  };
  return {"test", {2}, "activation", {{"us", "µs"}, {"nothing", "?"}}, {contender(kOurs, 1), contender("theirs", 2)}};
}

TEST(Comparison, ARatioIsOfTheSameRepetition) {
  // The machine is a third slower in each repetition; one contender always takes an eighth longer.
  ComparisonOptions options;
  options.repeats = 7;
  const auto contender = [](double share) {
    return Contender{kOurs, "full", [share, turn = 0](int ranks) mutable -> Result<std::vector<Reading>> {
                       return std::vector<Reading>{{ranks, 64, {share * std::pow(1.375, turn++)}}};
                     }};
  };
  Comparison comparison({"test", {2}, "activation", {{"us", "µs"}}, {contender(1.125), contender(1)}}, options);
  comparison.measure();
  const Interval ratio = comparison.ratio(0, 1, {2, 64}, 0);
  EXPECT_EQ(ratio.estimate, 1.125);
  EXPECT_EQ(ratio.low, 1.125);
  EXPECT_EQ(ratio.high, 1.125);
  EXPECT_TRUE(std::isnan(comparison.ratio(0, 1, {3, 64}, 0).estimate));
}

TEST(Comparison, RotatesTheOrder) {
  std::vector<std::string> order;
  ComparisonOptions options;
  options.repeats = 3;
  Comparison comparison(two_libraries(order), options);
  comparison.measure();
  EXPECT_THAT(order, ElementsAre("stretto", "theirs", "theirs", "stretto", "stretto", "theirs"));
  EXPECT_EQ(comparison.figure(1, {2, 64}, 0).value.estimate, 2);
  EXPECT_THAT(comparison.table({0}), HasSubstr("activation"));
  EXPECT_THAT(comparison.csv(),
              HasSubstr("library,activation,ranks,bytes,repetition,us,nothing,background,loaded,busy\n"
                        "stretto,\"full\",2,64,0,1,,"));
  const Json json = Json::parse(comparison.to_json().dump());
  EXPECT_EQ(json["rows"][1]["library"], "theirs");
  EXPECT_EQ(json["rows"][1]["us"]["median"], 2);
  EXPECT_TRUE(json["rows"][1]["nothing"]["median"].is_null());
}

TEST(Comparison, LeavesOutWhoFailsButNotOurs) {
  std::vector<std::string> order;
  ComparisonOptions options;
  options.repeats = 2;
  const auto fails = [](int) -> Result<std::vector<Reading>> { return Error{Errc::unavailable, "not installed"}; };
  Comparison::Plan plan = two_libraries(order);
  plan.contenders[1].run = fails;
  Comparison comparison(plan, options);
  comparison.measure();
  EXPECT_THAT(comparison.notes(), testing::StartsWith("theirs is left out with 2 ranks: not installed\n"));
  EXPECT_EQ(comparison.to_json()["rows"].size(), 1u);
  plan.contenders[0].run = fails;
  EXPECT_THROW(Comparison(plan, options).measure(), Failure);
}

TEST(Ranks, AreAList) {
  EXPECT_THAT(parse_ranks("2,8", 1), ElementsAre(2, 8));
  for (const char* bad : {"", "0", "2,", "x", "2,1000000"}) EXPECT_THROW(parse_ranks(bad, 1), UsageError) << bad;
  EXPECT_THROW(parse_ranks("1", 2), UsageError);
}

TEST(BackgroundLoad, IsAShare) {
  const double load = background_load(20ms);
  EXPECT_TRUE(std::isnan(load) || (load >= 0 && load <= 1)) << load;
}

}  // namespace
}  // namespace stretto::command
