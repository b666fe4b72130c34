#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "stretto/base/function_ref.h"
#include "stretto/collective/base/collective.h"
#include "stretto/collective/base/collective_base.h"
#include "stretto/engine/driver.h"
#include "stretto/engine/engine.h"
#include "stretto/papers/pairs/pair_protocol.h"
#include "stretto/papers/pairs/shared_model.h"

namespace stretto {

/// The same on every rank.
struct PairOptions {
  Pairing pairing = Pairing::bipartite;  ///< which ranks exchange models with which
  /// By which share of their distance the model that is asked for moves towards the asking rank's; 0.5: both meet in
  /// the middle.
  double weight = 0.5;
  double back = 0.5;       ///< by which share the asking rank's model moves towards the one it asked for
  std::uint64_t seed = 0;  ///< of the draws of partners
};

/// Exchanges of whole models between two ranks at a time, without waiting for any application: asynchronous
/// decentralized SGD (AD-PSGD; Lian, Zhang, Zhang, Liu: Asynchronous Decentralized Parallel Stochastic Gradient
/// Descent, ICML 2018) and asynchronous elastic averaging (EASGD; Zhang, Choromanska, LeCun: Deep Learning with Elastic
/// Averaging SGD, NeurIPS 2015, section 3). PairProtocol has the rules; docs/pairs.md says what breaks without them.
///
/// An asking rank sends a copy of its model. The engine of the rank that answers moves its model by weight × the
/// difference, in one access, and answers with back × the difference, which the asking rank's engine subtracts from
/// what its model is by then. With weight = back the sum of the two models stays the same. Two messages a bucket and
/// exchange, one each way, of the bucket's size.
///
/// An application step is add_step() for each bucket, then, if it is to exchange, exchange(). A phase begins with
/// begin() on all ranks and ends with settle() on all ranks; then nothing is in flight, and the ranks may meet in a
/// round of all.
///
/// Made in the same order on every rank. One application thread, but where it says otherwise. Any failure is final and
/// comes to every rank.
class PairExchange final : public Collective, private CollectiveBase {
 public:
  /// Holds its model, a copy of it, and, where this rank asks, a third; the owner of a center two more. Throws
  /// UsageError without buckets, for int32 elements (kernel/mix.h), and for weights outside [0, 1].
  PairExchange(Engine& engine, std::vector<BucketSpec> buckets, const PairOptions& options = {});
  /// After settle(), or after a failure.
  ~PairExchange() override;
  PairExchange(const PairExchange&) = delete;
  PairExchange& operator=(const PairExchange&) = delete;

  /// Begins a phase with `model`, one span a bucket, the same on every rank; the first phase, or one after settle().
  /// The center, if there is one, is `model`, too.
  void begin(std::span<const std::span<const std::byte>> model);
  /// A step of the application, one bucket of it: see SharedModel::add_own(). `moved` is what the step has made of
  /// what the last call for this bucket, or begin(), has left; it becomes the model. Waits for nothing. Returns how
  /// many exchanges have changed the bucket in between: the staleness of the step.
  std::uint64_t add_step(int bucket, std::span<std::byte> moved);
  /// Begins this rank's next exchange with a copy of the model, once the last one has been answered. A rank that only
  /// answers does nothing. Errc::timeout: call again. Errc::members_changed: the engine is frozen (Engine::freeze()).
  Result<void> exchange(Driver& driver, TimePoint deadline);
  /// Ends the phase: returns when no exchange can change the model on this rank any more. Errors as exchange().
  Result<void> settle(Driver& driver, TimePoint deadline);
  /// The same two without waiting. Return whether they are done; if not, to be called again.
  Result<bool> try_exchange();
  Result<bool> try_settle();

  /// Copies a bucket of this rank's model.
  void read(int bucket, std::span<std::byte> to) { model_.read(bucket, to); }
  /// Copies a bucket of the center. Requires: owns_center().
  void read_center(int bucket, std::span<std::byte> to);
  bool owns_center() const { return center_ != nullptr; }  ///< fixed

  void abort(Driver& driver, const Error& why) override { failure_.abort(driver, why); }
  std::optional<Error> failure() const override { return failure_.error(); }
  std::string who_is_missing(Driver& driver, Duration timeout) override;

  int num_buckets() const { return static_cast<int>(buckets_.size()); }
  /// Exchanges that this rank has begun.
  std::uint64_t exchanges() const { return wanted_.load(std::memory_order_relaxed) + own_; }
  bool asks() const { return protocol_.asks(); }  ///< fixed: whether exchange() does anything
  std::uint64_t memory_bytes() const;

 private:
  struct Answering {
    Round round;
    std::uint64_t phase;
  };
  struct Held {
    Round round;
    OpId op;
    int bucket;
  };

  bool admit(Round round, const Envelope& envelope) override;
  bool call(Round round, OpId op, std::uint32_t hook) override;
  void retired(Round round) override;
  bool hear(int peer, const Envelope& envelope, std::span<const std::byte> head) override;
  bool poll(TimePoint now) override;

  Result<void> wait_for(Driver& driver, TimePoint deadline, FunctionRef<Result<bool>()> call);
  int asker_of(Round round) const { return static_cast<int>(round % static_cast<Round>(engine_.size())); }
  std::span<std::byte> scratch(Round round, int bucket) const;
  const Schedule& asking(int partner);
  const Schedule& answering(int peer);
  void ask_locally();
  void open_ask();
  bool answer(Round round, OpId op, int bucket);
  void answer_held();
  void apply_answer(Round round, int bucket);
  void look_who_has_left();
  bool finish_late_averages();
  void overwrite(int bucket, std::span<const std::byte> value);
  std::string missing() const;

  // Fixed after construction.
  const std::vector<BucketSpec> buckets_;
  const PairOptions options_;
  std::string description_;

  SharedModel model_;
  std::unique_ptr<SharedModel> center_;
  /// The model that an asking rank sends: the application's until it says so by wanted_, then the engine's until
  /// answered_.
  std::optional<Contribution> sent_;

  // The application's thread.
  std::uint64_t begun_ = 0;  // phases
  std::uint64_t own_ = 0;    // exchanges with the center of this rank's own

  // The driving thread's.
  PairProtocol protocol_;
  std::map<int, Schedule> asking_, answering_;  // by peer
  Round opened_ = 0;                            // exchanges of this rank's own
  std::vector<Answering> open_;
  std::vector<Held> held_;
  struct LateAverage {
    Held at;
    std::vector<std::byte> value;
  };
  std::vector<LateAverage> late_;  // of Defect::averaging_not_atomic

  // Between the two: written by the one named first, with release; read by the other with acquire.
  std::atomic<std::uint64_t> wanted_{0};    // application: exchanges it has asked for
  std::atomic<std::uint64_t> answered_{0};  // driver: exchanges answered, whose memory is the application's again
  std::atomic<std::uint64_t> phases_begun_{0}, phases_ended_{0};  // application
  std::atomic<std::uint64_t> phases_settled_{0};                  // driver
};

}  // namespace stretto
