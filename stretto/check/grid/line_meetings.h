#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "stretto/membership/views/companions.h"

namespace stretto {

/// The nodes of a grid on the way from line to line, each of which is a world of its own: Companions as built, over
/// meetings that take their time. Who leaves a world is noticed there later.
///
/// Checked: that no node leaves a line which its newest view has, and which has lost nobody; that no node comes to a
/// line which its newest view does not have; and by who_lacks(), that in the end all are where the last view has them.
class LineMeetings {
 public:
  using Nodes = std::vector<MemberNumber>;
  struct Surroundings {
    std::function<void(int node, std::function<void()> run)> later;  ///< unless the node is gone by then
    std::function<void(std::string what)> violated;
  };
  struct Counts {
    std::uint64_t met = 0, stayed = 0, broken = 0;
  };

  explicit LineMeetings(Surroundings around) : around_(std::move(around)) {}

  /// The newest view of which the node has heard has these in its line of a dimension; empty: it is in none.
  void hear(int node, int dimension, Nodes line);
  /// The node is there no more. The others hear so by their view alone.
  void gone(int node);
  /// Nodes that are not together with all of the line that they have heard of; empty: none.
  std::string who_lacks() const;
  const Counts& counts() const { return counts_; }

 private:
  using Name = std::pair<int, Nodes>;  // of a world: dimension and nodes
  struct Company {
    std::set<int> there;
  };
  struct Side {
    Nodes heard;
    Companions companions;
    std::shared_ptr<Company> company;  // of the world where it is
    bool broken = false;               // that
  };

  Side& side(int node, int dimension) { return sides_[{node, dimension}]; }
  void look(int node, int dimension);
  void leave(int node, int dimension);
  void await_no_more(const Name& name, int node);
  void meet(const Name& name);

  const Surroundings around_;
  std::map<std::pair<int, int>, Side> sides_;  // by node and dimension
  std::map<Name, std::set<int>> awaiting_;
  Counts counts_;
};

}  // namespace stretto
