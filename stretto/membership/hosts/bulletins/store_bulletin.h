#pragma once

#include <string>

#include "stretto/base/descriptor.h"
#include "stretto/membership/hosts/bulletin.h"

namespace stretto {

/// The store that torchrun's agent keeps for its workers (c10d's TCPStore, by its wire format), at MASTER_ADDR and
/// MASTER_PORT.
class StoreBulletin final : public Bulletin {
 public:
  StoreBulletin(int rank, int ranks, std::string host, std::string port);
  Result<void> publish(const std::string& words) override;
  Result<std::string> look_up() override;

 private:
  Result<void> connect();
  Result<void> send(const std::string& bytes);
  Result<std::string> receive(std::size_t bytes);
  /// `errc`: Errc::unavailable where the store may be asked again.
  Error broken(Errc errc, const std::string& how);

  const std::string host_, port_;
  Descriptor socket_;
};

}  // namespace stretto
