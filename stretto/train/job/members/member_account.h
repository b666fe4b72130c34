#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "stretto/base/error.h"
#include "stretto/collective/partial_allreduce.h"
#include "stretto/membership/changes.h"
#include "stretto/train/recipes/recipe.h"

namespace stretto {

/// A round's result as it travels to a member that lacks it.
std::string encoded(const RoundResult& result);
/// Gives `use` what encoded() wrote. Errc::bad_input: it has not.
Result<void> with_decoded(std::string_view text, const std::function<void(const RoundResult&)>& use);

/// The account of a rank whose job's members change: it hears of rounds before the session's listener does, counts
/// whose batches are in them, and tells the master what this rank holds.
class MemberAccount final : public RoundListener {
 public:
  /// Both must outlive it.
  MemberAccount(Changes& changes, RoundListener& next);
  ~MemberAccount() override;
  MemberAccount(const MemberAccount&) = delete;
  MemberAccount& operator=(const MemberAccount&) = delete;

  // The application's thread:
  /// The rank has entered the world of Changes::view().
  void entered();
  /// The rank holds all rounds before that world, and goes on with `rounds` there.
  void begun(CarriedSums& rounds);
  /// The rank has taken over the model of a member that holds all rounds before that world, with this text().
  void learned(std::string_view text);
  /// This rank has handed over so many batches.
  void deposited(std::uint64_t batches);
  /// Whether a batch that this rank has handed over is in no round that it has been handed.
  bool pending() const;
  /// Whether it has begun in any world.
  bool has_begun() const { return rounds_ != nullptr; }
  /// Rounds it holds, without those of the present world that it has not been handed.
  Round handed() const { return handed_; }
  /// Batches in these.
  std::uint64_t batches() const { return batches_; }
  /// The account of these, for learned().
  std::string text() const;
  /// Batches in these of each member, by number, of which there are so many.
  std::vector<std::uint64_t> batches_by_number(int numbers) const;
  /// The header of a round just handed over, by the members' numbers, of which there are so many.
  RoundHeader by_number(Round round, const RoundHeader& header, int numbers) const;

  void before(const RoundResult& result) override { next_.before(result); }
  LoopCounts take_counts() override { return next_.take_counts(); }
  void counted(const LoopCounts& sum, int ranks) override { next_.counted(sum, ranks); }
  void after(const RoundResult& result) override;

 private:
  /// By rank, the members of the world to which a round belongs.
  const View& view_of(Round round) const;
  /// Any thread, once the engine of the present world is frozen.
  Holding holding() const;
  /// Whether this rank has handed over a batch beside those applied.
  bool is_pending(const BatchesApplied& applied) const;

  Changes& changes_;
  RoundListener& next_;

  mutable std::mutex mutex_;       // of what follows, which the application alone changes
  std::vector<View> views_;        // of the world begun last, and of those entered since
  CarriedSums* rounds_ = nullptr;  // of the world begun last
  bool has_model_ = false;
  Round handed_ = 0;
  BatchesApplied applied_;
  std::uint64_t batches_ = 0;
  std::uint64_t deposited_ = 0;
};

}  // namespace stretto
