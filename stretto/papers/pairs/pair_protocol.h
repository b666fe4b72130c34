#pragma once

#include <cstdint>
#include <vector>

namespace stretto {

/// Which ranks exchange models with which.
enum class Pairing {
  /// AD-PSGD (Lian et al., ICML 2018, section 3): even ranks ask, odd ranks answer. An edge joins an even and an odd
  /// rank, so no two ranks wait for one another.
  bipartite,
  /// Asynchronous elastic averaging (Zhang, Choromanska, LeCun, NeurIPS 2015, section 3): all ranks ask rank 0, which
  /// answers with a model of its own that nobody trains, the *center*.
  center,
};

/// When a rank may ask, answer and go on to a round of all ranks, in exchanges of models between two ranks. A state
/// machine without thread, transport or buffer, owned by the thread that drives the rank's engine.
///
/// An asking rank has one exchange in flight. An answering rank answers at once, whatever its application does: it
/// waits for no rank, so no circle of ranks waits. Exchanges belong to a *phase*, numbered from 1. Every application
/// begins and ends each phase. An asking rank that has ended a phase and has been answered says so to the ranks that
/// answer it; a rank has *settled* when no exchange of the phase can reach it any more. After that all ranks may meet.
class PairProtocol {
 public:
  /// `seed`: of the draws of partners, the same on every rank.
  PairProtocol(int rank, int ranks, Pairing pairing, std::uint64_t seed);

  bool asks() const { return asks_; }                                                     ///< fixed
  bool answers() const { return answers_; }                                               ///< fixed
  bool is_asked_by(int peer) const { return asked_by_[static_cast<std::size_t>(peer)]; }  ///< fixed
  /// The rank that this rank asks in its `exchange`-th exchange, from 0: itself, where it owns the center. Requires:
  /// asks().
  int partner(std::uint64_t exchange) const;

  /// The phase that the application has begun last; 0: none.
  std::uint64_t phase() const { return phase_; }
  bool in_flight() const { return in_flight_; }  ///< an exchange that this rank has asked for

  // ---- events ----

  /// The application begins the next phase. Requires: the last one has settled.
  void begin_phase();
  /// The application asks for no further exchange of this phase.
  void end_phase() { ended_ = true; }
  /// An exchange of this rank's has begun; it has been answered. Requires: one at a time.
  void asked();
  void answered();
  /// `peer` has no exchange of `phase` in flight, nor will have one.
  void heard_done(int peer, std::uint64_t phase);

  // ---- decisions ----

  /// Whether an exchange of `phase` may be answered now. Not before the own application has begun the phase: until then
  /// the model is not the one that the phase begins with.
  bool may_answer(std::uint64_t phase) const;
  /// Whether the ranks that answer this one must be told now that it is done. Once a phase.
  bool must_tell_done() const { return phase_ > 0 && ended_ && asks_ && !in_flight_ && told_ < phase_; }
  void told_done() { told_ = phase_; }
  /// Whether no exchange of the phase will change the model any more.
  bool settled() const;
  /// Whether a rank must still say that it is done with this phase.
  bool is_missing(int peer) const;

 private:
  const int rank_;
  const int ranks_;
  const Pairing pairing_;
  const std::uint64_t seed_;
  bool asks_ = false;
  bool answers_ = false;
  std::vector<bool> asked_by_;  // without this rank

  std::uint64_t phase_ = 0;
  std::uint64_t told_ = 0;
  bool ended_ = true;
  bool in_flight_ = false;
  std::vector<std::uint64_t> done_;  // by rank: its last phase that is done
};

}  // namespace stretto
