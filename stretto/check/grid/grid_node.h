#pragma once

#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "stretto/check/grid/grid_oracle.h"
#include "stretto/collective/lines/line_agent.h"
#include "stretto/collective/lines/line_round.h"
#include "stretto/collective/lines/line_ways.h"

namespace stretto {

/// A word of a member of a line to another one.
struct LineWord {
  enum class Kind : std::uint8_t {
    contribution,  ///< the receiver's slice of a model, or none
    mean,          ///< the sender's slice of the mean
    start,
    complete,
    entered,  ///< the line, named by its list
  };
  Kind kind;
  int line = 0, dimension = 0;
  int from = 0;  ///< a member
  Round round = 0;
  std::shared_ptr<const SliceMean> slice = {};
};

struct GridEvents {
  std::uint64_t forced = 0, late = 0, late_means = 0, nulls = 0, reduced_without = 0, completed_without = 0,
                previous = 0, dropped = 0, held_back = 0;
};

/// A node of a simulated grid: the real agents and rounds of its lines, and models of residues. It does at once all
/// that is due.
class GridNode {
 public:
  struct Place {
    int line, dimension, own;
    std::vector<int> members;  ///< nodes
  };
  struct Surroundings {
    GridOracle& oracle;
    GridEvents& counts;
    std::function<void(int node, const LineWord& word)> send;
    bool narrow;  // left() says when a message has; else at once
  };

  GridNode(const LineOptions& options, Field alpha, Surroundings around)
      : options_(options), alpha_(alpha), around_(std::move(around)) {}

  /// The node is in these lines from now on: stays where it is already, drops the others, and enters new ones, which
  /// begin when all of their members have, as they do `together` at first.
  void enter(const std::vector<Place>& places, bool together, TimePoint now);
  void receive(const LineWord& word, TimePoint now);
  /// A word to a node has left.
  void left(int to, const LineWord& word, TimePoint now);
  /// Its application is between two steps. `step`: it has made one; with the first it has a model.
  void at_boundary(const FieldVector* step, bool may_apply, TimePoint now);
  void suspect(int node, bool suspected, TimePoint now);
  bool suspects(int node) const { return suspects_.contains(node); }
  /// Does what is due, and returns when something else will be.
  TimePoint look(TimePoint now);

  const FieldVector& model() const { return model_; }
  bool is_line_master(int line) const;
  /// By line, what there is.
  struct Progress {
    int line;
    Round next, applied_before;
  };
  std::vector<Progress> progress() const;

 private:
  struct Held {
    LineRound round;
    Model own;        // null: nothing
    FieldVector sum;  // of what has come of the own slice
    int added = 0;
    std::vector<std::optional<SliceMean>> means;  // by member
  };
  struct Side {
    Place place;
    LineAgent agent;
    RankSet entered;      // members
    int size_before = 0;  // of the line of this dimension that it has left
    std::map<Round, Held> held = {};
    std::vector<FieldVector> previous = {};  // by member: what came last
    LineWays ways;
    std::map<std::pair<Round, int>, std::vector<LineWord>> waiting = {};  // by round and member
  };

  static int size(const Side& side) { return side.agent.members(); }
  Side* side_of(const LineWord& word);
  Side made_anew(const Place& place, const Side* before) const;
  LineOptions options_of(const Side& side) const;
  void add_to(Held& held, const FieldVector& slice);
  FieldVector slice_of(const Side& side, const FieldVector& model, int member) const;
  void tell_others(const Side& side, LineWord word);
  LineWord named(const Side& side, LineWord word) const;
  void send(Side& side, int member, const LineWord& word);
  void do_actions(Side& side, TimePoint now);
  void open(Side& side, const LineAgent::Action& action, TimePoint now);
  void reduce(Side& side, Round round, Held& held, TimePoint now);
  void complete(Side& side, Round round, Held& held, bool forced);
  /// Whether the model moves.
  bool apply(Side& side, Round round, Held& held);
  TimePoint look(Side& side, TimePoint now);

  const LineOptions options_;
  const Field alpha_;
  const Surroundings around_;
  std::vector<Side> sides_;
  std::vector<int> lines_left_;
  std::vector<LineWord> ahead_;  // of lines that it has not entered
  std::set<int> suspects_;       // nodes
  FieldVector model_;
  Model published_;
  std::uint64_t version_ = 0;
};

}  // namespace stretto
