#include "command/report/page.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace stretto::command {
namespace {

constexpr PageParts kParts{.html = "<{{library_style}}|{{style}}|{{data}}|{{library}}|{{script}}>",
                           .style = "s {{data}}",
                           .script = "t",
                           .library_style = "ls",
                           .library = "l"};

TEST(Page, HasEachPartInItsPlaceAndReadsNoPlaceInAPart) {
  EXPECT_EQ(page_of(kParts, {{"a", 1}}), R"(<ls|s {{data}}|{"a":1}|l|t>)");
}

TEST(Page, NoTextOfTheDataCanEndAnElement) {
  const std::string name = "</script><!-- <b> \xff {{script}}";
  const std::string page = page_of(kParts, {{"name", name}});
  EXPECT_EQ(page, "<ls|s {{data}}|{\"name\":\"\\u003c/script>\\u003c!-- \\u003cb> \xef\xbf\xbd {{script}}\"}|l|t>");
}

TEST(Page, TheOneInTheProgramHasAPlaceForEachPart) {
  const PageParts parts = page_parts();
  for (const char* name : {"{{library_style}}", "{{style}}", "{{data}}", "{{library}}", "{{script}}"}) {
    EXPECT_NE(parts.html.find(name), std::string_view::npos) << name;
  }
  EXPECT_TRUE(parts.script.ends_with("main();\n"));
  EXPECT_EQ(parts.script.find("</script"), std::string_view::npos);
  EXPECT_EQ(parts.library.find("</script"), std::string_view::npos);
}

}  // namespace
}  // namespace stretto::command
