#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>

#include "stretto/membership/changes.h"
#include "stretto/membership/job.h"
#include "stretto/membership/rank_end.h"
#include "stretto/transport/hosts/hello.h"

namespace stretto {

/// As whom a process comes to the master of a job whose members change.
struct ChangingRankOptions {
  std::string host = {};  ///< address at which the master listens
  std::uint16_t port = 0;
  Token token{};                                     ///< of the job
  MemberNumber number = 0;                           ///< that no process of the job has had before
  std::map<std::string, std::string> terms = {};     ///< View::terms
  std::function<bool()> interrupted = {};            ///< RankContext::interrupted(); empty: never
  std::function<void(const RankMessage&)> say = {};  ///< is given what the rank reports and complains of
  /// Called about ten times a second while this rank waits, on its thread. What it throws passes through the call.
  std::function<void()> look = {};
};

/// The context of a rank whose job's members change, all on one host. A thread of its own hears the master, so that the
/// engine can be stopped while the application computes.
class ChangingRank final : public RankContext, public Changes {
 public:
  /// Waits for its first view, and for the members of that. Throws Failure where the master cannot be reached, or
  /// (Errc::bad_input) says that this process does not fit.
  explicit ChangingRank(ChangingRankOptions options);
  ~ChangingRank() override;
  ChangingRank(const ChangingRank&) = delete;
  ChangingRank& operator=(const ChangingRank&) = delete;

  World& world() override;
  /// Throws UsageError: a counter of all members would be lost with its world. Batches come from Changes::take().
  SharedCounter& counter(int index) override;
  std::span<std::byte> extra() override { return {}; }
  bool interrupted() override;
  void report(std::string text) override;
  void complain(const Error& error) override;
  Changes* changes() override { return this; }

  const View& view() const override;
  MemberNumber number() const override;
  void holds(std::function<Holding()> holding) override;
  bool changing() const override;
  void enter() override;
  [[nodiscard]] bool begin() override;
  [[nodiscard]] bool finish() override;
  std::optional<std::uint64_t> take(std::uint64_t batches) override;

 private:
  class Link;
  const ChangingRankOptions options_;
  std::unique_ptr<Link> link_;
  bool reported_ = false;
};

}  // namespace stretto
