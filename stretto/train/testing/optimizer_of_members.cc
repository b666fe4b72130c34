// A rank with a DistributedOptimizer in a job whose members change: optimizer_of_members LAST [NUMBER:STEP…] [FOLDER/]:
// steps are slow until member LAST is there, and the member of that number is killed as it begins that step of its own,
// from 1. With FOLDER it saves checkpoints, and goes on from the one there is. At the end a member says in a line how
// many ranks it has been told of, and, in bits, the rate that a scheduler has set, a state that it has registered, and
// its weight.

#include <ATen/ops/full.h>
#include <signal.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/schedulers/step_lr.h>
#include <torch/optim/sgd.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "stretto/base/error.h"
#include "stretto/base/words.h"
#include "stretto/membership/changes.h"
#include "stretto/membership/job.h"
#include "stretto/train/distributed_optimizer.h"

namespace stretto {
namespace {

constexpr std::uint64_t kSamples = 3000;

int train_with_optimizer(RankContext& rank, MemberNumber last, const std::map<MemberNumber, std::uint64_t>& deaths,
                         const std::string& folder) {
  torch::nn::Linear net(1, 1);
  const auto sgd = std::make_shared<torch::optim::SGD>(net->parameters(), torch::optim::SGDOptions(1e-3).momentum(0.5));
  const std::uint64_t full_every = folder.empty() ? 0 : 100;
  DistributedOptimizer optimizer(rank, net.ptr(), sgd, {.algorithm = "eager-quorum", .full_every = full_every});
  optimizer.follow(std::make_shared<torch::optim::StepLR>(*sgd, 40, 0.9));
  double mean = 0;  // of the weight, as an average of a model is kept
  optimizer.register_state(
      "mean", [&] { return std::string(reinterpret_cast<const char*>(&mean), sizeof mean); },
      [&](const std::string& content) { std::memcpy(&mean, content.data(), sizeof mean); });
  optimizer.on_round([&](const RoundHeader&) { mean = 0.9 * mean + 0.1 * net->weight.item<double>(); });
  std::string told;
  bool all_have_come = false;
  optimizer.on_members([&](const NewMembers& members) {
    told += text(' ', members.ranks);
    all_have_come |= std::ranges::find(members.joined, last) != members.joined.end();
  });
  if (!folder.empty()) {
    optimizer.on_full_round([&] { optimizer.save(folder); });
    optimizer.load(folder);
  }
  std::uint64_t dies_at = 0;
  for (const Batch& batch : optimizer.batches(kSamples, 1)) {
    if (optimizer.steps() == 0) {
      const auto death = deaths.find(rank.changes()->number());
      dies_at = death != deaths.end() ? death->second : 0;
    }
    if (optimizer.steps() + 1 == dies_at) ::raise(SIGKILL);
    ::usleep(all_have_come ? 200 : 20'000);
    (net->forward(at::full({1, 1}, static_cast<double>(batch.sequence % 3))) - 1).pow(2).mean().backward();
    optimizer.step();
  }
  optimizer.finish();
  std::printf("member %llu: among%s, %llu applied, rate %a, mean %a, weight %a, %s\n",
              static_cast<unsigned long long>(rank.changes()->number()), told.c_str(),
              static_cast<unsigned long long>(optimizer.batches_applied()), sgd->param_groups()[0].options().get_lr(),
              mean, net->weight.item<double>(), optimizer.replicas_identical() ? "equal" : "DIFFER");
  return 0;
}

}  // namespace
}  // namespace stretto

int main(int argc, char** argv) {
  using namespace stretto;
  if (argc < 2) return 2;
  const MemberNumber last = std::strtoull(argv[1], nullptr, 10);
  std::map<MemberNumber, std::uint64_t> deaths;
  std::string folder;
  for (int i = 2; i < argc; ++i) {
    if (std::string_view(argv[i]).ends_with('/')) {
      folder = argv[i];
      continue;
    }
    char* end = nullptr;
    const MemberNumber number = std::strtoull(argv[i], &end, 10);
    if (*end != ':') return 2;
    deaths[number] = std::strtoull(end + 1, nullptr, 10);
  }
  const auto job =
      launch({.ranks = 1}, [&](RankContext& rank) { return train_with_optimizer(rank, last, deaths, folder); });
  if (!job) std::fprintf(stderr, "%s\n", job.error().message.c_str());
  return job && job->ok() ? 0 : 1;
}
