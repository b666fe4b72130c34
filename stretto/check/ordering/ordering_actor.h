#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "stretto/base/random.h"
#include "stretto/check/ordering/ordering_job.h"
#include "stretto/check/ordering/ordering_network.h"
#include "stretto/ordering/negotiation/coordinator.h"
#include "stretto/ordering/orderer/orderer.h"
#include "stretto/ordering/topo/topo.h"
#include "stretto/ordering/waiting/rank_patience.h"

namespace stretto {

/// One rank of an OrderingJob: an application that submits, waits and ends steps; an ordering thread that looks at what
/// the application has done and asks the orderers of the rank's process sets; and the ends of their collectives. Each
/// call is one transition, so that a caller interleaves them as it likes. What is handed over is checked
/// (docs/lab/ordering.md, O2).
class OrderingActor {
 public:
  /// The collectives of each process set, by its number.
  using Networks = std::vector<std::unique_ptr<OrderingNetwork>>;

  OrderingActor(const OrderingJob& job, int rank, Networks& networks, std::uint64_t seed);

  // Each returns whether something was to be done.
  bool apply_one();  ///< the application does the next thing
  bool look();       ///< the ordering thread reads what the application has told; it takes two calls for all of it
  bool ask();        ///< the ordering thread asks an orderer
  bool complete_control();        ///< a control collective of some set completes here, or a member is told something
  bool complete_buffer();         ///< a buffer of some set completes here
  void pass_time(Duration time);  ///< the time of this rank passes, long enough for all that waits for a time

  bool over() const;           ///< every orderer has ended
  bool failed(int set) const;  ///< the orderer of the set has failed; false where this rank is no member
  /// The first error of an orderer.
  const std::optional<Error>& failure() const { return failure_; }
  /// Whether the application submits nothing to the set before something of it is reduced, and all that it has
  /// submitted has been told.
  bool stuck_in(int set) const;
  std::uint64_t progress() const { return progress_; }  ///< grows whenever something of the job is done
  /// The violation that the actor has found, if any.
  const std::optional<std::string>& violation() const { return violation_; }
  std::string state() const;  ///< what the rank does, for the text of a violation
  // How often it was so on this rank.
  std::uint64_t nulls() const { return nulls_; }                  ///< the rank did not bring a tensor to its buffer
  std::uint64_t void_buffers() const { return void_buffers_; }    ///< a buffer was thrown away
  std::uint64_t lines() const { return lines_; }                  ///< an orderer had a line for a person
  std::uint64_t planned_steps() const { return planned_steps_; }  ///< a process set closed a step by a plan
  std::uint64_t gathered_plans() const;                           ///< a plan was made of the graphs of all members
  std::uint64_t questions() const;                                ///< the rank answered one that waited for long

 private:
  struct Seat {  // the rank's place in a process set
    int set = 0;
    int member = 0;
    std::unique_ptr<Orderer> orderer;
    const Coordinator* coordinator = nullptr;  // the orderer, or the one inside it; shows what is cached
    const Topo* topo = nullptr;                // the orderer; null where it is of another kind
    enum class State { ready, sleeping, waiting, over, failed } state = State::ready;
    TimePoint until;
    std::deque<OrderingNetwork::Complete> complete;  // buffers whose outcome is not known yet
    bool told_blocked = false;
    // Under topo, of the open step: what the plan lets the rank issue.
    std::vector<std::vector<TensorId>> plan;  // the last one; empty: there is none
    StepNumber step = 0;                      // the open one
    std::set<TensorId> submitted;             // told to the orderer
    bool ended = false;                       // likewise
    std::size_t issued = 0, completed = 0;    // buffers
  };
  struct Told {               // what the application tells beside tensors
    std::uint64_t ended = 0;  // steps that it has ended
    bool drained = false;
    int waits_for = -1;  // the tensor; −1: none
    friend bool operator==(const Told&, const Told&) = default;
  };
  enum class Node { idle, submitted, reduced };

  OrderingNetwork& network(const Seat& seat) { return *networks_[static_cast<std::size_t>(seat.set)]; }
  Seat* seat_of(int set);
  bool ask(Seat& seat);
  bool askable(const Seat& seat) const;
  void tell_all();
  void ready_again();
  void take_outcomes(Seat& seat);
  /// Begins the account of another step where the last one is closed.
  void look_at_step(Seat& seat);
  /// O6 under topo: once all of a buffer is submitted and those before it are issued, it is, too.
  void check_promptness(Seat& seat);
  void take_result(const OrderingNetwork::Complete& buffer);
  bool in_step() const { return step_ < job_.steps_of[static_cast<std::size_t>(rank_)]; }
  void violated(const std::string& what);

  const OrderingJob& job_;
  const int rank_;
  Networks& networks_;
  Random random_;
  TimePoint now_;
  RankPatience patience_;
  std::vector<Seat> seats_;
  std::size_t cursor_ = 0;  // the seat at which the one thread is that serves all sets
  bool blocking_ = false;   // that thread waits inside seats_[cursor_]

  // The application.
  std::uint64_t step_ = 0;
  std::vector<Node> nodes_;  // how far each tensor of this step is
  bool ending_ = false;
  Told does_;
  std::vector<int> queue_;  // tensors that are submitted, and of which no orderer has been told

  // The ordering thread.
  bool looking_ = false;  // the thread is between its two readings
  Told seen_, told_;
  std::vector<int> seen_queue_;

  std::vector<std::uint64_t> last_valid_;  // by tensor: one more than the step of its last valid buffer
  std::optional<Error> failure_;
  std::optional<std::string> violation_;
  std::uint64_t progress_ = 0, nulls_ = 0, void_buffers_ = 0, lines_ = 0, planned_steps_ = 0;
};

}  // namespace stretto
