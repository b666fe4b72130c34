#pragma once

#include <functional>
#include <string>

#include "stretto/base/descriptor.h"
#include "stretto/membership/hosts/bulletin.h"

namespace stretto {

/// The store that torchrun's agent keeps for its workers (c10d's TCPStore, by its wire format), at MASTER_ADDR and
/// MASTER_PORT.
class StoreBulletin final : public Bulletin {
 public:
  /// `look`: RendezvousOptions::look.
  StoreBulletin(int rank, int ranks, std::string host, std::string port, std::function<void()> look = {});
  int rank() const override { return rank_; }
  int ranks() const override { return ranks_; }
  Result<void> publish(const std::string& words) override;
  Result<std::string> look_up(TimePoint deadline) override;

 private:
  Result<void> connect(TimePoint deadline);
  Result<void> send(const std::string& bytes);
  Result<std::string> receive(std::size_t bytes, TimePoint deadline);
  Error broken(const std::string& how) const;

  const int rank_, ranks_;
  const std::string host_, port_;
  const std::function<void()> look_;
  const SteadyClock clock_;
  Descriptor socket_;
};

}  // namespace stretto
