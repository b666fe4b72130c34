#include "stretto/ordering/runtime/make_orderer.h"

#include "stretto/ordering/coordinator.h"
#include "stretto/ordering/cycle_fix.h"
#include "stretto/ordering/topo.h"

namespace stretto {

std::unique_ptr<Orderer> make_orderer(const OrderingOptions& options, const ProcessSet& set, RankPatience& patience) {
  const CoordinatorOptions coordinator{.set = set.number(),
                                       .ranks = set.members(),
                                       .member = set.me(),
                                       .cycle_time = options.cycle_time,
                                       .fusion_bytes = options.fusion_bytes,
                                       .cache_capacity = static_cast<std::size_t>(options.cache_capacity),
                                       .stall_warning = options.stall_warning,
                                       .stall_abort = options.stall_abort};
  if (options.fix != nullptr) return options.fix->make(coordinator, options.gs_every);
  if (options.kind == OrderingOptions::Kind::coordinator) return std::make_unique<Coordinator>(coordinator);
  using OnChange = TopoOptions::OnChange;
  const TopoOptions topo{
      .coordinator = coordinator,
      .in_flight = options.in_flight,
      .several_sets = !options.sets.empty(),
      .plan_patience = options.plan_patience,
      .on_change = options.on_change == OrderingOptions::OnChange::fail ? OnChange::fail : OnChange::coordinator};
  return std::make_unique<Topo>(topo, patience);
}

}  // namespace stretto
