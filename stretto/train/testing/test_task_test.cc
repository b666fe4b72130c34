#include "stretto/train/testing/test_task.h"

#include <gmock/gmock.h>

#include <array>

#include "stretto/ordering/topo/plan.h"
#include "stretto/train/replica/replica.h"

namespace stretto {
namespace {

// As algorithms rely on it that reduce tensor by tensor.
TEST(LinearTask, HandsItsTwoGradientsOverByThemselvesAndLeavesItsGraph) {
  const auto task = linear_task({.features = 3});
  const auto rank = task->start_rank({});
  Replica& replica = rank->replica();
  GradientsByTensor& gradients = *replica.gradients_by_tensor();
  std::vector<std::string> ready;
  gradients.on_gradient_ready(
      [&](int parameter) { ready.push_back(gradients.trained_tensors()[static_cast<std::size_t>(parameter)].name); });
  const auto step = [&] {
    ready.clear();
    replica.attach_own();
    rank->forward_backward(std::array<std::uint32_t, 2>{0, 1}, 0);
    replica.end_backward();
  };
  step();
  EXPECT_THAT(ready, testing::ElementsAre("b", "w"));
  EXPECT_FALSE(gradients.take_graph());
  gradients.record_graphs(true);
  step();
  const auto graph = gradients.take_graph();
  ASSERT_TRUE(graph);
  EXPECT_EQ(plan_order(*graph).to_text(), "0: set 0, float32, sum, 16 bytes: b, w\n");
  EXPECT_FALSE(gradients.take_graph());
}

}  // namespace
}  // namespace stretto
