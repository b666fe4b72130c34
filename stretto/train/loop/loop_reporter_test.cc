#include "stretto/train/loop/loop_reporter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <limits>

#include "stretto/base/error.h"
#include "stretto/collective/testing/thread_job.h"
#include "stretto/train/testing/test_task.h"

namespace stretto {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using namespace std::chrono_literals;

class LoopReporterTest : public testing::Test {
 protected:
  LoopReporterTest() { fs::remove_all(out_); }
  ~LoopReporterTest() override { fs::remove_all(out_); }
  const std::string out_ = testing::TempDir() + text("loop_reporter_", ::getpid());
};

LoopReport a_report() {
  LoopReport report;
  report.algorithm = "eager-quorum:2";
  report.ranks = 4;
  report.batches = 120;
  report.seconds = 1.5;
  report.staleness_max = 3;
  report.waited = 0.25;
  report.replicas_identical = true;
  report.ledger = "a table\n";
  return report;
}

TEST_F(LoopReporterTest, LeavesAReportAndTheStepsOfEachRank) {
  for (const int rank : {0, 1}) {
    LoopReporter reporter(out_, 2, rank);
    ASSERT_TRUE(reporter.wanted());
    for (int step = 0; step < 3; ++step) reporter.step(step * 1s, 600ms, 400ms);
    if (rank == 0) reporter.record("test accuracy", 0.5);
    reporter.finish(a_report());
    if (rank == 0) reporter.record("test accuracy", 0.75);
  }
  const std::string folder = loop_report_folder(out_, 2);
  const LoopReport there = read_loop_report(folder).or_throw();
  EXPECT_EQ(there.algorithm, "eager-quorum:2");
  EXPECT_EQ(there.batches, 120u);
  EXPECT_EQ(there.seconds, 1.5);
  EXPECT_EQ(there.staleness_max, 3u);
  EXPECT_TRUE(there.replicas_identical);
  EXPECT_EQ(there.recorded, (std::map<std::string, double>{{"test accuracy", 0.75}}));
  for (const int rank : {0, 1}) {
    std::ifstream lines(text(folder, "/records-", rank, ".jsonl"));
    int count = 0;
    for (std::string line; std::getline(lines, line); ++count) EXPECT_THAT(line, HasSubstr("\"waited\":0.4"));
    EXPECT_EQ(count, 3);
  }
}

TEST_F(LoopReporterTest, BringsTheRecordsOfHostsThatDoNotSeeTheFolderOfRank0) {
  const Members members({0, 1, 0, 1});
  const auto task = linear_task();
  run_thread_job(4, [&](Engine& engine) {
    const int rank = engine.rank();
    const auto rank_task = task->start_rank({});
    Meeting meeting(engine, rank_task->replica());
    EngineDriver driver(engine);
    LoopReporter reporter(text(out_, "/host-", members.host_of(rank)), 0, rank);
    reporter.look_together(meeting, driver, members);
    for (int step = 0; step <= rank; ++step) reporter.step(step * 1s, 600ms, 400ms);
    reporter.finish(a_report());
    reporter.bring_together(engine, meeting, driver);
    return true;
  });
  for (int rank = 0; rank < 4; ++rank) {
    int steps = 0;
    const auto count = [&](const StepRecord& record) {
      EXPECT_EQ(record.rank, rank);
      EXPECT_EQ(record.step, static_cast<std::uint64_t>(steps++));
      return std::string();
    };
    EXPECT_EQ(read_step_records(text(out_, "/host-0/optimizer-0/records-", rank, ".jsonl"), count).or_throw(),
              LinesFound::all);
    EXPECT_EQ(steps, rank + 1);
  }
  EXPECT_FALSE(fs::exists(out_ + "/host-1/optimizer-0"));
}

TEST_F(LoopReporterTest, WithoutAFolderThereIsNothing) {
  LoopReporter reporter("", 0, 0);
  EXPECT_FALSE(reporter.wanted());
  reporter.step(1s, 1s, 1s);
  reporter.record("test accuracy", 1);
  reporter.finish(a_report());
  EXPECT_FALSE(fs::exists(out_));
  EXPECT_THROW(reporter.record("test loss", std::numeric_limits<double>::quiet_NaN()), UsageError);
}

TEST_F(LoopReporterTest, AFolderThatCannotBeWrittenIsSaidOnce) {
  testing::internal::CaptureStderr();
  LoopReporter reporter("/dev/null/here", 0, 0);
  EXPECT_FALSE(reporter.wanted());
  reporter.step(1s, 1s, 1s);
  reporter.finish(a_report());
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_THAT(said, HasSubstr("stretto: no report: folder '/dev/null/here/optimizer-0' cannot be made"));
  EXPECT_EQ(said.find("stretto:"), said.rfind("stretto:"));
}

TEST_F(LoopReporterTest, ABrokenReportIsAnError) {
  EXPECT_EQ(read_loop_report(out_).error().code, Errc::bad_input);
  ASSERT_TRUE(write_loop_report(out_, a_report()));
  fs::resize_file(out_ + "/report.json", 20);
  EXPECT_EQ(read_loop_report(out_).error().code, Errc::bad_input);
}

}  // namespace
}  // namespace stretto
