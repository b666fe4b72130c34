#pragma once

#include <cstdint>
#include <functional>
#include <map>
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
///
/// Where models are averaged, not carried (AcrossWorlds), the rank holds the rounds that it has begun to apply. It
/// hears of full ones alone, since no other one counts.
class MemberAccount final : public RoundListener {
 public:
  /// Both must outlive it.
  MemberAccount(Changes& changes, RoundListener& next, AcrossWorlds across_worlds);
  ~MemberAccount() override;
  MemberAccount(const MemberAccount&) = delete;
  MemberAccount& operator=(const MemberAccount&) = delete;

  // The application's thread:
  /// The job goes on from a checkpoint after so many batches. Before entered().
  void go_on_after(std::uint64_t batches) { batches_ = batches; }
  /// The rank has entered the world of Changes::view().
  void entered();
  /// The rank holds all rounds before that world, and goes on with `rounds` there; null: rounds are not carried.
  void begun(CarriedSums* rounds);
  /// The rank is about to take over the model of a member that holds all rounds before that world: that member's
  /// text().
  void learns(std::string_view text);
  /// The rank has done so. Where models are averaged, `last_round`: of that member.
  void learned(const std::string& last_round);
  /// This rank has handed over so many batches.
  void deposited(std::uint64_t batches);
  /// Whether a batch that this rank has handed over is in no round that it has been handed.
  bool pending() const { return num_pending() > 0; }
  /// How many such batches there are.
  std::uint64_t num_pending() const;
  /// This rank leaves, and its lines have all that it has handed over: that counts when it is let go.
  void leaves_beside();
  /// Whether it has begun in any world.
  bool has_begun() const { return has_begun_; }
  /// Rounds it holds, without those of the present world that it has not been handed.
  Round handed() const { return handed_; }
  /// Batches in these, and before the checkpoint from which the job goes on.
  std::uint64_t batches() const { return batches_; }
  /// The account of these, for learns().
  std::string text() const;
  /// Where models are averaged: the last round that was handed over, for one that lacks it: with_decoded(), without
  /// buckets.
  const std::string& last_round() const { return last_round_; }
  /// Batches in these of each member, by number, of which there are so many.
  std::vector<std::uint64_t> batches_by_number(int numbers) const;
  /// The header of a round just handed over, by the members' numbers, of which there are so many.
  RoundHeader by_number(Round round, const RoundHeader& header, int numbers) const;

  /// Throws Failure (Errc::members_changed) where models are averaged, and the rank has said already that it does not
  /// hold the round. So does after() of an empty round.
  void before(const RoundResult& result) override;
  LoopCounts take_counts() override { return next_.take_counts(); }
  void counted(const LoopCounts& sum, int ranks) override { next_.counted(sum, ranks); }
  void apart(double share) override { next_.apart(share); }
  void after(const RoundResult& result) override;

 private:
  /// The members of a world.
  struct Seated {
    explicit Seated(const View& view);
    std::uint64_t epoch = 0;
    Round complete = 0;                          // before it
    std::vector<MemberNumber> numbers;           // by rank
    std::map<MemberNumber, std::uint64_t> left;  // View::left
  };
  /// Adds the batches of a round of a world.
  static void add(BatchesApplied& applied, const Seated& seated, const RoundHeader& header);
  /// The world to which a round belongs.
  const Seated& seated_in(Round round) const;
  /// Any thread, once the engine of the present world is frozen.
  Holding holding() const;
  /// Batches that this rank has handed over beside those applied.
  std::uint64_t num_pending_beside(const BatchesApplied& applied) const;
  /// This rank holds the round from now on. With the mutex locked.
  void count(const RoundResult& result);
  /// Has `hear` hear of the round that was counted last, with the batches of members that have left before it.
  void with_left(const RoundResult& result, const std::function<void(const RoundResult&)>& hear) const;

  Changes& changes_;
  RoundListener& next_;
  const bool averaged_;

  mutable std::mutex mutex_;       // of what follows, which the application alone changes
  std::vector<Seated> worlds_;     // begun last, and entered since
  CarriedSums* rounds_ = nullptr;  // of the world begun last, where they are carried
  bool has_begun_ = false, has_model_ = false;
  Round handed_ = 0;
  BatchesApplied applied_;
  BatchesApplied left_;  // of members that had left, which count with the last round
  bool leaves_beside_ = false;
  std::uint64_t batches_ = 0;
  std::uint64_t deposited_ = 0;
  std::string last_round_;
};

}  // namespace stretto
