// Models with parameters of 16 bits.

#include <gmock/gmock.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>

#include <limits>

#include "stretto/train/testing/torch_ranks.h"

namespace stretto {
namespace {

using testing::HasSubstr;
using torch::nn::BatchNorm1d;
using torch::nn::Linear;
using torch::nn::Sequential;

using HalfReplicasTest = TorchRanksTest;
using Make = std::shared_ptr<torch::optim::Optimizer> (*)(torch::nn::Module&);

std::shared_ptr<torch::optim::Optimizer> adam(torch::nn::Module& model) {
  return std::make_shared<torch::optim::Adam>(model.parameters(), torch::optim::AdamOptions(0.01));
}
std::shared_ptr<torch::optim::Optimizer> adamw(torch::nn::Module& model) {
  return std::make_shared<torch::optim::AdamW>(model.parameters(), torch::optim::AdamWOptions(0.01));
}

Sequential half_net(at::ScalarType type) {
  Sequential net = make_net(1);
  net->to(type);
  return net;
}

at::Tensor half_loss(Sequential& net, int batch) {
  at::manual_seed(1000 + static_cast<std::uint64_t>(batch));
  const at::Tensor x = torch::randn({4, 3}).to(net->parameters()[0].scalar_type());
  return (net->forward(x) - 1).pow(2).mean();
}

TEST_F(HalfReplicasTest, OneRankIsToTheBitTheOptimizer) {
  for (const at::ScalarType type : {at::kBFloat16, at::kHalf}) {
    for (const Make make : {Make(sgd), adam, adamw}) {
      for (const char* algorithm : {"sync", "eager-quorum", "local"}) {
        run(1, [&](RankContext& rank) {
          Sequential net = half_net(type), plain = half_net(type);
          DistributedOptimizer optimizer(rank, net.ptr(), make(*net), {.algorithm = algorithm});
          const auto reference = make(*plain);
          for (int batch = 0; batch < 20; ++batch) {
            half_loss(net, batch).backward();
            optimizer.step();
            reference->zero_grad();
            half_loss(plain, batch).backward();
            reference->step();
            EXPECT_EQ(bits_of(*net), bits_of(*plain)) << algorithm << ' ' << type << ", batch " << batch;
          }
          optimizer.finish();
          return std::string();
        });
      }
    }
  }
}

/// In the fixed tree (docs/protocol.md, Bits), each sum rounded.
std::vector<at::Tensor> sum_of(const std::vector<std::vector<at::Tensor>>& of_ranks) {
  const auto plus = [](const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b) {
    std::vector<at::Tensor> sum;
    for (std::size_t i = 0; i < a.size(); ++i) sum.push_back(a[i] + b[i]);
    return sum;
  };
  const auto pair = plus(of_ranks[0], of_ranks[1]);
  return plus(pair, of_ranks.size() == 3 ? of_ranks[2] : plus(of_ranks[2], of_ranks[3]));
}

TEST_F(HalfReplicasTest, SyncIsToTheBitOneProcessThatAddsInTheFixedOrder) {
  for (const at::ScalarType type : {at::kBFloat16, at::kHalf}) {
    for (const int ranks : {3, 4}) {
      for (const bool overlap : {false, true}) {
        const auto reports = run(ranks, [&](RankContext& rank) {
          Sequential net = half_net(type);
          DistributedOptimizer optimizer(rank, net.ptr(), sgd(*net),
                                         {.algorithm = "sync", .overlap = overlap, .bucket_bytes = 16});
          for (int step = 0; step < 12; ++step) {
            half_loss(net, ranks * step + rank.rank()).backward();
            optimizer.step();
          }
          optimizer.finish();
          if (rank.rank() != 0) return bits_of(*net);
          Sequential plain = half_net(type);
          const auto reference = sgd(*plain);
          for (int step = 0; step < 12; ++step) {
            std::vector<std::vector<at::Tensor>> gradients;
            for (int r = 0; r < ranks; ++r) {
              reference->zero_grad();
              half_loss(plain, ranks * step + r).backward();
              auto& of_rank = gradients.emplace_back();
              for (const auto& p : plain->parameters()) of_rank.push_back(p.grad().clone());
            }
            const auto sum = sum_of(gradients);
            for (std::size_t i = 0; i < sum.size(); ++i) {
              plain->parameters()[i].mutable_grad() = sum[i].to(at::kFloat).div(ranks).to(type);
            }
            reference->step();
          }
          EXPECT_EQ(bits_of(*net), bits_of(*plain)) << type << ' ' << ranks << (overlap ? " overlapped" : "");
          return bits_of(*net);
        });
        for (const std::string& report : reports) EXPECT_EQ(report, reports[0]);
      }
    }
  }
}

/// Layers of bfloat16 and a norm of float32 between them.
struct MixedNet : torch::nn::Module {
  MixedNet() {
    at::manual_seed(1);
    first = register_module("first", Linear(3, 4));
    norm = register_module("norm", BatchNorm1d(4));
    last = register_module("last", Linear(4, 2));
    first->to(at::kBFloat16);
    last->to(at::kBFloat16);
  }
  at::Tensor loss(int batch) {
    at::manual_seed(1000 + static_cast<std::uint64_t>(batch));
    const at::Tensor x = first(torch::randn({4, 3}).to(at::kBFloat16)).to(at::kFloat);
    return (last(norm(x).tanh().to(at::kBFloat16)) - 1).pow(2).mean();
  }
  Linear first{nullptr}, last{nullptr};
  BatchNorm1d norm{nullptr};
};

TEST_F(HalfReplicasTest, AlgorithmsEndWithEqualReplicasOfMixedTypes) {
  for (const char* algorithm :
       {"eager-quorum", "eager-solo", "local", "diloco", "wagma:2", "wagma-quorum:2", "d-psgd", "sgp", "gossip-grad",
        "ad-psgd", "easgd", "easgd-async", "easgd-grid", "ps-sync", "ps-async"}) {
    const auto reports = run(3, [&](RankContext& rank) {
      const auto net = std::make_shared<MixedNet>();
      net->norm->weight.data()[0] = static_cast<float>(rank.rank());  // that of rank 0 counts
      DistributedOptimizer optimizer(rank, net, sgd(*net), {.algorithm = algorithm});
      EXPECT_EQ(optimizer.replica().buckets(),
                (std::vector<BucketSpec>{{DataType::bfloat16, 26}, {DataType::float32, 8}}));
      double before = 0, after = 0;
      for (int batch = 0; batch < 40 + 5 * rank.rank(); ++batch) {
        const at::Tensor loss = net->loss(batch);
        (batch == 0 ? before : after) = loss.item<double>();
        loss.backward();
        optimizer.step();
      }
      optimizer.finish();
      EXPECT_TRUE(optimizer.replicas_identical()) << algorithm;
      EXPECT_LT(after, before) << algorithm;
      return bits_of(*net);
    });
    for (const std::string& report : reports) EXPECT_EQ(report, reports[0]) << algorithm;
  }
}

TEST_F(HalfReplicasTest, TheGradientThatIsNotFiniteIsNamed) {
  for (const at::ScalarType type : {at::kBFloat16, at::kHalf}) {
    for (const bool infinite : {false, true}) {
      const auto reports = outcome(2, [&](RankContext& rank) {
        Sequential net = half_net(type);
        DistributedOptimizer optimizer(rank, net.ptr(), sgd(*net), {.algorithm = "eager-quorum"});
        for (int batch = 0; batch < 1000; ++batch) {
          half_loss(net, batch).backward();
          if (batch == 3 && rank.rank() == 1) {
            using Limits = std::numeric_limits<float>;
            net->parameters()[2].mutable_grad()[1][3] = infinite ? -Limits::infinity() : Limits::quiet_NaN();
          }
          optimizer.step();
        }
        return std::string();
      });
      const std::string named = text("the gradient of 2.weight (element 7 is ", infinite ? "-inf" : "nan", ")");
      for (const std::string& report : reports) EXPECT_THAT(report, HasSubstr(named));
    }
  }
}

TEST_F(HalfReplicasTest, SamplesAreNoWeightsOfFloat16) {
  for (const char* algorithm : {"sync", "eager-quorum", "local", "diloco"}) {
    const auto report = outcome(1, [&](RankContext& rank) {
      Sequential net = half_net(at::kHalf);
      const DistributedOptions options{.algorithm = algorithm, .normalize = Normalize::samples};
      const DistributedOptimizer refused(rank, net.ptr(), sgd(*net), options);
      return std::string();
    });
    EXPECT_THAT(report[0], HasSubstr("normalize samples with bucket 0 of float16")) << algorithm;
  }
}

TEST_F(HalfReplicasTest, AConstantScaleOfTheLossIsDividedAwayBeforeTheStep) {
  run(1, [&](RankContext& rank) {
    Sequential net = half_net(at::kHalf), plain = half_net(at::kHalf);
    DistributedOptimizer optimizer(rank, net.ptr(), sgd(*net), {.algorithm = "sync"});
    optimizer.on_step([&] {
      const torch::NoGradGuard no_grad;
      for (auto& p : net->parameters()) p.mutable_grad().div_(1024);
    });
    const auto reference = sgd(*plain);
    (half_loss(net, 0) * 1024).backward();
    optimizer.step();
    (half_loss(plain, 0) * 1024).backward();
    for (auto& p : plain->parameters()) p.mutable_grad().div_(1024);
    reference->step();
    EXPECT_EQ(bits_of(*net), bits_of(*plain));
    optimizer.finish();
    return std::string();
  });
}

}  // namespace
}  // namespace stretto
