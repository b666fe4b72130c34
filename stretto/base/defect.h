#pragma once

#include <span>
#include <string_view>

namespace stretto {

/// Bugs planted on purpose: each breaks one rule of docs/protocol.md, which names it there. Compiled in with
/// STRETTO_DEFECTS only, and switched on one at a time by `stretto check --defect NAME`: the search must find each.
enum class Defect {
  none,
  stop_without_drain,          ///< a rank without further batches just stops
  full_beside_the_rounds,      ///< a synchronization is a collective of its own beside the rounds
  join_before_taking_results,  ///< a late rank arrives at a full round before it has taken its results
  no_cap,                      ///< a late rank's debt of rounds has no bound
  lag_off_by_one,              ///< joins while s − h ≤ W
  take_back_deposit,           ///< takes the pending deposit back to add to it
  add_in_place,                ///< adds to the pending deposit where it lies
  round_modulo_4,              ///< matches messages by the round modulo 4
  arrivals_without_round,      ///< the counter counts arrivals whatever their round
  apply_empty_round,           ///< moves the weights in a round to which no rank contributed
  rate_by_own_step,            ///< the learning rate follows the rank's own steps
  skip_folded_rank,            ///< forgets one rank where their number is no power of two
  arrive_activates,            ///< an ARRIVE raises the rounds known to be activated
  no_last_round,               ///< no rank starts the round that takes the deposits pending at the end
  last_round_twice,            ///< starts another last round although the header shows everyone drained
  never_look_again,            ///< does not look again when results are handed over
  full_asks_in,                ///< a message of a full round makes ranks join it that have not come
  overwrite_full,              ///< a later result takes the place of a full one that is not taken (delivery latest)
  forget_replaced,             ///< a standing deposit does not count the batches of the one it replaces
  reuse_before_retired,        ///< gives contributions back when the round completes, not when its sends have left
  retire_in_mid_body,          ///< ends a round while a message it did not need is being received into its memory
  seal_skips_empty,            ///< board: reads seats that have brought nothing instead of sealing them
  held_without_second_look,    ///< board: says that a round is held, or that it sleeps, and does not look once more
  sum_unpublished,             ///< board: sums a set ahead that has not been deposited
  reuse_before_complete,       ///< board: fills a set again while the round that takes it is being summed
  publish_before_boards,       ///< boards: a round is complete when this one has summed its own
  one_sum_for_all_rounds,      ///< boards: sums a round where the sum of the one before is still leaving
  leader_speaks_for_itself,    ///< boards: tells the counter of the leader's arrivals alone
  sum_without_ring,            ///< boards: does not ring the leader when the last piece is summed
  hand_over_without_ring,      ///< board: wakes no rank when the results are handed over that a round was held for
  anybody_starts_majority,     ///< board: the first rank that comes starts a majority round, not the drawn one
  drained_starts_solo,         ///< board: a drained rank starts solo rounds that no rank has arrived at
  tree_of_contributors,        ///< board: the fixed tree is that of the ranks that have brought something
};

struct PlantedDefect {
  Defect which;
  std::string_view name;                    ///< as `stretto check --defect` takes it
  std::string_view collective = "partial";  ///< the search that must find it: `stretto check --collective`
};
std::span<const PlantedDefect> planted_defects();

#ifdef STRETTO_DEFECTS
/// Whether `which` is switched on. One for the process.
bool defect(Defect which);
void switch_on(Defect which);
#else
constexpr bool defect(Defect) {
  return false;
}
#endif

}  // namespace stretto
