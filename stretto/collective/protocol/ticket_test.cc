#include "stretto/collective/protocol/ticket.h"

#include <gtest/gtest.h>

namespace stretto {
namespace {

TEST(Ticket, ArrivesAtTheFront) {
  Ticket ticket(4);
  EXPECT_EQ(ticket.decide(0, false), Ticket::Move::arrive);
  EXPECT_EQ(ticket.decide(0, true), Ticket::Move::arrive);
  ticket.handed_over();
  ticket.passed();
  EXPECT_EQ(ticket.next(), 1u);
  EXPECT_EQ(ticket.decide(1, false), Ticket::Move::arrive);
}

TEST(Ticket, ALateRankCatchesUpAndItsDebtIsCapped) {
  Ticket ticket(4);
  EXPECT_EQ(ticket.decide(10, false), Ticket::Move::catch_up);
  for (int i = 0; i < 10; ++i) ticket.handed_over();
  ticket.caught_up(10);
  EXPECT_EQ(ticket.next(), 6u) << "at most max_lag behind";
  ticket.caught_up(10);
  EXPECT_EQ(ticket.next(), 7u);
}

TEST(Ticket, WaitsAtAFullRoundAfterTakingWhatThereIs) {
  Ticket ticket(4);
  EXPECT_EQ(ticket.decide(3, true), Ticket::Move::catch_up_then_arrive);
  ticket.move_to_front(3);
  EXPECT_EQ(ticket.next(), 3u);
}

}  // namespace
}  // namespace stretto
