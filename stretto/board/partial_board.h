#pragma once

#include <cstdint>
#include <functional>

#include "stretto/board/open_round.h"
#include "stretto/board/partial_memory.h"

namespace stretto {

/// The board on which the ranks of one host hold a partial allreduce (docs/boards.md): their deposits,
/// their arrivals, and the results of the last W rounds. This is the engine's side, the same on every rank: each rank
/// that waits steps it, and each step does for all ranks the next thing that is due.
///
/// A round is open. A rank sees that it may start and moves the stage to sealing. Every seat's word is sealed, the
/// empty ones too, by any rank that steps. One rank writes the plan: the list of sets to be summed, and the header.
/// Pieces are summed, each by the rank that claims it. Then the round is complete and the next one open.
/// In the order of arrival deposits may be summed before the round starts: the first deposit on a seat stays until the
/// seat is sealed, and so does the second of a rank that waits. One round is in flight at a time: no rank can arrive at
/// the next one before this one is complete.
///
/// A job may have several boards (PartialShape::job_ranks), whose leaders are the ranks with seat 0. Then the rule of a
/// leader alone starts a round; the board's sum goes to a place of its own, and the leader is rung whenever a
/// bucket is ready (PartialMemory::bucket_summed()). The round stays in the stage summing until the sum over all boards
/// lies where the result goes, and the leader calls end().
///
/// Its parts share an OpenRound: PartialStart, PartialPlan and PartialSum; the board itself moves the stage.
///
/// A step machine over memory handed in: with `interleaved` each step makes one access to shared memory, so that a
/// search can put the ranks' steps in any order. One object a rank, one thread at a time; the rank's PartialSeat is
/// another's.
class PartialBoard {
 public:
  /// `ring`: the rank with a seat. `ring_each`: ranks that wait sleep on their doorbells alone, not on signal(), as
  /// those do that wait at several boards.
  PartialBoard(PartialMemory& memory, int seat, PartialRule& rule, std::function<void(int seat)> ring,
               bool interleaved = false, bool ring_each = false);
  PartialBoard(const PartialBoard&) = delete;
  PartialBoard& operator=(const PartialBoard&) = delete;

  /// Does all that is due now. `waiting`: this rank's application waits, so that it sums ahead. Returns whether
  /// anything was done (interleaved: whether there may be more).
  bool step(bool waiting);

  /// In one order for all threads, together with Engine::frozen().
  Round complete() const { return memory_.words().stage.load(std::memory_order_seq_cst) >> 2; }
  bool in_flight() const { return (memory_.words().stage.load(std::memory_order_acquire) & 3) != PartialMemory::kOpen; }
  /// Rounds whose seats are all sealed, so that it is settled what they take.
  Round sealed() const {
    const std::uint64_t stage = memory_.words().stage.load(std::memory_order_seq_cst);
    return (stage >> 2) + ((stage & 3) == PartialMemory::kSumming ? 1 : 0);
  }
  /// Requires: handed ≤ round < complete(), of this rank.
  RoundHeader header(Round round) const {
    RoundHeader header;
    read_header(round, header);
    return header;
  }
  /// The same into `header`, whose memory is used again.
  void read_header(Round round, RoundHeader& header) const;
  /// read_header() where this rank's application may have handed the round over meanwhile. False if the record may have
  /// been overwritten: then discard everything read from it before.
  [[nodiscard]] bool read_kept_header(Round round, RoundHeader& header) const;
  /// Several boards, the leader: the sum over all boards lies where the result of `round` goes, and `header` is its
  /// header.
  void end(Round round, const RoundHeader& header);
  /// Whether the bound on the lag holds the open round back.
  bool held() const { return memory_.words().held.load(std::memory_order_relaxed) == complete() + 1; }
  /// Wakes ranks that wait, to sum pieces that are ready. Returns how many.
  int wake_helpers() { return at_.wake_helpers(); }
  /// Whether every rank has come to the open round and handed over the first `buckets` buckets of its contribution. If
  /// several ranks do so at once, one of them sees it. The application's thread.
  bool all_have(int buckets) const;
  /// Whether every rank has come to the open round or drained. If several ranks come at once, one of them sees it.
  bool all_have_come() const { return all_have(0); }
  /// Wakes a rank that waits, if any.
  int wake_one();
  /// The word that a rank sleeps on beside its doorbell (Sleepers).
  std::atomic<std::uint32_t>* signal();
  /// From now on the rank that completes a round wakes this rank. Returns whether that is new: then step once more
  /// before sleeping.
  bool go_in();
  /// Simulated, a look takes many calls of step(), and those at the boards of one engine need not end together: a rank
  /// that has gone in, and has looked since, looks again only once it is woken.
  bool sleeps() { return at_.interleaved && looked_since_ && memory_.words().sleepers.contains(at_.rank); }
  void leave();

 private:
  BoardStep take_step();
  BoardStep look();
  BoardStep seal();
  BoardStep end_sealing();
  BoardStep end_round();
  void open_next();

  PartialMemory& memory_;
  OpenRound at_;
  PartialStart start_{at_};
  PartialPlan plan_{at_};
  PartialSum sum_{at_};
  BoardStep next_ = BoardStep::look;
  bool looked_since_ = false;  // it has gone in
};

}  // namespace stretto
