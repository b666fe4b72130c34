#include "stretto/train/replica/torch_replica.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/rnn.h>
#include <torch/optim/adam.h>
#include <torch/optim/sgd.h>
#include <torch/utils.h>

#include <limits>

#include "stretto/base/error.h"

namespace stretto {
namespace {

using torch::nn::Linear;
using torch::nn::Sequential;

// Memory that changes from step to step, as a partial allreduce hands it out.
struct Sets {
  Sets(const Replica& replica, int num_sets) {
    for (int s = 0; s < num_sets; ++s) {
      auto& set = bytes.emplace_back();
      for (const BucketSpec& bucket : replica.buckets()) {
        set.emplace_back(bucket.count * size_of(bucket.type), std::byte{0xab});
      }
    }
  }
  std::vector<std::span<std::byte>> operator[](int s) {
    return {bytes[static_cast<std::size_t>(s)].begin(), bytes[static_cast<std::size_t>(s)].end()};
  }
  std::vector<std::span<const std::byte>> sum(int s) {
    return {bytes[static_cast<std::size_t>(s)].begin(), bytes[static_cast<std::size_t>(s)].end()};
  }
  std::vector<double> by(double divisor) const { return std::vector<double>(bytes[0].size(), divisor); }
  std::vector<std::vector<std::vector<std::byte>>> bytes;
};

Sequential make_small_net() {
  at::manual_seed(7);
  return Sequential(Linear(3, 4), Linear(4, 2));
}
std::shared_ptr<torch::optim::Optimizer> momentum_sgd(torch::nn::Module& model, double momentum = 0.9) {
  return std::make_shared<torch::optim::SGD>(model.parameters(), torch::optim::SGDOptions(0.1).momentum(momentum));
}
at::Tensor input(int step) {
  return torch::arange(6, torch::kFloat).view({2, 3}).mul(0.1).add(step);
}
at::Tensor loss_at(Sequential& net, int step) {
  return net->forward(input(step)).pow(2).mean();
}

std::vector<float> flat_parameters(torch::nn::Module& model) {
  std::vector<float> all;
  for (const auto& p : model.parameters()) {
    const at::Tensor flat = p.detach().contiguous().view({-1});
    all.insert(all.end(), flat.data_ptr<float>(), flat.data_ptr<float>() + flat.numel());
  }
  return all;
}

class TorchReplicaTest : public testing::Test {
 protected:
  TorchReplicaTest() { at::set_num_threads(1); }
};

TEST_F(TorchReplicaTest, KeepsTheParametersAndMakesThemViews) {
  Sequential net = make_small_net();
  const auto before = flat_parameters(*net);
  TorchReplica replica(net.ptr(), momentum_sgd(*net));
  EXPECT_EQ(flat_parameters(*net), before);
  EXPECT_EQ(replica.parameters(0).size(), before.size() * sizeof(float));
  std::memset(replica.parameters(0).data(), 0, replica.parameters(0).size());
  EXPECT_EQ(flat_parameters(*net), std::vector<float>(before.size(), 0.0f));
}

TEST_F(TorchReplicaTest, TrainsAsTheOptimizerAloneDoesWhateverMemoryTheGradientsLieIn) {
  for (const std::uint64_t bucket_bytes : {1u, 40u, 1u << 20}) {
    Sequential plain = make_small_net();
    const auto plain_optimizer = momentum_sgd(*plain);
    Sequential net = make_small_net();
    TorchReplica replica(net.ptr(), momentum_sgd(*net), {.bucket_bytes = bucket_bytes});
    Sets sets(replica, 3);
    for (int step = 0; step < 7; ++step) {
      plain_optimizer->zero_grad();
      loss_at(plain, step).backward();
      plain_optimizer->step();

      replica.attach(step % 3, sets[step % 3]);
      if (step % 2 == 1) replica.optimizer().zero_grad();  // drops the views
      loss_at(net, step).backward();
      replica.end_backward();
      replica.step(sets.sum(step % 3), sets.by(1), {});
    }
    EXPECT_EQ(flat_parameters(*net), flat_parameters(*plain)) << "buckets of " << bucket_bytes << " bytes";
  }
}

TEST_F(TorchReplicaTest, ABucketWithoutASumIsNotMoved) {
  Sequential net = make_small_net();
  TorchReplica replica(net.ptr(), momentum_sgd(*net), {.bucket_bytes = 1});
  Sets sets(replica, 1);
  const auto step = [&](std::vector<std::span<const std::byte>> sum) {
    replica.attach(0, sets[0]);
    loss_at(net, 0).backward();
    replica.end_backward();
    replica.step(sum, sets.by(1), {});
  };
  step(sets.sum(0));  // from now on there is momentum
  const at::Tensor last = net->parameters().back().clone(), first = net->parameters().front().clone();
  auto sum = sets.sum(0);
  sum[0] = {};
  step(sum);
  EXPECT_TRUE(net->parameters().back().equal(last) && !net->parameters().front().equal(first));
}

TEST_F(TorchReplicaTest, SaysWhichBucketsAForwardPassIsAboutToRead) {
  Sequential net = make_small_net();
  TorchReplica replica(net.ptr(), momentum_sgd(*net), {.by_layer = true, .announces_reads = true});
  EXPECT_EQ(replica.reads_by_bucket(), &replica);
  ASSERT_EQ(replica.buckets().size(), 2u) << "one a layer";
  std::vector<int> read;
  replica.on_bucket_read([&read](int bucket) {
    if (read.empty() || read.back() != bucket) read.push_back(bucket);
  });
  for (const auto& layer : *net) replica.about_to_read(*layer.ptr());
  EXPECT_EQ(read, (std::vector<int>{1, 0}));
  replica.about_to_read(*net);
  EXPECT_EQ(read, (std::vector<int>{1, 0, 1, 0}));
  replica.on_bucket_read(nullptr);
  replica.about_to_read(*net);
  EXPECT_EQ(read.size(), 4u);
}

TEST_F(TorchReplicaTest, SaysHowMuchOfAPassLiesBehindIt) {
  torch::nn::Sequential net(torch::nn::Linear(1, 1), torch::nn::Linear(1, 2));  // 8 and 16 bytes
  TorchReplica replica(net.ptr(), std::make_shared<torch::optim::SGD>(net->parameters(), 0.1),
                       {.by_layer = true, .announces_reads = true});
  std::vector<double> shares;
  std::vector<int> heard;
  replica.on_progress([&](double share) { shares.push_back(share); });
  replica.on_bucket_read([&](int) { heard.push_back(static_cast<int>(shares.size())); });
  replica.on_bucket_ready([&](int) { heard.push_back(static_cast<int>(shares.size())); });
  replica.attach_own();
  for (const auto& layer : *net) replica.about_to_read(*layer.ptr());
  net->forward(at::ones({1, 1})).sum().backward();
  replica.end_backward();
  // Of each layer its weight and its bias, then a bucket each.
  const std::vector<double> expected{0, 0, 1.0 / 9, 1.0 / 9, 7.0 / 9, 1};
  ASSERT_EQ(shares.size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_DOUBLE_EQ(shares[i], expected[i]) << i;
  EXPECT_EQ(heard, (std::vector<int>{1, 2, 3, 4, 5, 6})) << "after the share";
}

TEST_F(TorchReplicaTest, DividesTheSum) {
  Sequential one = make_small_net();
  Sequential two = make_small_net();
  TorchReplica a(one.ptr(), momentum_sgd(*one));
  TorchReplica b(two.ptr(), momentum_sgd(*two));
  Sets of_a(a, 1), of_b(b, 1);
  a.attach(0, of_a[0]);
  loss_at(one, 0).backward();
  a.end_backward();
  b.attach(0, of_b[0]);
  (loss_at(two, 0) * 4).backward();
  b.end_backward();
  a.step(of_a.sum(0), of_a.by(1), {});
  b.step(of_b.sum(0), of_b.by(4), {});
  EXPECT_EQ(flat_parameters(*one), flat_parameters(*two));
}

TEST_F(TorchReplicaTest, GradientsLieInTheAttachedMemoryAfterZeroGradAndReplacement) {
  Sequential net = make_small_net();
  TorchReplica replica(net.ptr(), momentum_sgd(*net));
  Sets sets(replica, 2);
  replica.attach(0, sets[0]);
  loss_at(net, 3).backward();
  replica.end_backward();
  replica.attach(1, sets[1]);
  replica.optimizer().zero_grad(/*set_to_none=*/true);
  loss_at(net, 3).backward();
  replica.end_backward();
  EXPECT_EQ(sets.bytes[0], sets.bytes[1]);
  for (const auto& p : net->parameters()) {
    const auto* address = static_cast<const std::byte*>(p.grad().data_ptr());
    EXPECT_GE(address, sets.bytes[1][0].data());
    EXPECT_LT(address, sets.bytes[1][0].data() + sets.bytes[1][0].size());
  }
}

TEST_F(TorchReplicaTest, TakesGradientsOfSeveralPassesAsTheirSum) {
  Sequential net = make_small_net();
  TorchReplica replica(net.ptr(), momentum_sgd(*net));
  Sets sets(replica, 2);
  replica.attach(0, sets[0]);
  loss_at(net, 1).backward();
  loss_at(net, 1).backward();
  replica.end_backward();
  replica.attach(1, sets[1]);
  (loss_at(net, 1) * 2).backward();
  replica.end_backward();
  EXPECT_EQ(sets.bytes[0], sets.bytes[1]);
}

TEST_F(TorchReplicaTest, GivesAParameterWithoutGradientZeros) {
  Sequential net = make_small_net();
  TorchReplica replica(net.ptr(), momentum_sgd(*net));
  Sets sets(replica, 1);
  replica.attach(0, sets[0]);
  replica.optimizer().zero_grad();
  net->ptr(0)->as<Linear>()->forward(input(0)).sum().backward();  // the second layer is not used
  replica.end_backward();
  const auto* numbers = reinterpret_cast<const float*>(sets.bytes[0][0].data());
  EXPECT_EQ(std::vector<float>(numbers, numbers + 10), std::vector<float>(10, 0.0f)) << "bias and weight of layer 1";
  EXPECT_EQ(numbers[10], 2.0f) << "bias of layer 0, over two rows";
}

TEST_F(TorchReplicaTest, HandsBucketsOverInOrderDuringTheBackwardPass) {
  Sequential net = make_small_net();
  TorchReplica replica(net.ptr(), momentum_sgd(*net), {.bucket_bytes = 1});
  ASSERT_EQ(replica.buckets().size(), 4u);
  Sets sets(replica, 1);
  std::vector<int> handed;
  std::vector<float> first_of;
  replica.on_bucket_ready([&](int bucket) {
    handed.push_back(bucket);
    first_of.push_back(reinterpret_cast<const float*>(sets.bytes[0][static_cast<std::size_t>(bucket)].data())[0]);
  });
  for (int step = 0; step < 2; ++step) {
    handed.clear();
    first_of.clear();
    replica.attach(0, sets[0]);
    if (step == 1) replica.optimizer().zero_grad();
    loss_at(net, 1).backward();
    EXPECT_EQ(handed, (std::vector<int>{0, 1, 2, 3})) << "all before the backward pass has returned";
    replica.end_backward();
    EXPECT_EQ(handed.size(), 4u);
    for (std::size_t b = 0; b < 4; ++b) {
      EXPECT_EQ(first_of[b], reinterpret_cast<const float*>(sets.bytes[0][b].data())[0]) << "final when handed over";
    }
  }
}

TEST_F(TorchReplicaTest, HandsOverAtTheEndWhatTheBackwardPassDidNotReach) {
  Sequential net = make_small_net();
  TorchReplica replica(net.ptr(), momentum_sgd(*net), {.bucket_bytes = 1});
  Sets sets(replica, 1);
  std::vector<int> handed;
  replica.on_bucket_ready([&](int bucket) { handed.push_back(bucket); });
  replica.attach(0, sets[0]);
  net->ptr(0)->as<Linear>()->forward(input(0)).sum().backward();
  EXPECT_TRUE(handed.empty()) << "buckets 0 and 1 come first, and have no gradient";
  replica.end_backward();
  EXPECT_EQ(handed, (std::vector<int>{0, 1, 2, 3}));
}

TEST_F(TorchReplicaTest, RefusesASecondPassAfterBucketsWereHandedOver) {
  Sequential net = make_small_net();
  TorchReplica replica(net.ptr(), momentum_sgd(*net));
  Sets sets(replica, 1);
  replica.on_bucket_ready([](int) {});
  replica.attach(0, sets[0]);
  loss_at(net, 1).backward();
  loss_at(net, 1).backward();
  EXPECT_THROW(replica.end_backward(), UsageError);
}

TEST_F(TorchReplicaTest, LeavesNoHookBehind) {
  Sequential net = make_small_net();
  {
    TorchReplica replica(net.ptr(), momentum_sgd(*net));
    replica.on_bucket_ready([](int) { FAIL() << "the replica is gone"; });
  }
  loss_at(net, 1).backward();
}

TEST_F(TorchReplicaTest, NamesTheParameterThatIsNotFinite) {
  Sequential net = make_small_net();
  TorchReplica replica(net.ptr(), momentum_sgd(*net));
  Sets sets(replica, 1);
  replica.attach(0, sets[0]);
  loss_at(net, 1).backward();
  replica.end_backward();
  EXPECT_EQ(replica.find_non_finite(0), std::nullopt);
  net->parameters()[2].mutable_grad()[1][3] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(replica.find_non_finite(0), "1.weight (element 7 is nan)");
  net->parameters()[1].mutable_grad()[0] = -std::numeric_limits<float>::infinity();
  net->parameters()[2].mutable_grad()[1][3] = 0;
  EXPECT_EQ(replica.find_non_finite(0), "0.bias (element 0 is -inf)");
}

TEST_F(TorchReplicaTest, TrainsDoublesBesideFloatsAndLeavesFrozenParametersAlone) {
  struct Mixed : torch::nn::Module {
    Mixed() {
      wide = register_parameter("wide", torch::ones({3}, torch::kDouble));
      narrow = register_parameter("narrow", torch::ones({3}));
      frozen = register_parameter("frozen", torch::ones({3}), /*requires_grad=*/false);
    }
    at::Tensor wide, narrow, frozen;
  };
  const auto model = std::make_shared<Mixed>();
  TorchReplica replica(model, momentum_sgd(*model, 0));
  EXPECT_EQ(replica.buckets(), (std::vector<BucketSpec>{{DataType::float32, 3}, {DataType::float64, 3}}));
  EXPECT_EQ(replica.weights().size(), 3u);
  EXPECT_EQ(replica.model_description(),
            "parameter wide Double [3]\nparameter narrow Float [3]\nfrozen parameter frozen Float [3]\n");
  Sets sets(replica, 1);
  replica.attach(0, sets[0]);
  (model->wide.sum() * 2 + model->narrow.sum() * 3 + model->frozen.sum()).backward();
  replica.end_backward();
  replica.step(sets.sum(0), sets.by(2), {});
  EXPECT_DOUBLE_EQ(model->wide[0].item<double>(), 1 - 0.1);
  EXPECT_FLOAT_EQ(model->narrow[0].item<float>(), 1 - 0.15f);
  EXPECT_EQ(model->frozen[0].item<float>(), 1);
}

TEST_F(TorchReplicaTest, SaysWhyAModelCannotBeTrained) {
  Linear complex(2, 2);
  complex->to(torch::kComplexFloat);
  EXPECT_THROW(TorchReplica(complex.ptr(), momentum_sgd(*complex)), UsageError);
  Linear frozen(2, 2);
  for (auto& p : frozen->parameters()) p.set_requires_grad(false);
  EXPECT_THROW(TorchReplica(frozen.ptr(), momentum_sgd(*frozen)), UsageError);
}

TEST_F(TorchReplicaTest, TiedWeightsAreOneParameter) {
  Linear shared(3, 3);
  Sequential net(shared, shared);
  const auto optimizer = std::make_shared<torch::optim::SGD>(shared->parameters(), 0.1);
  TorchReplica replica(net.ptr(), optimizer);
  EXPECT_EQ(replica.buckets(), (std::vector<BucketSpec>{{DataType::float32, 12}}));
}

TEST_F(TorchReplicaTest, ScalesTheLearningRateOfEveryGroup) {
  Sequential net = make_small_net();
  TorchReplica replica(net.ptr(), momentum_sgd(*net));
  replica.set_lr_factor(0.5);
  replica.set_lr_factor(0.25);
  EXPECT_DOUBLE_EQ(replica.optimizer().param_groups()[0].options().get_lr(), 0.025);
}

TEST_F(TorchReplicaTest, CallsBeforeAStepWhenTheAverageIsInPlace) {
  Sequential net = make_small_net();
  TorchReplica replica(net.ptr(), momentum_sgd(*net, 0));
  Sets sets(replica, 1);
  replica.attach(0, sets[0]);
  loss_at(net, 1).backward();
  replica.end_backward();
  const auto before = flat_parameters(*net);
  replica.on_step([&] {
    for (auto& p : net->parameters()) p.mutable_grad().zero_();
  });
  replica.step(sets.sum(0), sets.by(1), {});
  EXPECT_EQ(flat_parameters(*net), before);
}

TEST_F(TorchReplicaTest, FindsTheBuffersOfBatchNorm) {
  Sequential net(Linear(3, 4), torch::nn::BatchNorm1d(4));
  TorchReplica replica(net.ptr(), momentum_sgd(*net));
  const auto buffers = replica.floating_buffers();
  ASSERT_EQ(buffers.size(), 2u) << "running mean and variance; the count is no floating point number";
  net->forward(input(0));
  const auto* mean = reinterpret_cast<const float*>(replica.floating_buffers()[0].memory.data());
  EXPECT_EQ(mean[0], net->named_buffers()["1.running_mean"][0].item<float>());
  EXPECT_NE(mean[0], 0.0f);
}

TEST_F(TorchReplicaTest, AnLstmTrainsInFlatMemory) {
  const auto train = [](bool flat) {
    at::manual_seed(3);
    torch::nn::LSTM lstm(torch::nn::LSTMOptions(2, 3));
    const auto optimizer = momentum_sgd(*lstm);
    std::unique_ptr<TorchReplica> replica;
    if (flat) replica = std::make_unique<TorchReplica>(lstm.ptr(), optimizer, TorchReplicaOptions{.bucket_bytes = 100});
    for (int step = 0; step < 3; ++step) {
      if (flat)
        replica->attach_own();
      else
        optimizer->zero_grad();
      std::get<0>(lstm->forward(torch::ones({4, 1, 2}))).sum().backward();
      if (flat)
        replica->end_backward(), replica->step();
      else
        optimizer->step();
    }
    return flat_parameters(*lstm);
  };
  EXPECT_EQ(train(true), train(false));
}

class TorchReplicaState : public TorchReplicaTest {
 protected:
  static void train(TorchReplica& replica, Sequential& net, int first, int steps) {
    for (int step = first; step < first + steps; ++step) {
      replica.attach_own();
      loss_at(net, step).backward();
      replica.end_backward();
      replica.step();
    }
  }
};

TEST_F(TorchReplicaState, ChecksumTellsReplicasApart) {
  Sequential one = make_small_net(), two = make_small_net();
  TorchReplica a(one.ptr(), momentum_sgd(*one)), b(two.ptr(), momentum_sgd(*two));
  EXPECT_EQ(a.checksum(), b.checksum());
  train(a, one, 0, 2);
  EXPECT_NE(a.checksum(), b.checksum());
  train(b, two, 0, 2);
  EXPECT_EQ(a.checksum(), b.checksum());
  train(a, one, 2, 1);
  std::memcpy(a.parameters(0).data(), b.parameters(0).data(), a.parameters(0).size());
  EXPECT_EQ(a.checksum().parameters, b.checksum().parameters);
  EXPECT_NE(a.checksum().optimizer, b.checksum().optimizer) << "another momentum";
}

template <class Make>
void continues_to_the_bit(Make make) {
  const auto run = [&](bool interrupted) {
    Sequential net = make_small_net();
    auto replica = std::make_unique<TorchReplica>(net.ptr(), make(*net));
    const auto steps = [&](int first, int count) {
      for (int step = first; step < first + count; ++step) {
        replica->attach_own();
        loss_at(net, step).backward();
        replica->end_backward();
        replica->step();
      }
    };
    steps(0, 3);
    if (interrupted) {
      const std::string saved = replica->save();
      net = Sequential(Linear(3, 4), Linear(4, 2));
      replica = std::make_unique<TorchReplica>(net.ptr(), make(*net));
      replica->load(saved);
    }
    steps(3, 3);
    return std::pair(flat_parameters(*net), replica->checksum().optimizer);
  };
  EXPECT_EQ(run(true), run(false));
}

TEST_F(TorchReplicaState, SavedAndLoadedSgdContinuesToTheBit) {
  continues_to_the_bit([](torch::nn::Module& model) { return momentum_sgd(model); });
}

TEST_F(TorchReplicaState, SavedAndLoadedAdamContinuesToTheBit) {
  continues_to_the_bit([](torch::nn::Module& model) {
    return std::make_shared<torch::optim::Adam>(model.parameters(), torch::optim::AdamOptions(0.01));
  });
}

TEST_F(TorchReplicaState, OneThatIsTruncatedIsOneClearFailure) {
  Sequential net = make_small_net();
  TorchReplica replica(net.ptr(), momentum_sgd(*net));
  const std::string saved = replica.save();
  try {
    replica.load(saved.substr(0, saved.size() / 2));
    FAIL();
  } catch (const Failure& failure) {
    EXPECT_EQ(failure.error().code, Errc::bad_input);
    EXPECT_EQ(failure.error().message.find("the saved state of a replica: "), 0u);
  }
}

TEST_F(TorchReplicaState, OfAnotherModelIsRefused) {
  Sequential net = make_small_net();
  TorchReplica replica(net.ptr(), momentum_sgd(*net));
  Sequential other(Linear(3, 5), Linear(5, 2));
  TorchReplica wider(other.ptr(), momentum_sgd(*other));
  EXPECT_THROW(wider.load(replica.save()), Failure);
}

TEST_F(TorchReplicaState, DescribesTheOptimizer) {
  Sequential net = make_small_net();
  TorchReplica replica(net.ptr(), momentum_sgd(*net));
  const std::string description = replica.optimizer_description();
  EXPECT_NE(description.find("torch::optim::SGD\ngroup of 4"), std::string::npos) << description;
  EXPECT_NE(description.find("lr=0.1"), std::string::npos) << description;
  EXPECT_NE(description.find("momentum=0.9"), std::string::npos) << description;
  replica.set_lr_factor(0.5);  // as its program has made it: a rank that has loaded a checkpoint is none that differs
  EXPECT_EQ(replica.optimizer_description(), description);
}

}  // namespace
}  // namespace stretto
