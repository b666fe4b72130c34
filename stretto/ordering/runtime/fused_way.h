#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "stretto/base/data_type.h"
#include "stretto/observe/round_header.h"
#include "stretto/ordering/orderer/orderer.h"

namespace stretto {

/// One tensor's part of a fused buffer, on one rank.
struct FusedPart {
  const std::byte* mine = nullptr;  ///< only read; null: the neutral element, where the rank brings another part
  std::byte* sum = nullptr;         ///< where its sum goes, unless FusedRound::sum takes all; may not overlap `mine`
  std::uint64_t bytes = 0;          ///< of whole elements
};

/// One fused buffer as its collective is begun on a rank.
struct FusedRound {
  SequenceNumber number = 0;          ///< of the set's sequence
  std::uint64_t sequence_hash = 0;    ///< FusedBuffer::sequence_hash
  DataType type = DataType::float32;  ///< of an element
  ReduceOp op = ReduceOp::sum;        ///< by which they are reduced
  std::uint64_t count = 0;            ///< elements
  bool brings = false;                ///< false: this rank brings none, and the parts have no `mine`
  std::vector<FusedPart> parts;       ///< one behind the other; `count` elements in all
  std::byte* sum = nullptr;           ///< room for all of them; null: each part has its own
  /// Where every member sees the sum, if all of them bring all of the round and name this place: it is written there
  /// once, and nowhere else. Nobody reads what an earlier round has left there. Null: each member takes its own copy.
  std::byte* shared_sum = nullptr;
  RoundHeader header;  ///< of this rank
  /// Its tensors in words, a line each: what must be the same on every member. Null: says nothing.
  std::shared_ptr<const std::string> composition;
};

/// The result of a fused buffer.
struct FusedResult {
  SequenceNumber number = 0;  ///< of the set's sequence
  bool present = false;       ///< false: no member has brought an element, and the memory of the sums means nothing
  bool shared = false;        ///< the sum lies at FusedRound::shared_sum
  RoundHeader header;         ///< of all members
};

/// How the fused buffers of a process set are reduced: by messages or at a board. They are begun in the order of
/// numbers, several are under way at once, and they are handed over in that order. Sums are elementwise by the fixed
/// tree (docs/protocol.md, Bits), so that both ways have the same bits. All calls are those of the thread that drives
/// the engine.
class FusedWay {
 public:
  virtual ~FusedWay() = default;  ///< with none under way, or after a failure
  /// Whether a round may have several parts; else it has at most one, with memory.
  virtual bool takes_parts() const = 0;
  /// Begins the collective of the next number. Its memory is this object's until take_result() has returned it.
  virtual void start(FusedRound round) = 0;
  /// Does what can be done without the engine. Returns whether it did something.
  virtual bool step() = 0;
  /// The next one that is over: nobody uses its memory any more.
  virtual std::optional<FusedResult> take_result() = 0;
  /// Whether one that is under way waits for this rank of the job.
  virtual bool lacks(int rank) const = 0;

  /// `tell` is called with the number of each buffer, in start() or step(), when all that this rank brings to it lies
  /// where the others find it. Before the first start().
  void on_contributed(std::function<void(SequenceNumber)> tell) { tell_ = std::move(tell); }

 protected:
  void contributed(SequenceNumber number) const {
    if (tell_) tell_(number);
  }

 private:
  std::function<void(SequenceNumber)> tell_;
};

/// FusedRound::composition, cut where it is longer.
std::string_view cut_composition(const std::shared_ptr<const std::string>& tensors, std::size_t at_most);
/// The first place at which two of these differ, in words: "at place 3 rank 1 has …, rank 0 has …".
std::string composition_difference(int rank, std::string_view mine, int other, std::string_view theirs);

}  // namespace stretto
