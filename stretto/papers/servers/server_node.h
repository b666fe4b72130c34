#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "stretto/collective/base/collective_base.h"
#include "stretto/engine/engine.h"
#include "stretto/engine/inquiry.h"
#include "stretto/papers/servers/parameter_server.h"
#include "stretto/papers/servers/served_bucket.h"
#include "stretto/schedule/schedule.h"

namespace stretto {

/// Control messages of a ParameterServer. GET, DONE: the round is the MessageId of the answer. PASS: round and note are
/// those of PUSH. COMMIT: `last` where no
/// version of the phase follows.
inline constexpr std::uint16_t kGet = kControlChannel;           ///< note: the version wanted
inline constexpr std::uint16_t kDone = kControlChannel + 1;      ///< note: the clock at which the rank ends the phase
inline constexpr std::uint16_t kCommit = kControlChannel + 2;    ///< round: version; note: whether last; head: ranks
inline constexpr std::uint16_t kPass = kControlChannel + 3;      ///< in the place of PUSH, without a body
inline constexpr std::uint16_t kWhoWaits = kControlChannel + 4;  ///< an Inquiry: for whom the shards wait, in words

/// A message with a body travels as a round of its own, by a schedule of one message. Which one it is stands in the
/// number of the round, the same on both sides.
struct MessageId {
  /// Whose body it is.
  enum class Kind : std::uint8_t {
    push,   ///< of step `clock`; the note is the version it was computed on
    value,  ///< answers GET at `clock`; the note is its version
    final,  ///< answers DONE of phase `clock`, from 0; likewise
  };
  Kind kind = Kind::push;
  int bucket = 0;
  int worker = 0;           ///< the rank that pushes, or has asked
  std::uint64_t clock = 0;  ///< steps that rank has pushed before

  /// Requires: fewer than `buckets` and `ranks`, as has the next.
  Round encode(int buckets, int ranks) const {
    const auto b = static_cast<std::uint64_t>(buckets), r = static_cast<std::uint64_t>(ranks);
    return ((clock * b + static_cast<std::uint64_t>(bucket)) * r + static_cast<std::uint64_t>(worker)) * 3 +
           static_cast<std::uint64_t>(kind);
  }
  static MessageId decode(Round round, int buckets, int ranks) {
    const auto b = static_cast<std::uint64_t>(buckets), r = static_cast<std::uint64_t>(ranks);
    return {.kind = static_cast<Kind>(round % 3),
            .bucket = static_cast<int>(round / 3 / r % b),
            .worker = static_cast<int>(round / 3 % r),
            .clock = round / 3 / r / b};
  }
};

/// Ranks as bits, 64 a word.
inline std::vector<std::uint64_t> bits_of(std::span<const int> ranks, int num_ranks) {
  std::vector<std::uint64_t> words((static_cast<std::size_t>(num_ranks) + 63) / 64);
  for (const int rank : ranks) words[static_cast<std::size_t>(rank / 64)] |= std::uint64_t{1} << (rank % 64);
  return words;
}

/// The reverse, ascending. Bits beyond `num_ranks` are left out.
inline std::vector<int> ranks_of(std::span<const std::uint64_t> words, int num_ranks) {
  std::vector<int> ranks;
  for (int rank = 0; rank < num_ranks; ++rank) {
    const auto word = static_cast<std::size_t>(rank / 64);
    if (word < words.size() && (words[word] >> (rank % 64) & 1) != 0) ranks.push_back(rank);
  }
  return ranks;
}

/// One rank's end of a ParameterServer on the thread that steps the engine: sends what the application has pushed, asks
/// for values, and serves its buckets. The application shares with it the atomics of Wish alone, and the memory that
/// they hand over.
class ServerNode final : private CollectiveBase, private ServedBucketHost {
 public:
  ServerNode(Engine& engine, std::vector<BucketSpec> buckets, const ServerOptions& options, ServerUpdate update);
  /// Requires: an Engine::Pause that lives until this is destroyed.
  void withdraw() { engine_.remove(id_); }

  /// The application's wish for one bucket. The application writes the memory, then stores `wanted`.
  struct Wish {
    std::byte* gradient = nullptr;
    bool passed = false;                     // there is no gradient
    std::byte* value = nullptr;              // where the answer goes
    std::atomic<std::uint64_t> wanted{0};    // steps pushed; release, pairs with work()
    std::atomic<std::uint64_t> answered{0};  // values that are there; release, pairs with the application
    std::atomic<std::uint64_t> left{0};      // gradients whose memory is free; likewise
  };
  Wish& wish(int bucket) { return wishes_[static_cast<std::size_t>(bucket)]; }
  /// So many phases have begun here: before the first the values to begin with are in the buckets that are served here.
  void set_begun(std::uint64_t phases) { phases_begun_.store(phases, std::memory_order_release); }
  /// No more pushes in so many phases; the last values go to Wish::value.
  void set_ended(std::uint64_t phases) { phases_ended_.store(phases, std::memory_order_release); }
  /// Phases whose last values are there, and in which no other rank needs this one any more.
  std::uint64_t phases_over() const { return phases_over_.load(std::memory_order_acquire); }

  /// For whom the shards on all ranks wait, as far as they answer within `timeout`. The application's thread.
  std::string who_is_missing(Driver& driver, Duration timeout);

  bool mine(int bucket) const { return server_of(bucket) == engine_.rank(); }  ///< whether it is served here
  std::vector<std::unique_ptr<ServedBucket>>& served() { return served_; }
  Engine& engine() { return engine_; }
  CollectiveFailure& failure() { return failure_; }
  const std::vector<BucketSpec>& buckets() const { return buckets_; }
  const std::string& words() const { return description_; }
  const ServerCounts& counts() const { return counts_; }
  void observe(ServerObserver& observer) { observer_ = &observer; }

 private:
  struct Request {
    enum class Kind { get, push, done, commit } kind = Kind::get;
    int bucket = 0;
    int rank = 0;
    std::uint64_t clock = 0;  // commit: version
    Version version = 0;
    std::byte* gradient = nullptr;
    bool passed = false;  // push: without a gradient
    std::vector<int> ranks;
    bool last = false;
  };
  struct Asking {  // what this rank has sent of a bucket
    std::uint64_t pushed = 0, asked = 0;
    Version base = 0;      // what the next gradient is computed on
    Version incoming = 0;  // of the answer that is coming
    bool done = false;     // with this phase
  };
  struct Pushed {  // a gradient on its server
    Round round = 0;
    std::uint64_t clock = 0;
    Version base = 0;
    bool passed = false;  // there is none
  };
  struct Sending {  // an answer on its way
    int bucket = 0;
    int pin = 0;
  };

  bool admit(Round round, const Envelope& envelope) override;
  bool call(Round round, OpId op, std::uint32_t hook) override;
  void completed(Round round) override;
  void retired(Round round) override;
  bool hear(int peer, const Envelope& envelope, std::span<const std::byte> head) override;
  void lost(int peer, const Error& reason) override;
  bool poll(TimePoint now) override;

  void answer(int bucket, const ShardAction& action, std::span<const std::byte> value, int pin) override;
  void release(int bucket, int rank, std::optional<Version> into) override;
  void commit(const ShardAction& action) override;

  bool work(int bucket);
  void send_push(int bucket);
  bool send_get(int bucket);
  void send_done(int bucket);
  void value_here(int bucket, Version version, bool last);
  bool serve();
  bool is_early(const Request& request) const;
  void end_phase();
  bool between_phases() const { return phases_begun_.load(std::memory_order_acquire) == phase_; }
  void look_who_has_left();
  std::string shards_wait_for() const;

  ServedBucket* served_here(int bucket) const;
  int server_of(int bucket) const { return options_.server_of(bucket, engine_.size()); }
  Round round_of(const MessageId& id) const { return id.encode(num_buckets(), engine_.size()); }
  MessageId id_of(Round round) const { return MessageId::decode(round, num_buckets(), engine_.size()); }
  int num_buckets() const { return static_cast<int>(buckets_.size()); }
  const Schedule& schedule(bool sends, bool push, int peer, int bucket);
  void open(Round round, const Schedule& schedule, std::uint64_t note, std::byte* memory, bool present);

  const std::vector<BucketSpec> buckets_;
  const ServerOptions options_;
  const ServerUpdate update_;
  const std::string description_;
  Inquiry inquiry_;
  ServerObserver* observer_ = nullptr;

  // The driver thread's.
  std::vector<Asking> askings_;                        // by bucket
  std::vector<std::unique_ptr<ServedBucket>> served_;  // in the order of buckets
  std::vector<std::vector<Pushed>> pushed_;            // by bucket (of those served here), by rank
  std::deque<Request> requests_;                       // that have not been looked at
  std::deque<Request> early_;                          // of a phase that has not begun here
  std::unordered_map<Round, Version> coming_;          // bases of gradients that are being received
  std::unordered_map<Round, Sending> sending_;         // answers on their way
  std::unordered_map<std::uint64_t, std::unique_ptr<Schedule>> schedules_;
  std::optional<Error> lost_;  // between two phases
  ServerCounts counts_;
  int open_rounds_ = 0;
  int untaken_ = 0;              // of these, gradients of other ranks that no shard has dealt with
  int finals_ = 0;               // last values of the phase that are there
  std::uint64_t phase_ = 0;      // under way here, from 0; where it has not begun, the next
  std::uint64_t looked_at_ = 0;  // phases that have begun here

  std::vector<Wish> wishes_;                    // by bucket
  std::atomic<std::uint64_t> phases_begun_{0};  // by the application; release, pairs with the driver, as has the next
  std::atomic<std::uint64_t> phases_ended_{0};
  std::atomic<std::uint64_t> phases_over_{0};  // by the driver; release, pairs with the application
};

}  // namespace stretto
