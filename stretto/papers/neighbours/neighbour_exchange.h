#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "stretto/base/function_ref.h"
#include "stretto/base/mutex.h"
#include "stretto/collective/base/collective.h"
#include "stretto/collective/base/collective_base.h"
#include "stretto/engine/driver.h"
#include "stretto/engine/engine.h"
#include "stretto/kernel/bucket.h"
#include "stretto/papers/neighbours/graphs.h"
#include "stretto/schedule/schedule.h"

namespace stretto {

struct NeighbourOptions {
  /// The neighbours of this rank in each round. Ranks must agree: each sends what the other receives. In each round as
  /// many messages go into every set of ranks as come out of it, and after some rounds each rank has reached all.
  /// Called by the application's thread and by the one that drives the engine, perhaps at once.
  std::function<Links(Round)> links;
  std::string graph;  ///< what `links` follows from, in words: must be the same on every rank
  /// After every so many rounds all ranks do something together: so they all finish such a block that one has begun. 0:
  /// never.
  Round block = 0;
};

/// A message that has come. Valid inside the call that hands it out.
struct NeighbourMessage {
  Round round = 0;
  int sender = 0;
  std::uint64_t word = 0;                               ///< of the sender's begin()
  std::span<const std::span<const std::byte>> buckets;  ///< what it has written to its outgoing()
};

/// Sends what a rank gives to its out-neighbours and hands out what comes from its in-neighbours, round by round, with
/// no round of all ranks: a rank waits for its in-neighbours alone, and may be some rounds ahead of others. By
/// messages: one for each pair of neighbours and round, which carries all buckets and a word of the caller's. One that
/// comes early is kept under its round and sender. Nothing is lost, copied or added up here: a body is received into
/// memory in which the caller reads it, and is sent from memory into which the caller has written it.
///
/// The ranks may have different numbers of rounds of their own. One that has made all of its own (drain()) goes on with
/// rounds in which it sends and receives, as long as another one needs them (try_next()), so that in the end all have
/// begun the same number, and each has been handed everything sent to it.
///
/// One application thread. Costs a rank as many messages a round as it has out-neighbours, each of all buckets and 64
/// bytes; and one to each other rank when it drains.
class NeighbourExchange final : public Collective, private CollectiveBase {
 public:
  /// Called with each message that is handed out.
  using Add = FunctionRef<void(const NeighbourMessage&)>;

  /// Throws UsageError for buckets that cannot be. In the same order with regard to other collectives on every rank.
  NeighbourExchange(Engine& engine, std::vector<BucketSpec> buckets, NeighbourOptions options);
  ~NeighbourExchange() override;  ///< after Next::over, or with nobody that drives the engine any more

  /// Memory of the next round's message, which the caller fills before begin(). Its content before is whatever it was.
  std::span<std::byte> outgoing(int bucket);
  /// Begins round begun(): sends what lies in outgoing(), and `word`, to each out-neighbour. The memory is the
  /// exchange's then; other memory stands in its place. Returns at once.
  void begin(std::uint64_t word);
  /// Rounds that this rank has begun.
  Round begun() const { return begun_; }
  /// Rounds of which everything has been handed out, none missing in between.
  Round whole() const { return whole_; }

  /// If everything that in-neighbours send in rounds below `whole` has come, hands it out, with whatever else has come
  /// of rounds that this rank has begun, in the order of rounds and then of senders; each message once. Returns whether
  /// it has. Requires: whole ≤ begun(). The error is final.
  Result<bool> try_take(Round whole, Add add);

  /// This rank makes no further round of its own.
  void drain();
  /// The next step of a rank that has drained.
  enum class Next {
    begin,  ///< begin another round: some rank needs it
    wait,   ///< for news: it is not known yet whether there is another one, or something is still on its way
    over,   ///< nothing: all ranks have drained and begun the same number of rounds, and all messages are handed out
  };
  /// Hands out what is left once no further round follows. Requires: drain(). The error is final.
  Result<Next> try_next(Add add);

  /// Changes whenever try_take() or try_next() may come out otherwise than before. Thread-safe.
  std::uint64_t news() const { return news_.load(std::memory_order_acquire); }
  /// Waits until news() differs from `seen`. Returns Errc::timeout with who_is_missing(), Errc::members_changed once
  /// the engine is frozen (Engine::freeze()), or the error that is final.
  Result<void> wait(Driver& driver, TimePoint deadline, std::uint64_t seen);

  /// Of one message, in memory.
  std::uint64_t message_bytes() const { return message_bytes_; }

  void abort(Driver& driver, const Error& why) override { failure_.abort(driver, why); }
  std::optional<Error> failure() const override { return failure_.error(); }
  /// Asks no rank: names those whose messages are missing.
  std::string who_is_missing(Driver& driver, Duration timeout) override;

 private:
  /// A schedule for rounds with these neighbours.
  struct Plan {
    Plan(Schedule of, std::size_t in) : schedule(std::move(of)), theirs(in), taken(in) {}
    const Schedule schedule;
    BufferId mine = kNoBuffer;     // none without out-neighbours
    OpId begun = kNoOp;            // triggered when the application begins the round
    std::vector<BufferId> theirs;  // by in-neighbour
    std::vector<OpId> taken;       // its message has come, and has been handed out
    int open = 0;                  // rounds
  };
  struct Flight {
    Plan* plan;
    Links links;
    std::optional<std::size_t> sent;  // the set that is being sent
  };
  /// A message, as it goes from the driving thread to the application's, and back when it has been handed out.
  struct Come {
    Round round;
    int sender;
    std::size_t index;  // of the in-neighbour
    const std::byte* body;
  };
  struct Begun {
    Round round;
    std::size_t set;
  };

  // The driving thread's.
  bool poll(TimePoint now) override;
  bool admit(Round round, const Envelope& envelope) override;
  bool call(Round round, OpId op, std::uint32_t hook) override;
  void retired(Round round) override;
  bool hear(int peer, const Envelope& envelope, std::span<const std::byte> head) override;
  void lost(int peer, const Error& reason) override;
  void left(int peer, const Error& reason) override;

  Plan& plan_for(const Links& links);
  std::unique_ptr<Plan> make_plan(const Links& links) const;
  Flight& open(Round round);
  void note_drained(int peer, Round rounds);
  void needs(Round rounds);
  void tell_the_drained();
  Round whole_blocks(Round rounds) const;
  void tell_news() { news_.fetch_add(1, std::memory_order_release); }

  // The application thread's.
  Round round_of(const Come& come) const;
  void hand_out(const Come& come, Add add);

  // Fixed after construction.
  const std::vector<BucketSpec> buckets_;
  const NeighbourOptions options_;
  std::uint64_t message_bytes_ = 0;

  // The application thread's.
  Round begun_ = 0;
  Round whole_ = 0;
  std::deque<std::vector<int>> awaited_;  // of rounds whole_ to begun_ - 1: those whose messages were not handed out
  std::vector<Come> come_;                // not handed out yet
  std::optional<std::size_t> filling_;    // the set behind outgoing()
  std::vector<std::span<const std::byte>> shown_;
  bool draining_ = false;

  // The driving thread's.
  std::map<Links, std::unique_ptr<Plan>> plans_;
  std::map<Round, Flight> flights_;
  Round known_begun_ = 0;                         // rounds that the application has begun
  std::vector<std::optional<Round>> drained_at_;  // of each rank that has: rounds it had begun
  int drained_ = 0;                               // of them
  std::vector<Round> told_;                       // each drained rank: so many rounds are needed

  // Between the two.
  Mutex mutex_;
  std::vector<Block> sets_ GUARDED_BY(mutex_);  // of outgoing messages; grows where sends take long
  std::vector<std::size_t> free_ GUARDED_BY(mutex_);
  std::vector<Begun> to_begin_ GUARDED_BY(mutex_);
  std::vector<Come> arrived_ GUARDED_BY(mutex_);
  std::vector<Come> handed_out_ GUARDED_BY(mutex_);
  std::optional<Round> to_drain_ GUARDED_BY(mutex_);
  // Written by the driving thread: the application reads all_drained_ before needed_, which was written before it.
  std::atomic<Round> needed_{0};          // rounds that some rank is known to need
  std::atomic<bool> all_drained_{false};  // needed_ is final
  std::atomic<std::uint64_t> in_flight_{0};
  std::atomic<std::uint64_t> news_{0};
  std::atomic<bool> over_{false};  // application: no rank is needed any more
};

}  // namespace stretto
