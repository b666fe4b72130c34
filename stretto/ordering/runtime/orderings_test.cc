// Whole jobs under each ordering, in virtual time: the orderers as they are, the engine, and applications that submit
// in an order of their own.

#include <gtest/gtest.h>

#include <atomic>
#include <set>
#include <string>
#include <tuple>

#include "stretto/ordering/testing/ordered_job.h"

namespace stretto {
namespace {

using namespace std::chrono_literals;

/// A chain of layers forward, two tensors each backward, as a step executes it: the graph that a plan is made from.
struct Model {
  explicit Model(int layers, int sets = 1) {
    for (int layer = 0; layer < layers; ++layer) {
      for (const char* name : {"weight", "bias"}) {
        tensors.push_back({.name = text(name, '.', layer),
                           .set = layer % sets,
                           .type = DataType::int64,
                           .count = static_cast<std::uint64_t>(*name == 'w' ? 5 + 3 * layer : 2)});
      }
    }
    // Backward from the last layer to the first; each pass leads to the next and to its two gradients.
    ExecutedGraph::Node before = graph.num_nodes++;
    for (int layer = layers - 1; layer >= 0; --layer) {
      const ExecutedGraph::Node pass = graph.num_nodes++;
      graph.edges.push_back({before, pass});
      for (std::size_t which = 0; which < 2; ++which) {
        const ExecutedGraph::Node gradient = graph.num_nodes++;
        graph.edges.push_back({pass, gradient});
        graph.collectives.push_back({gradient, tensors[2 * static_cast<std::size_t>(layer) + which]});
      }
      before = pass;
    }
  }
  std::vector<TensorDescription> tensors;
  ExecutedGraph graph;
};

OrderingOptions options_of(const std::string& ordering) {
  const bool cached = !ordering.ends_with(" uncached");
  OrderingOptions options = OrderingOptions::named(ordering.substr(0, ordering.find(' ')));
  if (!cached) options.cache_capacity = 0;
  options.fusion_bytes = 200;  // several buffers a step
  return options;
}

class Orderings : public ::testing::TestWithParam<std::tuple<std::string, int>> {
 protected:
  OrderingOptions options() const { return options_of(std::get<0>(GetParam())); }
  int ranks() const { return std::get<1>(GetParam()); }
};

std::string name_of_case(const ::testing::TestParamInfo<std::tuple<std::string, int>>& info) {
  std::string name = text(std::get<0>(info.param), '_', std::get<1>(info.param));
  for (char& c : name) {
    if (c == '+' || c == ' ') c = '_';
  }
  return name;
}

INSTANTIATE_TEST_SUITE_P(Of, Orderings,
                         ::testing::Combine(::testing::Values("coordinator", "coordinator uncached", "gs", "nbcs",
                                                              "topo"),
                                            ::testing::Values(1, 2, 3, 4, 5, 7, 8)),
                         name_of_case);

TEST_P(Orderings, SumWhateverTheOrderOfSubmission) {
  const Model model(6);
  for (std::uint64_t seed = 0; seed < 3; ++seed) {
    run_ordered(ranks(), seed, options(), {}, [&](VirtualRank& rank, OrderedAllreduce& all) {
      Random random(seed, static_cast<std::uint64_t>(rank.rank()));
      OrderedMemory memory(model.tensors);
      for (StepNumber step = 0; step < 6; ++step) {
        memory.fill(rank.rank(), step);
        all.begin_step({.samples = 3});
        for (const std::size_t t : shuffled(model.tensors.size(), random)) {
          rank.compute(Duration(static_cast<std::int64_t>(random.below(2'000'000))));
          memory.submit(all, t);
        }
        all.executed(model.graph);
        const auto apply = [&](const OrderedStep& done) {
          EXPECT_EQ(done.step, step);
          EXPECT_EQ(done.header->samples, static_cast<std::uint64_t>(3 * ranks()));
          EXPECT_EQ(done.reduced.size(), model.tensors.size());
          memory.expect_sums(ranks_from_0(ranks()), step);
        };
        all.end_step(rank, rank.deadline(100s), apply).or_throw();
      }
      EXPECT_EQ(all.finish(rank, rank.deadline(100s), [](const OrderedStep&) {}).or_throw(), 0);
      EXPECT_EQ(all.statistics().void_buffers, 0u);
    });
  }
}

TEST_P(Orderings, GoOnWithRanksThatHaveDrained) {
  const Model model(3);
  for (std::uint64_t seed = 0; seed < 6; ++seed) {
    run_ordered(ranks(), seed, options(), {}, [&](VirtualRank& rank, OrderedAllreduce& all) {
      Random random(seed, static_cast<std::uint64_t>(rank.rank()));
      OrderedMemory memory(model.tensors);
      memory.destinations(all);
      const auto apply = [&](const OrderedStep& done) {
        // Steps of the others are over meanwhile, or all of them.
        if (random.chance(0.5)) rank.compute(Duration(static_cast<std::int64_t>(random.below(100'000'000))));
        const auto some = ranks_that_make(done.step, ranks(), 2);
        EXPECT_EQ(done.header->batches, some.size());
        memory.expect_sums(some, done.step);
      };
      const StepNumber own = 2 + static_cast<StepNumber>(rank.rank());
      for (StepNumber step = 0; step < own; ++step) {
        memory.fill(rank.rank(), step);
        all.begin_step({});
        for (std::size_t t = 0; t < model.tensors.size(); ++t) memory.submit(all, t);
        all.executed(model.graph);
        all.end_step(rank, rank.deadline(100s), apply).or_throw();
      }
      if (random.chance(0.3)) rank.compute(1s);
      EXPECT_EQ(all.finish(rank, rank.deadline(100s), apply).or_throw(), ranks() - 1 - rank.rank());
    });
  }
}

TEST_P(Orderings, SumOverThoseThatHaveATensor) {
  const Model model(4);
  run_ordered(ranks(), 2, options(), {}, [&](VirtualRank& rank, OrderedAllreduce& all) {
    OrderedMemory memory(model.tensors);
    memory.destinations(all);
    for (StepNumber step = 0; step < 5; ++step) {
      memory.fill(rank.rank(), step);
      all.begin_step({});
      const auto leaves_out = [&](int r, std::size_t t) {
        return step >= 2 && (static_cast<std::size_t>(r) + t + step) % 3 == 0;
      };
      for (std::size_t t = 0; t < model.tensors.size(); ++t) {
        if (!leaves_out(rank.rank(), t)) memory.submit(all, t);
      }
      all.executed(model.graph);
      const auto apply = [&](const OrderedStep&) {
        for (std::size_t t = 0; t < model.tensors.size(); ++t) {
          std::int64_t sum = 0;
          for (int r = 0; r < ranks(); ++r) sum += leaves_out(r, t) ? 0 : ordered_number(r, step, t, 0);
          if (sum == 0) continue;  // nobody has it
          EXPECT_EQ(memory.out[t][0], sum) << model.tensors[t].name << " in step " << step;
        }
      };
      all.end_step(rank, rank.deadline(100s), apply).or_throw();
    }
    EXPECT_EQ(all.finish(rank, rank.deadline(100s), [](const OrderedStep&) {}).or_throw(), 0);
  });
}

TEST_P(Orderings, KeepProcessSetsApart) {
  const Model model(6, 3);
  OrderingOptions sets = options();
  std::vector<int> even, last;
  for (int r = 0; r < ranks(); r += 2) even.push_back(r);
  for (int r = ranks() / 2; r < ranks(); ++r) last.push_back(r);
  sets.sets = {even, last};
  const std::vector<int> members[] = {ranks_from_0(ranks()), even, last};
  run_ordered(ranks(), 3, sets, {}, [&](VirtualRank& rank, OrderedAllreduce& all) {
    Random random(7, static_cast<std::uint64_t>(rank.rank()));
    OrderedMemory memory(model.tensors);
    for (StepNumber step = 0; step < 4; ++step) {
      memory.fill(rank.rank(), step);
      all.begin_step({});
      for (const std::size_t t : shuffled(model.tensors.size(), random)) {
        rank.compute(Duration(static_cast<std::int64_t>(random.below(1'000'000))));
        const auto& of = members[model.tensors[t].set];
        if (std::ranges::count(of, rank.rank()) > 0) memory.submit(all, t);
      }
      all.executed(model.graph);
      all.end_step(rank, rank.deadline(100s), [](const OrderedStep&) {}).or_throw();
      for (std::size_t t = 0; t < model.tensors.size(); ++t) {
        const auto& of = members[model.tensors[t].set];
        if (std::ranges::count(of, rank.rank()) == 0) continue;
        std::int64_t sum = 0;
        for (const int r : of) sum += ordered_number(r, step, t, 1);
        EXPECT_EQ(memory.out[t][1], sum) << model.tensors[t].name << " in step " << step;
      }
    }
    EXPECT_EQ(all.finish(rank, rank.deadline(100s), [](const OrderedStep&) {}).or_throw(), 0);
  });
}

TEST_P(Orderings, LetAnApplicationWaitInTheMiddleOfAStep) {
  const Model model(3);
  run_ordered(ranks(), 4, options(), {}, [&](VirtualRank& rank, OrderedAllreduce& all) {
    OrderedMemory memory(model.tensors);
    for (StepNumber step = 0; step < 3; ++step) {
      memory.fill(rank.rank(), step);
      all.begin_step({});
      for (const std::size_t t : {4, 5}) memory.submit(all, t);
      // Both of the layer: a plan may have fused them.
      all.wait(rank, model.tensors[4].name, rank.deadline(100s)).or_throw();
      std::int64_t sum = 0;
      for (int r = 0; r < ranks(); ++r) sum += ordered_number(r, step, 4, 0);
      EXPECT_EQ(memory.out[4][0], sum);
      for (const std::size_t t : {0, 1, 2, 3}) memory.submit(all, t);
      ExecutedGraph graph = model.graph;
      for (ExecutedGraph::Node node = 4; node < graph.num_nodes; ++node) graph.edges.push_back({2, node});
      all.executed(graph);
      all.end_step(rank, rank.deadline(100s), [](const OrderedStep&) {}).or_throw();
      memory.expect_sums(ranks_from_0(ranks()), step);
    }
    EXPECT_EQ(all.finish(rank, rank.deadline(100s), [](const OrderedStep&) {}).or_throw(), 0);
  });
}

TEST(TopoJob, NeedsNoControlMessageAfterTheFirstStep) {
  const Model model(8);
  run_ordered(4, 1, options_of("topo"), {}, [&](VirtualRank& rank, OrderedAllreduce& all) {
    OrderedMemory memory(model.tensors);
    std::uint64_t controls = 0;
    for (StepNumber step = 0; step < 10; ++step) {
      memory.fill(rank.rank(), step);
      all.begin_step({});
      for (std::size_t t = 0; t < model.tensors.size(); ++t) memory.submit(all, t);
      all.executed(model.graph);
      all.end_step(rank, rank.deadline(100s), [](const OrderedStep&) {}).or_throw();
      memory.expect_sums(ranks_from_0(4), step);
      if (step == 0) controls = all.statistics().controls;
      EXPECT_EQ(all.statistics().controls, controls) << "in step " << step;
    }
    EXPECT_GT(controls, 0u);
    EXPECT_EQ(all.finish(rank, rank.deadline(100s), [](const OrderedStep&) {}).or_throw(), 0);
    EXPECT_EQ(all.statistics().controls, controls);
    EXPECT_TRUE(all.take_lines().empty());
  });
}

TEST(TopoJob, SumsRightWhereTheGraphChangesOnSomeRank) {
  for (const int ranks : {1, 2, 3, 5, 8}) {
    for (std::uint64_t seed = 0; seed < 4; ++seed) {
      const Model model(5), larger(6);
      std::atomic<bool> said{false};
      run_ordered(ranks, seed, options_of("topo"), {}, [&](VirtualRank& rank, OrderedAllreduce& all) {
        Random random(seed, 50 + static_cast<std::uint64_t>(rank.rank()));
        OrderedMemory memory(larger.tensors);
        memory.destinations(all);
        for (StepNumber step = 0; step < 12; ++step) {
          memory.fill(rank.rank(), step);
          all.begin_step({});
          // In steps 4 and 9 the last rank executes another layer, and waits for it.
          const auto has_more = [&](int r) { return step % 5 == 4 && r == ranks - 1; };
          const Model& mine = has_more(rank.rank()) ? larger : model;
          for (const std::size_t t : shuffled(mine.tensors.size(), random)) {
            rank.compute(Duration(static_cast<std::int64_t>(random.below(1'000'000))));
            memory.submit(all, t);
          }
          all.executed(mine.graph);
          all.end_step(rank, rank.deadline(100s), [](const OrderedStep&) {}).or_throw();
          for (std::size_t t = 0; t < larger.tensors.size(); ++t) {
            std::int64_t sum = 0;
            for (int r = 0; r < ranks; ++r) {
              if (t < model.tensors.size() || has_more(r)) sum += ordered_number(r, step, t, 1);
            }
            if (sum == 0) continue;  // nobody has it
            EXPECT_EQ(memory.out[t][1], sum) << larger.tensors[t].name << " in step " << step;
          }
          if (!all.take_lines().empty()) said = true;
        }
        EXPECT_EQ(all.finish(rank, rank.deadline(100s), [](const OrderedStep&) {}).or_throw(), 0);
      });
      EXPECT_TRUE(said) << "nobody was told that the graph changed";
    }
  }
}

}  // namespace
}  // namespace stretto
