#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "stretto/base/function_ref.h"
#include "stretto/collective/plain.h"
#include "stretto/train/replica/given_texts.h"
#include "stretto/train/replica/replica.h"

namespace stretto {

/// How a Meeting waits for the other ranks.
struct MeetingOptions {
  Duration silence = std::chrono::seconds(10);  ///< so long without news it is said who is missing, again and again
  Duration timeout = std::chrono::minutes(5);   ///< then it is a Failure; a rank may still be starting
  Duration look_every = std::chrono::milliseconds(100);    ///< whether another rank has stopped the job
  std::function<void(const std::string& line)> tell = {};  ///< is told who is missing; empty: nobody is
};

/// Exchanges among ranks that are all at the same place: before round 0, and inside the function that applies a round
/// whose policy is full (every rank applies it, after the same rounds). Every rank calls the same, in the same order;
/// each call waits for all. Throws Failure when a rank is lost meanwhile, and UsageError once a call has not returned.
/// One application thread.
class Meeting {
 public:
  /// Makes its collectives; in the same order on every rank. Both must outlive it.
  Meeting(Engine& engine, Replica& replica, MeetingOptions options = {});
  /// MeetingOptions::timeout from now on.
  void set_timeout(Duration timeout) { options_.timeout = timeout; }

  /// A call has not returned: its collective failed, and the engine may still use the memory of this.
  bool interrupted() const { return interrupted_; }
  /// Every call under way ends with `why`, on every rank: Collective::abort().
  void abort(Driver& driver, const Error& why);

  /// Gives the ranks that `take` them, which is each one's own affair, the weights of rank `from`.
  void broadcast_weights(Driver& driver, int from = 0, bool take = true) {
    broadcast_weights(driver, from, [take] { return take; });
  }
  /// The same; `takes` is called when they are there, before the replica changes.
  void broadcast_weights(Driver& driver, int from, FunctionRef<bool()> takes);
  /// The same with the state of the optimizer.
  void broadcast_optimizer(Driver& driver, int from = 0, bool take = true);
  /// The text that `make` returns on rank `from`, where alone it is called, on all ranks. Where it throws UsageError
  /// there, every rank throws the same.
  std::string broadcast_text(Driver& driver, FunctionRef<std::string()> make, int from = 0);
  /// Begins to give the texts that `make` returns on rank `from`, where alone it is called, to the ranks `to`. Every
  /// rank calls this, and none waits for the texts: they go in pieces, which the engines of these ranks pass on while
  /// their applications do something else. Where `make` throws UsageError every rank throws the same. At most kNumbers
  /// − 2 texts; once a meeting.
  void begin_giving(Driver& driver, FunctionRef<std::vector<std::string>()> make, int from, const std::vector<int>& to);
  /// On a rank that they are given to: waits for the texts.
  std::vector<std::string> take_given(Driver& driver);
  /// Gives back the memory of those that have left this rank.
  void forget_given();
  /// The weights of the replica as a text.
  std::string weights() const;
  /// Sets them to what weights() of a replica of the same model gave.
  void set_weights(std::string_view text);

  // Of arrays of bfloat16 and float16 a mean is that of float32 numbers, rounded once.

  /// From now on averages are those of these ranks alone, which all ranks get; by rank. Empty: of all.
  void let_weigh(std::vector<bool> ranks) { weigh_ = std::move(ranks); }
  /// Sets the parameters to their mean over all ranks: the same bits everywhere.
  void average_parameters(Driver& driver);
  /// The same with buffers of floating point numbers. A variance becomes that over all ranks: the mean of theirs, and
  /// the spread of their means. A count becomes the largest. Of buffers that change, those that all ranks have alike.
  void average_buffers(Driver& driver);

  /// Sets the arrays in the optimizer's state (momentum, Adam's moments) to their mean over the ranks that have any;
  /// ranks that have made no step yet keep none. Throws UsageError, on every rank, where ranks have different ones.
  void average_optimizer(Driver& driver);

  static constexpr std::size_t kNumbers = 8;            ///< so many a rank at a time, few: each rank gets those of all
  using Numbers = std::array<std::uint64_t, kNumbers>;  ///< what they say is the caller's
  /// A few numbers of each rank, by rank.
  std::vector<Numbers> gather(Driver& driver, const Numbers& mine);
  /// The lowest rank whose numbers are not those of rank 0.
  std::optional<int> differing_rank(Driver& driver, const Numbers& mine);
  /// Any number of numbers of each rank, by rank.
  std::vector<std::vector<std::uint64_t>> gather_lists(Driver& driver, std::span<const std::uint64_t> mine);
  /// A text of each rank, by rank.
  std::vector<std::string> gather_texts(Driver& driver, const std::string& mine);

 private:
  /// Arrays of one wide_type(), averaged as one.
  struct Average {
    Average(Engine& engine, DataType type, std::uint64_t count);
    const DataType type;
    const std::uint64_t count;
    std::vector<std::byte> mine, total;  // of the call under way; after a failure the engine may still use them
    Allreduce sum;
  };
  /// Runs one round of a collective, and says who is missing where it takes long. A rank that stops the job may not
  /// have made this collective yet; what it has made for certain fails, too, and ends the wait.
  void insist(Driver& driver, Collective& collective, const std::function<Result<void>(TimePoint)>& run);
  void run(Driver& driver, Average& average);
  void broadcast_words(Driver& driver, int from);
  /// On which buffers there are on every rank, where these may change.
  void agree_on_buffers(Driver& driver);
  std::vector<Replica::Buffer> means() const;
  /// `before`: the means of this rank, where all ranks have the common ones by now.
  void add_spread(Driver& driver, std::vector<std::vector<std::byte>> before);
  void take_largest_counts(Driver& driver);
  /// Sets interrupted() while a call runs, and for good where it throws.
  class Call;
  bool weighs(std::size_t rank) const { return weigh_.empty() || weigh_[rank]; }
  /// Ranks that weigh.
  int weight() const;
  /// Sets `arrays` to their sum over the ranks that weigh, divided by `divisor`. A rank that has none brings zeros.
  void average(Driver& driver, std::vector<std::unique_ptr<Average>>& averages,
               const std::vector<Replica::Buffer>& arrays, int divisor);
  std::vector<Replica::Buffer> parameters();
  std::vector<std::unique_ptr<Average>> make_averages(Engine& engine, const std::vector<Replica::Buffer>& arrays);

  Engine& engine_;
  Replica& replica_;
  LocalBuffers* const local_;  // of the replica; null: it has none
  MeetingOptions options_;
  const int ranks_;
  bool interrupted_ = false;
  std::vector<bool> weigh_;               // by rank; empty: all do
  std::vector<std::int32_t> words_;       // of a broadcast, while it runs
  std::vector<std::int64_t> mine_, all_;  // of gather()
  Allgather numbers_;  // made before those that depend on the model, so that ranks whose models differ can still say so
  /// Of gather_lists(), a piece of each list at a time. Made when first needed.
  struct Lists {
    explicit Lists(Engine& engine);
    std::vector<std::int64_t> mine, all;
    Allgather numbers;
  };
  std::unique_ptr<Lists> lists_;
  std::vector<std::unique_ptr<Average>> buffers_, spread_;  // a type each
  std::unique_ptr<Broadcast> broadcast_;                    // while it runs
  std::unique_ptr<GivenTexts> given_;
  // Made when first averaged: several times a model's memory, which many algorithms never need.
  std::vector<std::unique_ptr<Average>> parameters_, optimizer_;
};

}  // namespace stretto
