#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "stretto/check/harness/prime_field.h"
#include "stretto/collective/protocol/policy.h"
#include "stretto/dispenser/pool.h"
#include "stretto/membership/views/member_words.h"
#include "stretto/membership/views/pool_change.h"
#include "stretto/membership/views/view.h"

namespace stretto {

struct CarriedOptions {
  std::uint64_t batches = 8;
  std::uint64_t max_lag = 2;                   ///< W
  Policy::Kind policy = Policy::Kind::quorum;  ///< full, solo, majority or quorum
  std::size_t quorum = 0;                      ///< 0: half of the members of a view
  std::uint64_t full_every = 0;                ///< rounds; 0: none is full for another reason than the policy
  std::uint64_t seed = 0;                      ///< of what majority draws
  bool publishes = true;                       ///< now and then what all have leaves the job
  /// Models are averaged, not deposits carried: each round is a full average, after so many steps of each process's
  /// own.
  std::uint64_t average_every = 0;
  /// Then: who leaves is let go with its steps since the last average, which others have by other ways.
  bool leaves_beside = false;
};

/// Rounds whose deposits are carried from world to world, with numbers of batches in the place of gradients: the part
/// of a partial allreduce that members which change concern. Each process computes batches of the pool, hands them over
/// and waits at a round; engines join rounds and tell each other so over links of which each keeps its order. A round
/// is complete for an engine that has heard of all. Or models are averaged in full rounds, by rule 17 of
/// docs/protocol.md: residues modulo a prime, to which each batch adds a number of its own. What membership asks of an
/// application stands here, and nothing of masters: ChangingJob drives both, one step at a time.
///
/// Checked by it: a member goes to later worlds alone (M1), results before a world and in it are the same for all (M2),
/// no batch is in two results, or handed to one member while another one of its world has it (M3), no deposit is taken
/// too late (M4), all that was published is part of every later history (M5), nobody computes a batch twice (M7), and
/// one is dropped exactly when three members were lost for which it was the last that they had drawn.
/// Of averages: a model that is a process's own is the last average that it holds, and its steps since; an average is
/// that of these models alone; and who lacks one lacks one alone, and has made no step since.
class CarriedRounds {
 public:
  explicit CarriedRounds(const CarriedOptions& options) : options_(options), pool_(options.batches) {}

  // A process does these when membership says so.

  void come(MemberNumber number) { processes_[number]; }
  void lose(MemberNumber number) { change(number).is_there = false; }
  /// Its engine stops for good.
  void stop(MemberNumber number) { change(number).is_stopped = true; }
  Holding holding(MemberNumber number) const;
  /// Whether its application waits in a call, where it may go to another world.
  bool is_at_call(MemberNumber number) const;
  void enter(MemberNumber number, const View& view);
  /// Whether it holds what came before its world, in which all have arrived.
  bool may_begin(MemberNumber number) const;
  void begin(MemberNumber number);
  /// The process takes no further batch. It counts as having come to every round, and has drained when the pool is
  /// empty: a last round that took its word for that would end a job with batches left.
  void leave(MemberNumber number) { change(number).leaves = true; }
  /// Whether it is in the world of `view`, which has not begun for it, and lacks rounds.
  bool lacks_rounds(MemberNumber number, const View& view) const {
    const Process& process = this->process(number);
    return process.epoch == view.epoch && !process.has_begun && process.has_model && process.complete() < view.complete;
  }
  /// The batch that it computes.
  std::optional<std::uint64_t> computing(MemberNumber number) const { return process(number).hand; }
  /// Whether it leaves and nothing of it is pending.
  bool may_go(MemberNumber number) const;
  /// Whether it has taken the last round of all.
  bool has_finished(MemberNumber number) const { return process(number).at == At::finished; }

  const Pool& pool() const { return pool_; }
  std::uint64_t num_dropped() const { return dropped_.size(); }
  /// `view` is decided, of which this comes.
  void decided(const View& view, PoolChange change);

  // Steps of its own.

  struct Step {
    enum class Kind : std::uint8_t {
      compute,
      hand_over,
      drain,
      start,
      join,
      hear,
      complete,
      take,
      fetch,
      meet,
      publish
    };
    Kind kind = Kind::compute;
    MemberNumber number = 0;
    std::size_t from = 0;  ///< the place from which it hears or fetches
  };
  void add_steps(std::vector<Step>& steps) const;
  void take(const Step& step);

  /// The first that was violated, in words.
  const std::string& wrong() const { return wrong_; }
  /// Where the job has ended in `epoch`: checks that each batch is in one result.
  void check_end(std::uint64_t epoch);

  std::uint64_t rounds() const { return rounds_; }      ///< complete for one member
  std::uint64_t messages() const { return messages_; }  ///< of engines
  /// Worlds to which a member came that was behind, by two rounds or more, or brought deposits of rounds from R on.
  struct Counts {
    std::uint64_t behind = 0, far_behind = 0, carried = 0;
    std::uint64_t learned = 0, taken_over = 0, own_steps = 0;  ///< of averages: models; averages after several steps
    std::uint64_t left_beside = 0;                             ///< batches that leavers took along
  };
  const Counts& counts() const { return counts_; }
  void describe(std::vector<std::int64_t>& words) const;

 private:
  struct Deposit {
    std::uint64_t batch = 0;
    MemberNumber by = 0;
    std::uint64_t base = 0;
    friend bool operator==(const Deposit&, const Deposit&) = default;
  };
  using Deposits = std::vector<Deposit>;
  struct Outcome {
    Deposits deposits;
    bool all_drained = false;
    Field model = {};  // the average
    friend bool operator==(const Outcome&, const Outcome&) = default;
  };
  struct Joined {
    std::uint64_t round = 0;
    Deposits deposits;
    bool drained = false;
    Field model = {};
    bool weighs = false;  // as its process says
    bool is_own = false;
  };
  enum class At : std::uint8_t { idle, computing, waiting, draining, finished };
  /// t, h, s and act as in docs/protocol.md; c is the number of results.
  struct Process {
    bool is_there = true, is_stopped = false, has_begun = false, has_model = false, leaves = false, drained = false;
    At at = At::idle;
    std::uint64_t epoch = 0, ticket = 0, handed = 0, joins = 0, active = 0, arrived = 0, base = 0;
    std::size_t place = 0;
    std::optional<std::uint64_t> hand, last_drawn;
    std::vector<Outcome> results;
    Deposits pending;
    std::map<std::uint64_t, Deposits> joined;                      // own, by round, from c on
    std::map<std::uint64_t, std::map<std::size_t, Joined>> heard;  // by round and place, from c on
    std::set<std::uint64_t> computed;
    Deposits handed_over;  // all of them, of averages
    // Of averages: its own steps since the last, and whether the model is its own, and not one that it has taken over.
    Field model;
    std::uint64_t steps = 0;
    bool weighs = false, is_own = false;
    bool meets = false;  // it has come to the average with which its world begins

    std::uint64_t complete() const { return results.size(); }
  };
  struct Mesh {
    View view;
    std::set<std::size_t> entered;
    std::map<std::pair<std::size_t, std::size_t>, std::deque<Joined>> links;
    std::optional<std::vector<Outcome>> history;  // of the first that has begun, and all that is complete since
    std::set<std::uint64_t> batches;              // in it
    bool behind = false, far_behind = false, carried = false;  // a member of it
  };

  const Process& process(MemberNumber number) const { return processes_.at(number); }
  Process& change(MemberNumber number) { return processes_.at(number); }
  const Mesh& mesh(const Process& process) const { return meshes_.at(process.epoch); }
  bool averages() const { return options_.average_every > 0; }
  Field step_of(std::uint64_t batch) const;
  Field average(const Process& process);
  void check_model(MemberNumber number, const Process& process);
  void take_model(MemberNumber number, Process& process, const Process& holder);
  void go_on(MemberNumber number, Process& process);
  Deposits left_beside(const Process& process, const Deposits& deposits) const;
  void take_average(MemberNumber number, Process& process);
  Mesh& with_links(const Process& process);
  bool is_full(std::uint64_t round) const;
  bool has_come(const Process& process, std::uint64_t round) const;
  bool wants(const Process& process, std::uint64_t round) const;
  bool may_start(const Process& process) const;
  bool may_join(const Process& process) const;
  bool is_complete(const Process& process) const;
  bool can_give(const Process& process, const Process& other) const;
  std::uint64_t shown_to_all(const Process& process) const;
  void add_engine_steps(MemberNumber number, std::vector<Step>& steps) const;
  void draw_batch(MemberNumber number, Process& process);
  void hand_over(MemberNumber number, Process& process);
  void exchange(Process& process);
  void return_from_call(Process& process);
  void join(Process& process);
  void complete(MemberNumber number, Process& process);
  void add_to_history(Mesh& mesh, const Outcome& outcome);
  void settle(const Process& process);
  void publish(const Process& process);
  std::uint64_t lost_at(std::uint64_t batch) const;
  void violated(const std::string& what) {
    if (wrong_.empty()) wrong_ = what;
  }

  CarriedOptions options_;
  Pool pool_;
  std::map<MemberNumber, Process> processes_;
  std::map<std::uint64_t, Mesh> meshes_;  // by epoch
  std::vector<Outcome> published_;
  std::uint64_t published_in_ = 0;  // epoch
  View newest_;                     // decided
  std::set<std::uint64_t> dropped_;
  std::string wrong_;
  std::uint64_t rounds_ = 0, messages_ = 0;
  Counts counts_;
};

}  // namespace stretto
