#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "stretto/check/carried/carried_oracle.h"
#include "stretto/check/harness/simulated_application.h"
#include "stretto/collective/probes.h"

namespace stretto {

/// A member's place in one world: its engine, its collective, and the thread of its application.
struct CarriedPlace {
  CarriedPlace(SearchedJob& in, int seat, const std::vector<BucketSpec>& buckets, const PartialOptions& options,
               SimulatedApplication::Hooks hooks)
      : job(in),
        application(in, seat, std::move(hooks)),
        partial(application.engine(), buckets, options),
        probe(partial),
        before(options.rounds_before) {}

  SearchedJob& job;
  SimulatedApplication application;
  PartialAllreduce partial;
  PartialProbe probe;
  const Round before;  // rounds complete before this world
  bool begun = false;  // the member has all results before it
};

/// One member of a job whose members change: the real PartialAllreduce of each of its worlds, one after the other, and
/// an application that trains integers in all of them. What a Session will do between two worlds it does here.
class CarriedMember {
 public:
  enum class State { computing, depositing, exchanging, finishing, done, between, gone };

  /// Has `steps` batches of its own. `joins`: it is none of the first, and takes over the model of another one.
  CarriedMember(CarriedOracle& oracle, int id, std::uint64_t steps, bool joins)
      : id(id), oracle_(oracle), steps_(steps), has_model_(!joins) {}

  /// A result that is kept for members that are behind.
  struct Kept {
    Policy policy;
    RoundHeader header;
    std::vector<std::vector<std::byte>> buckets;
  };

  // ---- of a world ----
  /// Makes its collective there and puts in what it carries from the world before, of whose rounds `before` count.
  void enter(SearchedJob& job, int seat, const std::vector<BucketSpec>& buckets, const PartialOptions& options);
  /// Goes on in the world it has entered: `holders` have what it lacks. Returns false where none of them does.
  bool begin(const std::vector<CarriedMember*>& holders);
  /// All have begun in the world of `job`: nothing of earlier ones is needed any more.
  void all_begun(const SearchedJob& job);
  /// Its engine stops for good, as by a thread beside its application's.
  void freeze();
  /// Dies.
  void crash();
  /// Is taken for lost, and lives on.
  void exclude() { excluded_ = true; }
  /// Once it is decided without it: what it does is void.
  void ignore() { ignored_ = true; }

  /// Rounds that it holds: the answer to who has frozen it.
  Round held() { return begun() ? place_->partial.complete() : oracle_.handed(id); }
  bool frozen() const { return frozen_; }
  bool begun() const { return place_ != nullptr && place_->begun; }
  bool has_model() const { return has_model_; }
  bool lost() const { return state_ == State::gone || excluded_; }
  bool waits_between() const { return state_ == State::between; }
  bool done() const { return state_ == State::done; }
  std::uint64_t carried() const { return carried_; }  ///< batches put into the present world
  std::string to_string();

  const int id;

 private:
  /// Its deposits that no round of the job before `round` has taken. Changes nothing.
  Carried take_out(Round round);
  std::optional<Kept> result_of(Round round);
  /// Takes over the model of a holder. Returns false where there is none.
  bool learn(const std::vector<CarriedMember*>& holders);
  void hand_over(const RoundResult& result);
  void next_batch();
  void compute_done();
  void deposit_step();
  void begin_exchange();
  void look_at_rounds();
  void leave_world();
  bool waits() const { return state_ == State::exchanging || state_ == State::finishing; }

  CarriedOracle& oracle_;
  const std::uint64_t steps_;
  bool has_model_;

  std::unique_ptr<CarriedPlace> place_;                 // in the world entered last; null: in none yet
  std::vector<std::unique_ptr<CarriedPlace>> earlier_;  // places of earlier worlds, until all have begun
  std::map<Round, Kept> fetched_;                       // from others, until all have begun

  State state_ = State::between;
  bool waits_anew_ = false;  // it was in exchange() when the world ended
  bool frozen_ = false, excluded_ = false, ignored_ = false;
  Round counted_ = 0;    // frozen: held() then
  Round forgotten_ = 0;  // planted: deposits of rounds before are gone
  std::uint64_t step_ = 0, deposits_ = 0, carried_ = 0;
  std::optional<DepositSteps> deposit_;
  Contribution* contribution_ = nullptr;
  IntegerModel model_;
};

}  // namespace stretto
