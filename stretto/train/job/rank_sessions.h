#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "stretto/base/clock.h"
#include "stretto/train/recipes/recipe.h"

namespace stretto {

/// A part of a rank that hands over batches in steps of its own, such as an optimizer. A rank may have several.
/// Application thread.
class BatchSource {
 public:
  /// This rank has no more batches: from now on the other ranks do not wait here for any. Applies the rounds that are
  /// complete, and waits for nothing. Called again and again while the rank waits elsewhere.
  virtual void drain() = 0;
  /// Empty where every round is one of all ranks, so that ranks which have made as many steps are in the same round.
  /// Otherwise the name of the algorithm under which a rank may be ahead of another.
  virtual std::string parts_ranks() const = 0;
  /// The name of its algorithm, and for whom a rank waits under it.
  virtual std::pair<std::string, StepWaits> waits() const = 0;

 protected:
  ~BatchSource() = default;  ///< its owner's
};

/// A loop over the rank's engine that ends, or meets those of the other ranks, in its own good time. A rank may have
/// several, begun in the same order on every rank. Where ranks meet in one of them they meet in all: a rank that has no
/// more batches for one cannot know in which one the others meet next. Application thread.
class RankLoop {
 public:
  /// Whether it has failed, so that nobody meets in it any more.
  virtual bool failed() const = 0;
  /// This rank has no more batches here before go_on(): returns when the rounds are over, on every rank. Without effect
  /// where they are.
  virtual void rest() = 0;
  /// rest() for at most `limit`, which is also the longest that later exchanges wait. Returns whether the rounds are
  /// over.
  virtual bool rest_within(Duration limit) = 0;
  /// Of a loop that rests: a number of each rank, by rank.
  virtual std::vector<std::uint64_t> gather(std::uint64_t mine) = 0;
  /// Of a loop that rests: all ranks are at the same place, and exchange what has to be the same.
  virtual void come_together() = 0;
  /// The end of rest(), when all ranks have called it.
  virtual void go_on() = 0;

 protected:
  ~RankLoop() = default;  ///< its owner's
};

/// The sessions and loops of one rank, which wait for each other: a part of its World. Application thread.
class RankSessions {
 public:
  /// The batch sources whose rounds are not over, in the order in which they began.
  const std::vector<BatchSource*>& batch_sources() const { return sources_; }
  /// Enters a batch source, which must outlive its remove().
  void add(BatchSource& source) {
    sources_.push_back(&source);
    ++sources_ever_;
  }
  /// How many have been added so far.
  int num_batch_sources_ever() const { return sources_ever_; }
  /// Takes out a batch source whose rounds are over.
  void remove(BatchSource& source) { std::erase(sources_, &source); }

  /// The loops that have begun and not ended, in the order in which they began.
  const std::vector<RankLoop*>& loops() const { return loops_; }
  /// Enters a loop, which must outlive its remove().
  void add(RankLoop& loop) { loops_.push_back(&loop); }
  /// Takes out a loop that has ended.
  void remove(RankLoop& loop) { std::erase(loops_, &loop); }

 private:
  std::vector<BatchSource*> sources_;
  std::vector<RankLoop*> loops_;
  int sources_ever_ = 0;
};

}  // namespace stretto
