#include "stretto/train/ordering/model_collectives.h"

#include <gmock/gmock.h>

#include <array>

#include "stretto/base/error.h"

namespace stretto {
namespace {

using testing::ElementsAre;

TEST(ModelCollectives, NamesEachUseOfAModuleInAStep) {
  ModelCollectives collectives;
  for (int step = 0; step < 2; ++step) {
    collectives.begin_step();
    EXPECT_EQ(collectives.next_use("norm"), "norm");
    EXPECT_EQ(collectives.next_use("other"), "other");
    EXPECT_EQ(collectives.next_use("norm"), "norm (2)");
    EXPECT_EQ(collectives.next_use("norm"), "norm (3)");
  }
}

TEST(ModelCollectives, SumsByWhatItWasTold) {
  std::array<std::byte, 2> data{std::byte{1}, std::byte{2}};
  ModelCollectives collectives;
  EXPECT_THROW(collectives.reduce({.name = "norm.sums"}, data), UsageError);
  std::vector<std::string> summed;
  collectives.sum_by([&](const TensorDescription& tensor, std::span<std::byte> memory) {
    summed.push_back(tensor.name);
    memory[1] = std::byte{7};
  });
  collectives.reduce({.name = "norm.sums"}, data);
  EXPECT_THAT(summed, ElementsAre("norm.sums"));
  EXPECT_THAT(data, ElementsAre(std::byte{1}, std::byte{7}));
  collectives.sum_by(nullptr);
  EXPECT_THROW(collectives.reduce({.name = "norm.sums"}, data), UsageError);
}

TEST(ModelCollectives, KeepsTheUsesOfOneStepWhereTheyAreRecorded) {
  ModelCollectives collectives(sum_of_one_rank);
  collectives.used({.forward = {.name = "early"}});
  EXPECT_TRUE(collectives.uses().empty());
  collectives.record(true);
  collectives.used({.forward = {.name = "a"}});
  collectives.used({.forward = {.name = "b"}});
  ASSERT_EQ(collectives.uses().size(), 2u);
  EXPECT_EQ(collectives.uses()[1].forward.name, "b");
  collectives.begin_step();
  EXPECT_TRUE(collectives.uses().empty());
}

}  // namespace
}  // namespace stretto
