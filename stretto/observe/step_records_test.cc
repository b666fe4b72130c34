#include "stretto/observe/step_records.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <vector>

#include "stretto/observe/temporary_folder.h"

namespace stretto {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

class StepRecords : public ::testing::Test {
 protected:
  const TemporaryFolder temporary_;
  const RunFolder folder_ = RunFolder::create(temporary_.path() + "/run");
  const std::string path_ = folder_.records_file(0);

  void write(const std::string& content) const { std::ofstream(path_) << content; }
  std::vector<StepRecord> read(LinesFound found = LinesFound::all) const {
    std::vector<StepRecord> records;
    const auto take = [&](const StepRecord& record) {
      records.push_back(record);
      return std::string();
    };
    EXPECT_EQ(read_step_records(path_, take).or_throw(), found);
    return records;
  }
  std::string fault() const {
    const auto read = read_step_records(path_, [](const StepRecord&) { return std::string("too late"); });
    return read ? "none" : read.error().message;
  }
};

TEST_F(StepRecords, AreReadAsTheyWereWritten) {
  const StepRecord all{.step = 1,
                       .rank = 3,
                       .round = 5,
                       .base = 4,
                       .batch = 17,
                       .epoch = 2,
                       .samples = 4,
                       .units = 96,
                       .loss = 0.25,
                       .begin = 1234567891ns,
                       .computed = 1001ns,
                       .paced = 3ms,
                       .delayed = 200ms,
                       .waited = 1500us,
                       .rounds_applied = 2,
                       .messages = 3,
                       .bytes = 408};
  {
    RecordWriter writer(folder_, 0);
    writer.add(all);
    writer.add({.step = 2, .loss = std::nan("")});
  }
  const auto records = read();
  ASSERT_EQ(records.size(), 2u);
  EXPECT_EQ(to_json(records[0]), to_json(all));
  EXPECT_TRUE(std::isnan(records[1].loss));
}

TEST_F(StepRecords, ALastLineThatIsNotWholeIsLeftOut) {
  const std::string whole = to_json(StepRecord{});
  for (const std::string& end : {std::string(), whole.substr(0, 40), std::string("{"), std::string(100, '\0')}) {
    write(whole + "\n" + end);
    EXPECT_EQ(read(end.empty() ? LinesFound::all : LinesFound::cut).size(), 1u) << end;
  }
  write("");
  EXPECT_TRUE(read().empty());
}

TEST_F(StepRecords, WhatIsNoneIsNamedWithItsLine) {
  const std::string whole = to_json(StepRecord{}) + "\n";
  write("{]\n");
  EXPECT_EQ(fault(), "'" + path_ + "' line 1: no record of a step");
  write("[]\n" + whole);
  EXPECT_THAT(fault(), HasSubstr("line 1: no record of a step"));
  write(R"({"step":0,"rank":-1})"
        "\n");
  EXPECT_THAT(fault(),
              HasSubstr("line 1: no record of a step: expected a whole number from 0 to 2147483647 as 'rank'"));
  write(R"({"step":0,"rank":2147483648})"
        "\n");
  EXPECT_THAT(fault(), HasSubstr("from 0 to 2147483647 as 'rank'"));
  const auto with_computed = [&](const std::string& number) {
    std::string record = to_json(StepRecord{}), zero = "\"computed\":0";
    record.replace(record.find(zero), zero.size(), "\"computed\":" + number);
    write(record + "\n");
    return fault();
  };
  EXPECT_THAT(with_computed("0.5"), HasSubstr("too late"));
  EXPECT_THAT(with_computed("-1"), HasSubstr("expected seconds from 0 to below 1e+09 as 'computed'"));
  EXPECT_THAT(with_computed("1e308"), HasSubstr("expected seconds from 0 to below 1e+09 as 'computed'"));
  write(whole);
  EXPECT_EQ(fault(), "'" + path_ + "' line 1: too late");
}

TEST_F(StepRecords, APipeInTheirPlaceIsNotWaitedFor) {
  ASSERT_EQ(mkfifo(path_.c_str(), 0600), 0);
  EXPECT_EQ(fault(), "cannot read '" + path_ + "': it is no file");
}

TEST_F(StepRecords, AFileThatIsNotThereHasNone) {
  const auto nothing = read_step_records(path_, [](const StepRecord&) { return std::string(); });
  ASSERT_TRUE(nothing);
  EXPECT_EQ(*nothing, LinesFound::no_file);
}

}  // namespace
}  // namespace stretto
