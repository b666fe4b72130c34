#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "stretto/base/error.h"
#include "stretto/kernel/combination.h"
#include "stretto/ordering/orderer/orderer.h"
#include "stretto/ordering/runtime/fused_way.h"

namespace stretto {

/// The fused buffers of a process set whose members share memory. A buffer goes through the board in chunks, one after
/// the other through a ring of slots: each member puts its part of a chunk in, from where its tensors lie, unless the
/// others see it there; whichever members look first sum pieces of it; each takes the sum out, to where its tensors'
/// sums go, unless all read it where they share it. The last to take it out frees the slot. So memory does not depend
/// on how large buffers are, and no member keeps another from going on but one that brings its part late, or is a whole
/// ring behind.
///
/// With its first chunk a member says what the buffer is made of, and its header. Where they differ fail() is called on
/// every member, with an error that names both.
///
/// Sums by the fixed tree over all members, of which those that bring nothing are left out (docs/protocol.md, Bits). A
/// step machine over memory handed in: it never waits or sleeps. One object a member, one thread at a time.
class FusedBoard final : public FusedWay {
 public:
  struct Shape {
    int slots = 8;                          ///< chunks between the first member and the last
    std::uint64_t chunk_bytes = 1 << 20;    ///< of a buffer at a time; a multiple of piece_bytes
    std::uint64_t piece_bytes = 128 << 10;  ///< summed by one member at a time; a multiple of 64
  };
  /// For buffers that are rarely larger than `fusion_bytes`: no more memory than they need.
  static Shape shape_for(std::uint64_t fusion_bytes);
  static std::uint64_t bytes_needed(const Shape& shape, const ProcessSet& set, int ranks);

  /// `memory`: bytes_needed() of them, zero before the first member comes, the same for all. `ranks`: of the job.
  /// `ring` wakes a rank of the job. `lent`: memory that all members see, the same for all; a round of one part in it
  /// is summed from where it lies, and FusedRound::shared_sum lies in it. `one_at_a_time`: step() does one thing, and
  /// not as many as it can, so that a search can order the members' steps.
  FusedBoard(std::span<std::byte> memory, const Shape& shape, const ProcessSet& set, int ranks,
             std::function<void(int rank)> ring, std::function<void(const Error&)> fail, std::span<std::byte> lent = {},
             bool one_at_a_time = false);

  bool takes_parts() const override { return true; }
  void start(FusedRound round) override;
  bool step() override;
  std::optional<FusedResult> take_result() override;
  bool lacks(int rank) const override;

 private:
  struct SlotWords;
  struct Seat;

  /// Where a member is in the parts of a buffer.
  struct Cursor {
    std::size_t part = 0;
    std::uint64_t offset = 0;  // in the part
  };
  struct Flight {
    FusedRound round;
    std::uint64_t bytes = 0;
    std::uint64_t chunks = 1;       // an empty buffer has one, too
    std::uint64_t first_chunk = 0;  // of the whole sequence
    Cursor in, out;
    std::optional<std::uint64_t> lends;  // where in lent_ this rank's part lies; nothing: it is put in
    std::vector<const std::byte*> lent;  // by member, once `known`: its part; null: it is put in
    bool shared = false;                 // once `known`: the sum goes to round.shared_sum alone
    RoundHeader header;                  // of all members, once the first chunk is complete
    std::vector<int> bringing;           // members, once `known`
    bool known = false;                  // what the members say of the buffer has been read
    bool over = false;
  };

  bool step_once();
  bool put_in();
  bool sum_a_piece();
  bool take_out();
  bool know(Flight& flight);
  void gather(Flight& flight, std::byte* to, std::uint64_t bytes);
  std::optional<std::uint64_t> place_in_lent(const std::byte* from, std::uint64_t bytes) const;
  void scatter(Flight& flight, const std::byte* from, std::uint64_t bytes);
  void sum_piece(const Flight& flight, std::uint64_t chunk, std::uint64_t piece);
  bool is_worth_a_ring(const Flight& flight, std::uint64_t chunk) const;
  void ring_if_due();
  void count_work(std::uint64_t bytes) {
    if (ring_due_) since_due_ += bytes;
  }

  Flight& flight_of(std::uint64_t chunk);
  std::uint64_t bytes_of_chunk(const Flight& flight, std::uint64_t chunk) const;
  std::uint64_t pieces_of_chunk(const Flight& flight, std::uint64_t chunk) const;
  std::uint64_t use_of(std::uint64_t chunk) const { return chunk / static_cast<std::uint64_t>(shape_.slots) + 1; }
  std::byte* slot(std::uint64_t chunk) const;
  SlotWords& words(std::uint64_t chunk) const;
  Seat& seat(std::uint64_t chunk, int member) const;
  std::byte* header_at(std::uint64_t chunk, int member) const;
  std::byte* input(std::uint64_t chunk, int member) const;
  const std::byte* brought(const Flight& flight, std::uint64_t chunk, int member) const;
  std::byte* result(const Flight& flight, std::uint64_t chunk) const;
  bool has_come(std::uint64_t chunk, int member) const;
  bool all_have_come(std::uint64_t chunk) const;
  bool complete(const Flight& flight, std::uint64_t chunk) const;
  const Combination& tree_of(const std::vector<int>& members);

  // Fixed after construction.
  const std::span<std::byte> memory_;
  const Shape shape_;
  const ProcessSet set_;
  const int ranks_;
  const std::function<void(int)> ring_;
  const std::function<void(const Error&)> fail_;
  const std::span<std::byte> lent_;
  const bool one_at_a_time_;

  std::deque<Flight> flights_;
  SequenceNumber begun_ = 0;
  std::uint64_t chunks_begun_ = 0;  // of all buffers begun here
  std::uint64_t chunks_in_ = 0;     // put in
  std::uint64_t chunks_out_ = 0;    // taken out
  bool failed_ = false;
  bool ring_due_ = false;                          // members may sleep that have something to do now
  std::uint64_t since_due_ = 0;                    // bytes worked at since then
  std::map<std::vector<int>, Combination> trees_;  // by the members that bring something
  std::vector<const std::byte*> sources_;          // of the piece being summed
  RoundHeader header_;                             // of a member, while know() reads it
};

}  // namespace stretto
