#include "command/pages/roff.h"

#include <gtest/gtest.h>

namespace stretto::command {
namespace {

TEST(Roff, PrintsWhatStandsThere) {
  EXPECT_EQ(roff_text("--ranks N"), "\\-\\-ranks N");
  EXPECT_EQ(roff_text(".5 \\n"), "\\&.5 \\en");
  EXPECT_EQ(roff_text("a 'b' `c` \"d\" ~ ^"), "a \\(aqb\\(aq \\(gac\\(ga \\(dqd\\(dq \\(ti \\(ha");
  EXPECT_EQ(roff_text("'br"), "\\(aqbr");
  EXPECT_EQ(roff_bold("x"), "\\fBx\\fR");
}

TEST(Roff, NamesWhatIsNotAscii) {
  EXPECT_EQ(roff_text("2 × ≥ ö"), "2 \\[u00D7] \\[u2265] \\[u00F6]");
  EXPECT_EQ(roff_text("😀"), "\\[u1F600]");
}

}  // namespace
}  // namespace stretto::command
