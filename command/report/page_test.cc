#include "command/report/page.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <nlohmann/json.hpp>
#include <vector>

namespace stretto::command {

namespace {

TEST(PageNumbers, HaveTheirBytesInMemory) {
  EXPECT_EQ(base64_of<std::uint32_t>(std::vector<std::uint32_t>{1, 0xfffefdfc}), "AQAAAPz9/v8=");
}

RecordedRun two_ranks() {
  RecordedRun run{.name = "a"};
  for (int rank = 0; rank < 2; ++rank) {
    std::vector<RecordedStep> steps;
    for (int i = 0; i < 3 + rank; ++i) {
      steps.push_back({.begin = i * 1.0, .computed = 0.5F, .waited = 0.25F, .loss = 2, .staleness = i == 1 ? 1U : 0U});
    }
    run.ranks.push_back(steps);
  }
  run.rounds = {{.round = 4, .at = 0.75, .contributors = 2}};
  return run;
}

nlohmann::ordered_json data_of(const RecordedRun& run, std::size_t most_steps = kMostSteps) {
  return page_data(std::span(&run, 1), std::nullopt, "none", most_steps)["runs"][0];
}

TEST(PageData, HasEachStepAndNoColumnOfZeros) {
  const auto line = data_of(two_ranks())["timeline"];
  EXPECT_EQ(line["merged"], 1);
  EXPECT_EQ(line["lengths"], nlohmann::ordered_json({3, 4}));
  EXPECT_EQ(line["waited"], base64_of<float>(std::vector<float>(7, 0.25F)));
  EXPECT_EQ(line["staleness"], base64_of<std::int16_t>(std::vector<std::int16_t>{0, 1, 0, 0, 1, 0, 0}));
  EXPECT_FALSE(line.contains("delayed"));
}

TEST(PageData, AddsUpStepsThatFollowOneAnotherWhereThereAreMany) {
  const auto line = data_of(two_ranks(), 4)["timeline"];
  EXPECT_EQ(line["merged"], 2);
  EXPECT_EQ(line["lengths"], nlohmann::ordered_json({2, 2}));
  EXPECT_EQ(line["computed"], base64_of<float>(std::vector<float>{1, 0.5F, 1, 1}));
  EXPECT_EQ(line["staleness"], base64_of<std::int16_t>(std::vector<std::int16_t>{1, 0, 1, 0}));
  EXPECT_EQ(data_of(two_ranks(), 4)["ranks"][0]["steps"], 3) << "statistics are of all steps";
}

TEST(PageData, NamesTheHostOfEachRankWhereThereAreSeveral) {
  RecordedRun run = two_ranks();
  run.summary = RunSummary{.ranks = 2};
  EXPECT_FALSE(data_of(run)["ranks"][1].contains("host"));
  run.summary->hosts = {"h1", "h2"};
  EXPECT_EQ(data_of(run)["ranks"][1]["host"], "h2");
}

TEST(PageData, OfARunWithoutSummaryIsWhatTheRecordsSay) {
  const auto data = data_of(two_ranks());
  EXPECT_EQ(data["result"]["whole"], false);
  EXPECT_EQ(data["result"]["seconds"], 3.75);
  EXPECT_EQ(data["result"]["batches_per_s"], 7 / 3.75);
  EXPECT_EQ(data["result"]["wait_share"], 1.75 / 7.5);
  EXPECT_EQ(data["curve"].size(), 7u);
  EXPECT_EQ(data["curve"][0], nlohmann::ordered_json({0.75, 1, 2}));
  EXPECT_TRUE(data["ranks"][0]["cost"].is_null());
  EXPECT_EQ(data["staleness"], nlohmann::ordered_json({5, 2}));
}

TEST(PageData, StalenessIsShownWhereTheRunCountsItLikewise) {
  RecordedRun run = two_ranks();
  run.summary = RunSummary{.staleness_mean = 2.0 / 7, .staleness_histogram = {5, 2}, .lost_seconds = {1, 2}};
  EXPECT_EQ(data_of(run)["staleness"], nlohmann::ordered_json({5, 2}));
  EXPECT_EQ(data_of(run)["ranks"][1]["cost"], 2);
  run.summary->staleness_mean = 5;  // versions of a server, say
  run.summary->staleness_histogram = {0, 0, 0, 0, 0, 7};
  EXPECT_EQ(data_of(run)["staleness"].size(), 6u) << "by the run's own account";
}

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
