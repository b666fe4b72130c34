#include "stretto/train/job/summarize.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "stretto/train/job/summary_json.h"
#include "stretto/train/options/option_table.h"

namespace stretto {
namespace {

RankReport full_report() {
  return {.rank = 3,
          .seconds = 1.5,
          .waited = 0.25,
          .computed = 0.5,
          .compute_share = 0.125,
          .units = 77,
          .made = 12,
          .sent = {.messages = 31, .body_bytes = 320, .bytes = 1560},
          .lost_records = 2,
          .why_lost = "Too many open files",
          .identical = false,
          .ordering = RankOrdering{.clock = "here", .steps = 10},
          .lines = {{.applied = 9, .bytes_sent = 77}, {.to_apply = Duration(500), .contributed = 3}},
          .apart = 0.5,
          .losses = {{.seconds = 0.5, .batches = 4, .sum = 2.5, .count = 3}},
          .totals = RoundTotals{.rounds = 9,
                                .batches = 12,
                                .dropped = 3,
                                .passed_over = 1.5,
                                .staleness_mean = 0.5,
                                .staleness_max = 2,
                                .fresh = 7,
                                .stale = 5,
                                .null = 1,
                                .lost_seconds = {0.5, 0.25},
                                .lost_deposits = -1,
                                .kept_deposits = 61.5,
                                .ledger = "a table\n"},
          .test = TaskScore{.loss = 0.75, .accuracy = 0.5, .top5 = 0.875},
          .training = TaskScore{.loss = 0.25}};
}

TEST(RunSummary, IsReadAsItWasWritten) {
  RunSummary summary{.algorithm = "eager-quorum", .seed = 7, .ranks = 2, .simulated = true, .network = "latency=1us"};
  summary.loss = 0.5;
  summary.final_model = "average";
  summary.staleness_max = 3;
  summary.deposits.passed_over = 0.25;
  summary.fresh_share = std::nan("");
  summary.lost_seconds = {0.25, 1};
  summary.curve = {{0.5, 4, 2.25}, {1, 8, std::numeric_limits<double>::infinity()}};
  summary.evaluations = {{.seconds = 1, .batches = 8, .of = "average", .loss = 2, .accuracy = 0.5}};
  for (const char* of_some : {"elsewhere", "hosts", "lines", "apart"})
    EXPECT_EQ(to_json(summary).find(of_some), std::string::npos);
  summary.lines = {{{.fresh = 4}, {.late = 1}}};
  summary.apart = {0.5, 0.125};
  summary.hosts = {"h1", "h2"};
  EXPECT_EQ(summary_from_json(to_json(summary)).or_throw().hosts, summary.hosts);
  summary.files_elsewhere = {{.host = "h2", .folder = "/tmp/run", .ranks = {1, 3}}};
  EXPECT_EQ(summary_from_json(to_json(summary)).or_throw().files_elsewhere.at(0).ranks, (std::vector{1, 3}));
  EXPECT_EQ(to_json(summary_from_json(to_json(summary)).or_throw()), to_json(summary));
}

TEST(RunSummary, ThatLacksSomethingIsRefused) {
  const std::string whole = to_json(RunSummary());
  EXPECT_EQ(summary_from_json("{}").error().code, Errc::bad_input);
  EXPECT_EQ(summary_from_json("[]").error().code, Errc::bad_input);
  EXPECT_EQ(summary_from_json(whole.substr(0, whole.size() / 2)).error().code, Errc::bad_input);
}

TEST(RankReport, SurvivesTheWayToTheParent) {
  const RankReport sent = full_report();
  const RankReport got = rank_report_from_json(to_json(sent)).or_throw();
  ASSERT_EQ(got.lines.size(), 2u);
  EXPECT_EQ(got.lines[0].bytes_sent, 77u);
  EXPECT_EQ(got.lines[1].to_apply, Duration(500));
  EXPECT_EQ(to_json(got), to_json(sent));
  EXPECT_EQ(got.sent, sent.sent);
  EXPECT_EQ(got.totals->lost_deposits, -1);
  EXPECT_EQ(got.totals->kept_deposits, 61.5);
  EXPECT_EQ(got.totals->ledger, "a table\n");
  EXPECT_EQ(got.test->accuracy, 0.5);
  EXPECT_EQ(got.test->top5, 0.875);
  EXPECT_EQ(got.training->accuracy, std::nullopt);
  EXPECT_EQ(got.training->top5, std::nullopt);
  EXPECT_FALSE(got.error.has_value());
}

TEST(RankReport, CarriesErrorsAndNumbersThatAreNone) {
  RankReport sent{.rank = 1, .usage_error = true, .error = Error{Errc::aborted, "because \xff of it", 1}};
  sent.test = TaskScore{.loss = std::numeric_limits<double>::infinity()};
  const RankReport got = rank_report_from_json(to_json(sent)).or_throw();
  EXPECT_TRUE(got.usage_error);
  EXPECT_EQ(got.error->code, Errc::aborted);
  EXPECT_EQ(got.error->rank, 1);
  EXPECT_TRUE(std::isnan(got.test->loss));
}

TEST(RankReport, OfARankThatDiedWhileWritingIsRefused) {
  const std::string whole = to_json(full_report());
  for (const std::size_t length : {std::size_t{0}, whole.size() / 2, whole.size() - 1}) {
    EXPECT_EQ(rank_report_from_json(whole.substr(0, length)).error().code, Errc::bad_input);
  }
}

/// Every text that `value` becomes when one of its members, of whatever depth, is of another kind.
std::set<std::string> with_one_member_wrong(const nlohmann::json& value) {
  const nlohmann::json flat = value.flatten();
  std::set<std::string> out;
  for (const auto& [path, member] : flat.items()) {
    for (const nlohmann::json& wrong : {nlohmann::json(0.0), nlohmann::json("a word"), nlohmann::json::array({1})}) {
      if (wrong.type() == member.type() || (wrong.is_number() && member.is_number())) continue;
      nlohmann::json changed = value;
      for (nlohmann::json::json_pointer at(path); !at.empty(); at.pop_back()) {
        changed[at] = wrong;
        out.insert(changed.dump());
      }
    }
  }
  return out;
}

TEST(RankReport, OfWhichAMemberIsOfAnotherKindIsRefusedOrRead) {
  const auto texts = with_one_member_wrong(nlohmann::json::parse(to_json(full_report())));
  ASSERT_GT(texts.size(), 100u);
  std::size_t refused = 0;
  for (const std::string& text : texts) {
    const auto report = rank_report_from_json(text);
    if (!report.ok()) {
      EXPECT_EQ(report.error().code, Errc::bad_input) << text;
      ++refused;
    }
  }
  EXPECT_GT(refused, texts.size() / 2);
}

class SummarizeTest : public testing::Test {
 protected:
  SummarizeTest() {
    TaskFacts facts{.name = "tiny", .samples = 40, .batch = 2, .epochs = 1};
    plan = plan_run({.algorithm = "eager-solo", .ranks = 2, .pace = std::chrono::milliseconds(5)}, facts);
    reports = {
        {.rank = 0, .seconds = 2, .waited = 0.5, .computed = 0.1, .compute_share = 0.1, .units = 22, .made = 11},
        {.rank = 1, .seconds = 2.5, .waited = 0.5, .computed = 0.1, .compute_share = 0.3, .units = 18, .made = 9}};
    reports[0].totals = RoundTotals{.rounds = 12,
                                    .batches = 20,
                                    .staleness_mean = 0.5,
                                    .staleness_max = 3,
                                    .fresh = 15,
                                    .stale = 5,
                                    .null = 4,
                                    .lost_seconds = {0, 1}};
    reports[0].sent = {.messages = 30, .body_bytes = 300, .bytes = 1500};
    reports[1].sent = {.messages = 20, .body_bytes = 100, .bytes = 900};
    reports[0].test = TaskScore{.loss = 0.5, .accuracy = 0.75};
    reports[0].training = TaskScore{.loss = 0.25, .accuracy = 1, .top5 = 1};
    reports[0].evaluations = {{.seconds = 1,
                               .batches = 10,
                               .test = {.loss = 4, .accuracy = 0.25, .top5 = 0.5},
                               .training = {.loss = 3, .accuracy = 0.375, .top5 = 0.625}}};
  }
  RunPlan plan;
  std::vector<RankReport> reports;
};

TEST_F(SummarizeTest, PutsTheRanksTogether) {
  const RunSummary s = summarize(plan, reports, nullptr);
  EXPECT_EQ(s.wall_seconds, 2.5);
  EXPECT_EQ(s.throughput, 8);
  EXPECT_EQ(s.wait_share, 0.2);
  EXPECT_EQ(s.rounds_per_batch, 1.2);
  EXPECT_EQ(s.fresh_share, 0.75);
  EXPECT_EQ(s.real_compute_share, 0.2);
  EXPECT_EQ(s.sent, (Traffic{.messages = 50, .body_bytes = 400, .bytes = 2400}));
  EXPECT_EQ(s.messages_per_step, 2.5) << "50 in 20 steps";
  EXPECT_EQ(s.bytes_per_step, 120);
  EXPECT_EQ(s.deposits.made, 20u);
  EXPECT_EQ(s.deposits.applied, 20u);
  EXPECT_EQ(s.deposits.lost, 0u);
  EXPECT_EQ(s.loss, 0.5);
  EXPECT_EQ(s.accuracy, 0.75);
  EXPECT_EQ(s.top5, std::nullopt);
  EXPECT_EQ(s.train_accuracy, 1);
  EXPECT_EQ(s.train_top5, 1);
  EXPECT_TRUE(s.replicas_identical);
  EXPECT_DOUBLE_EQ(s.ideal_seconds, 20 * 0.010 / 2) << "20 batches of 2 units, 5 ms each, on 2 ranks";
  EXPECT_DOUBLE_EQ(s.sync_ideal_seconds, 20 * 0.010 / 2);
}

TEST_F(SummarizeTest, CountsWhatMembersHaveMadeThatAreGone) {
  reports[0].totals->members = MembersFigures{.worlds = {}, .batches = {6, 7, 5, 2}};
  const RunSummary s = summarize(plan, reports, nullptr);
  EXPECT_EQ(s.deposits.made, 27u) << "members 2 and 3 have reported nothing";
  EXPECT_EQ(s.messages_per_step, 2.5) << "of those that say what they have sent";
}

TEST_F(SummarizeTest, OneDifferingReplicaIsEnough) {
  reports[1].identical = false;
  EXPECT_FALSE(summarize(plan, reports, nullptr).replicas_identical);
}

TEST_F(SummarizeTest, LeavesOutWhatWasDoneBeforeACheckpoint) {
  Checkpoint resume{.batches = 10, .position = DispenserPosition(2)};
  resume.position.next = 11;
  resume.position.returned = {4};
  EXPECT_DOUBLE_EQ(summarize(plan, reports, &resume).ideal_seconds, 10 * 0.010 / 2);
}

TEST_F(SummarizeTest, JoinsTheCurvesOfTheRanks) {
  reports[0].losses = {{0.1, 0, 4, 2}, {0.3, 5, 3, 1}};
  reports[1].losses = {{0.2, 0, 2, 1}};
  const auto curve = summarize(plan, reports, nullptr).curve;
  ASSERT_EQ(curve.size(), 2u);
  EXPECT_EQ(curve[0].loss, 2);
  EXPECT_EQ(curve[0].seconds, 0.1);
  EXPECT_EQ(curve[1].batches, 5u);
  EXPECT_EQ(curve[1].loss, 3);
}

TEST_F(SummarizeTest, TheTimeOfACurveNeverGoesBack) {
  // Rank 1 is late: it begins with what rank 0 had long before, and never has what lies between.
  reports[0].losses = {{0.1, 0, 1, 1}, {0.2, 5, 1, 1}, {0.3, 10, 1, 1}, {0.4, 15, 1, 1}};
  reports[1].losses = {{0.1, 0, 1, 1}, {0.9, 6, 1, 1}, {1.1, 7, 1, 1}, {1.2, 16, 1, 1}};
  const auto curve = summarize(plan, reports, nullptr).curve;
  ASSERT_EQ(curve.size(), 7u);
  double before = 0;
  for (const auto& point : curve) {
    EXPECT_GE(point.seconds, before) << "after " << point.batches << " batches";
    before = point.seconds;
  }
  EXPECT_EQ(curve[2].seconds, 0.3) << "6 batches: rank 0 had 10 by then, when rank 1 had not yet begun with 6";
}

TEST_F(SummarizeTest, IsWrittenAsJson) {
  RunSummary s = summarize(plan, reports, nullptr);
  s.accuracy.reset();
  s.loss = std::numeric_limits<double>::quiet_NaN();
  const auto json = nlohmann::json::parse(to_json(s));
  EXPECT_EQ(json.at("algorithm"), "eager-solo");
  EXPECT_EQ(json.at("throughput"), 8);
  EXPECT_EQ(json.at("staleness").at("max"), 3);
  EXPECT_EQ(json.at("deposits").at("applied"), 20);
  EXPECT_EQ(json.at("messages_per_step"), 2.5);
  EXPECT_EQ(json.at("sent").at("body_bytes"), 400);
  EXPECT_TRUE(json.at("loss").is_null());
  EXPECT_TRUE(json.at("accuracy").is_null());
  EXPECT_TRUE(json.at("top5").is_null());
  EXPECT_EQ(json.at("train_top5"), 1);
  const auto& point = json.at("evaluations").at(0);
  EXPECT_EQ(point.at("accuracy"), 0.25);
  EXPECT_EQ(point.at("top5"), 0.5);
  EXPECT_EQ(point.at("train_accuracy"), 0.375);
  EXPECT_EQ(point.at("train_top5"), 0.625);
  EXPECT_EQ(nlohmann::json::parse(to_json(plan.options)).at("pace"), "5ms");
}

TEST(JsonOfOptions, IsReadAsItWasWritten) {
  TrainOptions options;
  for (const JobOption& option : job_options()) option.set(options, option.name, std::string(option.example));
  const TrainOptions back = options_from_json(to_json(options));
  const std::set<std::string_view> unrecorded = {"between", "compute-threads", "liveness", "out",
                                                 "records", "timeline",        "resume"};
  for (const JobOption& option : job_options()) {
    const TrainOptions expected = unrecorded.contains(option.name) ? TrainOptions() : options;
    EXPECT_EQ(option.value_in(back), option.value_in(expected)) << option.name;
  }
  EXPECT_EQ(back.normalize, Normalize::samples);
  EXPECT_EQ(back.model_bytes, 100u << 20);
  EXPECT_EQ(back.pace, std::chrono::microseconds(50));
  EXPECT_EQ(back.fixed_order, true);
}

}  // namespace
}  // namespace stretto
