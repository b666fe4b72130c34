#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "stretto/predict/model/training_job.h"

namespace stretto {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

Layer layer(std::string name, std::vector<int> after) {
  return {.name = std::move(name), .after = std::move(after)};
}

std::vector<std::string> names_of(const ProfiledStep& step) {
  std::vector<std::string> names;
  for (const Layer& layer : step) names.push_back(layer.name);
  return names;
}

TEST(LayerGraph, LeavesAnOrderThatFitsAsItIs) {
  const auto step =
      in_topological_order({layer("stem", {}), layer("left", {0}), layer("right", {0}), layer("sum", {2, 1, 2})});
  ASSERT_TRUE(step.ok());
  EXPECT_THAT(names_of(*step), ElementsAre("stem", "left", "right", "sum"));
  EXPECT_THAT((*step)[3].after, ElementsAre(1, 2));
}

TEST(LayerGraph, PutsEachLayerBehindThoseItReadsFrom) {
  const auto step =
      in_topological_order({layer("sum", {1, 3}), layer("left", {2}), layer("stem", {}), layer("right", {2})});
  ASSERT_TRUE(step.ok());
  EXPECT_THAT(names_of(*step), ElementsAre("stem", "left", "right", "sum"));
  EXPECT_THAT((*step)[0].after, IsEmpty());
  EXPECT_THAT((*step)[1].after, ElementsAre(0));
  EXPECT_THAT((*step)[2].after, ElementsAre(0));
  EXPECT_THAT((*step)[3].after, ElementsAre(1, 2));
}

TEST(LayerGraph, NamesACircleInTheDirectionOfTheData) {
  // head reads from the circle, and is none of it.
  const auto step = in_topological_order(
      {layer("stem", {}), layer("a", {0, 3}), layer("b", {1}), layer("c", {2}), layer("head", {3})});
  ASSERT_FALSE(step.ok());
  EXPECT_EQ(step.error().code, Errc::bad_input);
  EXPECT_THAT(step.error().message, HasSubstr("in a circle: a → b → c → a"));
}

TEST(LayerGraph, NamesALayerThatReadsFromItself) {
  const auto step = in_topological_order({layer("a", {0})});
  ASSERT_FALSE(step.ok());
  EXPECT_THAT(step.error().message, HasSubstr("in a circle: a → a"));
}

TEST(LayerGraph, ShortensALongCircle) {
  std::vector<Layer> layers;
  for (int i = 0; i < 100; ++i) layers.push_back(layer("l" + std::to_string(i), {(i + 99) % 100}));
  const auto step = in_topological_order(std::move(layers));
  ASSERT_FALSE(step.ok());
  EXPECT_THAT(step.error().message, HasSubstr("in a circle: l0 → l1 → l2 → … → l98 → l99 → l0"));
}

}  // namespace
}  // namespace stretto
