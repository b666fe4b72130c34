#pragma once

#include <array>
#include <cstddef>

namespace stretto {

/// The five ways to agree on one order of tensors that docs/lab/ordering_costs.md describes, as far as what they cost
/// differs.
enum class OrderingScheme {
  coordinator,  ///< a blocking allreduce of all ranks in each cycle
  gs,           ///< the same, and all ranks sleep equally long
  nbcs,         ///< the allreduce is begun in one cycle and looked after in later ones
  scp,          ///< as coordinator, with a core of its own for the background thread
  topo,         ///< planned once; no messages
};

inline constexpr std::array kOrderingSchemes = {OrderingScheme::coordinator, OrderingScheme::gs, OrderingScheme::nbcs,
                                                OrderingScheme::scp, OrderingScheme::topo};

/// "coordinator", "gs", "nbcs", "scp", "topo".
constexpr const char* name_of(OrderingScheme scheme) {
  constexpr std::array kNames = {"coordinator", "gs", "nbcs", "scp", "topo"};
  return kNames[static_cast<std::size_t>(scheme)];
}

}  // namespace stretto
