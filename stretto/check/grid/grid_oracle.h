#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "stretto/base/rank_set.h"
#include "stretto/check/harness/prime_field.h"
#include "stretto/collective/lines/line_options.h"
#include "stretto/transport/transport.h"

namespace stretto {

using Model = std::shared_ptr<const FieldVector>;

/// The mean of a slice in a round.
struct SliceMean {
  FieldVector values;    ///< empty: nobody has brought anything
  RankSet contributors;  ///< members of the line
};

/// The promises of a grid, L2 to L6 and L9 (docs/protocol.md, Lines of a grid), held against what its nodes say. A
/// *side* is a member of a line.
class GridOracle {
 public:
  explicit GridOracle(LineOptions options) : options_(options) {}

  /// A line of these nodes, in their order: the next number.
  void add_line(std::vector<int> members);
  void opened(int line, int member, Round round, std::uint64_t version, Model model);
  /// `come`: members that have said in time what they bring; `previous`: by member, a slice that stands in for its own.
  void reduced(int line, int member, Round round, const SliceMean& mean, const RankSet& come,
               const std::map<int, FieldVector>& previous);
  void completed(int line, int member, Round round, const RankSet& means, bool forced);
  void took(int line, int member, Round round);
  void dropped(int line, int member, Round round) { side(line, member).open.erase(round); }
  /// The model of the side's node moves by α(`mean` − `from`) on a slice.
  void moved(int line, int member, Round round, int slice, const SliceMean& mean, const FieldVector& from,
             const FieldVector& by);
  void started(int line, int member, Round round);
  void violated(std::string what) {
    if (wrong_.empty()) wrong_ = std::move(what);
  }

  const std::string& wrong() const { return wrong_; }
  /// Rounds that have been opened, of all lines.
  std::uint64_t rounds() const { return facts_.size(); }
  /// The sum of all slices' movements in rounds that some contributor has not applied.
  Field unsettled() const;

 private:
  struct Slice {
    SliceMean mean;
    bool known = false;
    RankSet moved;
    FieldVector by;
  };
  struct Facts {
    std::vector<Model> models;  // by member; null: nothing
    std::vector<Slice> slices;
  };
  struct Side {
    Round next = 0;
    std::set<Round> open, in_flight;  // not taken; not complete
    Round taken = 0;                  // the next one at least
    std::set<std::uint64_t> versions;
  };

  Facts& facts(int line, Round round) { return facts_[{line, round}]; }
  Side& side(int line, int member) { return sides_[static_cast<std::size_t>(line)][static_cast<std::size_t>(member)]; }
  int size(int line) const { return static_cast<int>(sides_[static_cast<std::size_t>(line)].size()); }
  std::string name(int line, int member, Round round) const;
  void expect(bool holds, int line, int member, Round round, const char* what);

  bool was_brought(int line, int member, int slice, const FieldVector& values) const;

  std::vector<std::vector<int>> members_;
  const LineOptions options_;
  std::vector<std::vector<Side>> sides_;  // by line and member
  std::map<std::pair<int, Round>, Facts> facts_;
  std::string wrong_;
};

}  // namespace stretto
