#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <utility>

#include "stretto/base/error.h"

namespace stretto {

/// All that a job across hosts asks of the launcher of its ranks: this rank's number, how many there are, and a string
/// that rank 0 leaves for the others. Each call returns after about kLongestCall. Errc::unavailable: what the launcher
/// keeps cannot be reached, and may be asked again. One thread.
class Bulletin {
 public:
  /// This rank's number, 0 … ranks − 1, and how many there are in the job.
  Bulletin(int rank, int ranks) : rank_(rank), ranks_(ranks) {}
  virtual ~Bulletin() = default;  ///< after the meeting
  Bulletin(const Bulletin&) = delete;
  Bulletin& operator=(const Bulletin&) = delete;

  static constexpr std::size_t kMostBytes = 1000;  ///< of what rank 0 leaves
  static constexpr std::chrono::seconds kLongestCall{1};
  int rank() const { return rank_; }
  int ranks() const { return ranks_; }
  /// Rank 0's: leaves `words`, at most kMostBytes without blanks, in the place of what it has left before.
  virtual Result<void> publish(const std::string& words) = 0;
  /// The other ranks': what rank 0 has left last; empty: nothing yet.
  virtual Result<std::string> look_up() = 0;
  /// All have met: no call but this one follows, and an MPI may speak with the launcher.
  virtual void end() {}
  /// "host:port" at which rank 0 has to listen; empty: where it likes.
  virtual std::string given_address() const { return {}; }

 private:
  const int rank_, ranks_;
};

/// Rank 0's address, given by hand (STRETTO_MEETING): nothing is left anywhere.
class GivenAddress final : public Bulletin {
 public:
  /// `address`: "host:port", of an interface of rank 0's host.
  GivenAddress(int rank, int ranks, std::string address) : Bulletin(rank, ranks), address_(std::move(address)) {}
  Result<void> publish(const std::string&) override { return {}; }
  Result<std::string> look_up() override { return address_; }
  std::string given_address() const override { return address_; }

 private:
  const std::string address_;
};

}  // namespace stretto
