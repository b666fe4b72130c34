#include "stretto/papers/neighbours/mixer.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "stretto/train/replica/flat_math.h"

namespace stretto {
namespace {

class MeanMixer final : public Mixer {
 public:
  MeanMixer(Replica& replica, std::function<std::vector<Share>(Round)> shares)
      : replica_(replica), shares_of_(std::move(shares)) {}

  void send(NeighbourExchange& exchange) override {
    for (std::size_t b = 0; b < replica_.parameter_buckets().size(); ++b) {
      const auto bucket = static_cast<int>(b);
      const auto parameters = replica_.parameters(bucket);
      std::memcpy(exchange.outgoing(bucket).data(), parameters.data(), parameters.size());
    }
    shares_ = shares_of_(exchange.begun());
    exchange.begin(0);
    own_counted_ = false;
  }

  void add(const NeighbourMessage& message) override {
    const auto share = std::ranges::find(shares_, message.sender, &Share::rank);
    STRETTO_CHECK(share != shares_.end(), "a message of rank ", message.sender, ", no neighbour");
    for (std::size_t b = 0; b < replica_.parameter_buckets().size(); ++b) {
      const DataType type = replica_.parameter_buckets()[b].type;
      const auto parameters = replica_.parameters(static_cast<int>(b));
      // The gradients of the step under way may have been computed on the parameters as they were sent.
      if (!own_counted_) scale(type, parameters, parameters, own_share(shares_));
      add_scaled(type, parameters, message.buckets[b], 1.0 / share->parts);
    }
    own_counted_ = true;
  }

  void mixed() override {}
  void stand_still() override {}  // messages of a round are added all at once, or not at all
  void before_average() override {}
  void after_average() override {}
  std::uint64_t memory_bytes() const override { return 0; }

 private:
  Replica& replica_;
  const std::function<std::vector<Share>(Round)> shares_of_;
  std::vector<Share> shares_;  // of the round under way
  bool own_counted_ = false;   // the parameters have been multiplied by their own share
};

class PushSumMixer final : public Mixer {
 public:
  PushSumMixer(Replica& replica, std::function<int(Round)> out_neighbours)
      : replica_(replica), out_neighbours_(std::move(out_neighbours)) {
    for (const BucketSpec& bucket : replica.parameter_buckets()) z_.emplace_back(bucket.count * size_of(bucket.type));
  }

  void send(NeighbourExchange& exchange) override {
    if (!std::exchange(started_, true)) after_average();
    const double weight = weight_.value();
    const int neighbours = out_neighbours_(exchange.begun());
    const double part = weight_.split(neighbours);
    for (std::size_t b = 0; b < z_.size(); ++b) {
      const DataType type = replica_.parameter_buckets()[b].type;
      const auto parameters = replica_.parameters(static_cast<int>(b));
      const auto outgoing = exchange.outgoing(static_cast<int>(b));
      // The step has moved the model z/w by parameters − z/w, so z + parameters − z/w is the biased model now.
      if (weight != 1) add_scaled(type, parameters, z_[b], 1 - 1 / weight);
      scale(type, outgoing, parameters, 1.0 / (neighbours + 1));
      std::memcpy(z_[b].data(), outgoing.data(), outgoing.size());
    }
    exchange.begin(std::bit_cast<std::uint64_t>(part));
  }

  void add(const NeighbourMessage& message) override {
    weight_.add(std::bit_cast<double>(message.word));
    for (std::size_t b = 0; b < z_.size(); ++b) {
      add_scaled(replica_.parameter_buckets()[b].type, z_[b], message.buckets[b], 1);
    }
  }

  void mixed() override {
    for (std::size_t b = 0; b < z_.size(); ++b) {
      scale(replica_.parameter_buckets()[b].type, replica_.parameters(static_cast<int>(b)), z_[b], 1 / weight_.value());
    }
  }

  void stand_still() override {
    if (started_) mixed();
  }

  void before_average() override {
    if (!started_) return;
    for (std::size_t b = 0; b < z_.size(); ++b) {
      std::memcpy(replica_.parameters(static_cast<int>(b)).data(), z_[b].data(), z_[b].size());
    }
  }

  void after_average() override {
    weight_ = {};
    for (std::size_t b = 0; b < z_.size(); ++b) {
      std::memcpy(z_[b].data(), replica_.parameters(static_cast<int>(b)).data(), z_[b].size());
    }
  }

  std::uint64_t memory_bytes() const override {
    std::uint64_t bytes = 0;
    for (const auto& bucket : z_) bytes += bucket.size();
    return bytes;
  }

 private:
  Replica& replica_;
  const std::function<int(Round)> out_neighbours_;
  std::vector<std::vector<std::byte>> z_;  // a bucket each; of what has been sent the part that stayed
  PushSumWeight<double> weight_;           // w
  bool started_ = false;                   // z_ is there: the first round has begun
};

}  // namespace

std::unique_ptr<Mixer> make_mean_mixer(Replica& replica, std::function<std::vector<Share>(Round)> shares) {
  return std::make_unique<MeanMixer>(replica, std::move(shares));
}

std::unique_ptr<Mixer> make_push_sum_mixer(Replica& replica, std::function<int(Round)> out_neighbours) {
  return std::make_unique<PushSumMixer>(replica, std::move(out_neighbours));
}

}  // namespace stretto
