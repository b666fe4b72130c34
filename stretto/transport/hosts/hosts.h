#pragma once

#include <memory>
#include <string>
#include <utility>

#include "stretto/transport/hosts/carrier.h"
#include "stretto/transport/shm.h"

namespace stretto {

/// Messages between the ranks of several hosts: through the memory that those of a host share, and by a Carrier between
/// hosts.
class HostsTransport final : public Transport {
 public:
  /// `memory`: of this rank's host. Outlives the transport, as does `carrier`, which rings this rank's doorbell there.
  /// `chosen`: which one that is, and why.
  HostsTransport(JobMemory& memory, int rank, const Members& members, Carrier& carrier, std::string chosen)
      : here_(memory, rank, members), between_(carrier), chosen_(std::move(chosen)) {}

  int rank() const override { return here_.rank(); }
  int size() const override { return here_.size(); }
  void send(int peer, Envelope envelope, std::span<const std::byte> head, std::span<const std::byte> body,
            SendToken token) override;
  bool poll(MessageSink& sink) override;
  TimePoint poll_by() const override;
  Doorbell& doorbell() override { return here_.doorbell(); }
  const Members& members() const override { return here_.members(); }
  const char* name() const override { return "hosts"; }
  std::string between_hosts() const override { return chosen_; }

 private:
  SharedArena* arena() override { return here_.host().arena; }

  ShmTransport here_;
  Carrier& between_;
  const std::string chosen_;
};

}  // namespace stretto
