#include "stretto/observe/run_folder.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>
#include <vector>

#include "stretto/observe/temporary_folder.h"
#include "stretto/observe/whole_file.h"

namespace stretto {

namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using ::testing::HasSubstr;

class RunFolderTest : public ::testing::Test {
 protected:
  RunFolderTest() { fs::create_directories(root_); }
  ~RunFolderTest() override {
    fs::permissions(root_, fs::perms::owner_all);
    fs::remove_all(root_);
  }
  std::vector<nlohmann::json> lines(const std::string& path) {
    std::ifstream in(path);
    std::vector<nlohmann::json> out;
    for (std::string line; std::getline(in, line);) out.push_back(nlohmann::json::parse(line));
    return out;
  }
  const std::string root_ = ::testing::TempDir() + "stretto_run_" + std::to_string(getpid());
};

TEST_F(RunFolderTest, MakesTheFolderAndThoseAboveIt) {
  const auto folder = RunFolder::create(root_ + "/a/b");
  EXPECT_TRUE(fs::is_directory(root_ + "/a/b"));
  EXPECT_TRUE(fs::is_empty(folder.path()));
  EXPECT_EQ(folder.file("x"), root_ + "/a/b/x");
  EXPECT_TRUE(RunFolder::open(root_ + "/a/b"));
}

TEST_F(RunFolderTest, WritesAndReadsWholeFiles) {
  const auto folder = RunFolder::create(root_ + "/run");
  ASSERT_TRUE(folder.write_config("{\"a\":1}"));
  ASSERT_TRUE(folder.write_config("{}"));
  ASSERT_TRUE(folder.write_summary("{\"b\":2}"));
  EXPECT_EQ(folder.read("config.json").or_throw(), "{}");
  EXPECT_EQ(folder.read("summary.json").or_throw(), "{\"b\":2}");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), {}), 2) << "nothing temporary stays";
  EXPECT_EQ(folder.read("nothing.json").error().code, Errc::bad_input);
}

TEST_F(RunFolderTest, AFolderIsNoFile) {
  const auto content = read_whole_file(root_);
  ASSERT_FALSE(content);
  EXPECT_EQ(content.error().code, Errc::bad_input);
  EXPECT_THAT(content.error().message, HasSubstr("it is a folder"));
}

constexpr const char* kConfig =
    R"({"workload":"digits","algorithm":"sync","ranks":2,"max_lag":4,"checkpoint_every":0})";

TEST_F(RunFolderTest, AnEarlierRunIsReplacedAndOtherFilesStay) {
  std::ofstream(root_ + "/config.json") << kConfig;
  for (const char* name : {"summary.json", "trace.json", "records-0.jsonl", "records-17.jsonl", "trace-3.jsonl",
                           "checkpoint.json", "checkpoint.json.part", "stretto-state-80.pt", "stretto-state-90.pt.part",
                           "curves.csv", "curves-time.svg", "report.html"}) {
    std::ofstream(root_ + "/" + name) << "old";
  }
  const std::vector<std::string> mine{"notes.txt",         "data.json",       "checkpoint",
                                      "records-2025.json", "trace-mine.json", "records-.jsonl",
                                      "records-1a.jsonl",  "checkpoint-a.pt", "summary.json.part.x"};
  for (const auto& name : mine) std::ofstream(root_ + "/" + name) << "mine";
  fs::create_directory(root_ + "/trace-dir.json");
  (void)RunFolder::open(root_).or_throw();
  EXPECT_TRUE(fs::exists(root_ + "/records-17.jsonl"));
  (void)RunFolder::create(root_);
  std::vector<std::string> left, expected = mine;
  expected.emplace_back("trace-dir.json");
  for (const auto& entry : fs::directory_iterator(root_)) left.push_back(entry.path().filename());
  EXPECT_THAT(left, ::testing::UnorderedElementsAreArray(expected));
}

std::string message(const std::string& path) {
  try {
    (void)RunFolder::create(path);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "no error";
}

TEST_F(RunFolderTest, WithoutTheConfigOfARunNothingIsRemoved) {
  for (const char* config : {"", "{}", R"(["workload"])", R"({"workload":"mine","ranks":3})"}) {
    for (const char* name : {"config.json", "records-0.jsonl", "stretto-state-5.pt", "curves.csv"}) {
      const std::string folder = root_ + "/foreign";
      fs::create_directory(folder);
      std::ofstream(folder + "/" + name) << "mine";
      if (*config != '\0') std::ofstream(folder + "/config.json") << config;
      EXPECT_THAT(message(folder), HasSubstr("and no config.json of a run: expected a new folder")) << name << config;
      EXPECT_TRUE(fs::exists(folder + "/" + name));
      fs::remove_all(folder);
    }
  }
}

TEST_F(RunFolderTest, WhatCannotBeWrittenIsToldInOneLine) {
  std::ofstream(root_ + "/file") << "";
  EXPECT_EQ(message(root_ + "/file"), "output folder '" + root_ +
                                          "/file' is not writable: Not a directory; expected a "
                                          "folder that can be made and written, such as runs/first");
  EXPECT_THAT(message(root_ + "/file/below"), HasSubstr("Not a directory"));
  EXPECT_THAT(message(""), HasSubstr("output folder ''"));
  EXPECT_THAT(message("/proc/stretto"), HasSubstr("output folder '/proc/stretto' is not writable"));
  if (geteuid() != 0) {
    fs::permissions(root_, fs::perms::owner_read | fs::perms::owner_exec);
    EXPECT_THAT(message(root_), HasSubstr("Permission denied"));
    EXPECT_THAT(message(root_ + "/below"), HasSubstr("Permission denied"));
  }
  EXPECT_EQ(RunFolder::open(root_ + "/nothing").error().code, Errc::bad_input);
}

TEST_F(RunFolderTest, OneJobHasItAtATime) {
  const std::string path = root_ + "/a/run";
  std::optional<RunFolderLock> first(std::in_place, path);
  (void)RunFolder::create(path);
  try {
    const RunFolderLock second(path);
    ADD_FAILURE() << "both have it";
  } catch (const UsageError& error) {
    EXPECT_EQ(error.what(), "output folder '" + path + "': another job writes there; expected a folder for each job");
  }
  const RunFolderLock beside(root_ + "/b");
  first.reset();
  const RunFolderLock third(path);
}

// As a rank does that outlives a killed job for a moment.
TEST_F(RunFolderTest, WhoIsAboutToEndIsWaitedFor) {
  std::array<int, 2> ends{};
  ASSERT_EQ(pipe(ends.data()), 0);
  const pid_t child = fork();
  if (child == 0) {
    const RunFolderLock held(root_);
    char byte = 'x';
    (void)!write(ends[1], &byte, 1);
    usleep(300'000);
    _exit(0);
  }
  char byte = 0;
  ASSERT_EQ(read(ends[0], &byte, 1), 1);
  const RunFolderLock next(root_);
  EXPECT_EQ(waitpid(child, nullptr, 0), child);
  for (const int end : ends) close(end);
}

TEST_F(RunFolderTest, RecordsAreOneJsonObjectALine) {
  const auto folder = RunFolder::create(root_);
  {
    RecordWriter records(folder, 3);
    records.add({.step = 1,
                 .rank = 3,
                 .round = 5,
                 .base = 4,
                 .batch = 17,
                 .epoch = 2,
                 .samples = 4,
                 .units = 96,
                 .loss = 0.25,
                 .begin = 1s,
                 .computed = 1ms,
                 .paced = 3ms,
                 .delayed = 200ms,
                 .waited = 1500us,
                 .rounds_applied = 2,
                 .messages = 3,
                 .bytes = 408});
    records.add({.step = 2, .rank = 3, .loss = std::nan("")});
    EXPECT_TRUE(records.complete());
  }
  {
    RecordWriter records(folder, 3, LineFile::Mode::append);
    records.add({.step = 3, .rank = 3, .loss = -HUGE_VAL});
  }
  const auto read = lines(folder.records_file(3));
  ASSERT_EQ(read.size(), 3u);
  EXPECT_EQ(read[0], nlohmann::json::parse(R"({"step":1,"rank":3,"round":5,"base":4,"batch":17,"epoch":2,"samples":4,
      "units":96,"loss":0.25,"begin":1,"computed":0.001,"paced":0.003,"delayed":0.2,"waited":0.0015,"rounds_applied":2,
      "messages":3,"bytes":408})"));
  EXPECT_TRUE(read[1]["loss"].is_null());
  EXPECT_TRUE(read[2]["loss"].is_null());
}

TEST_F(RunFolderTest, AFileThatCannotBeMadeIsAnError) {
  const auto written = write_whole_file("/nowhere/at/all", "x");
  ASSERT_FALSE(written);
  EXPECT_EQ(written.error().code, Errc::io);
  EXPECT_EQ(written.error().message, "cannot write '/nowhere/at/all': No such file or directory");
}

/// As /dev/stdout, or /dev/null, which root must not lose.
TEST_F(RunFolderTest, WhatIsNoFileIsWrittenToAndNotReplaced) {
  const std::string pipe = testing::TempDir() + text("stretto_pipe_", ::getpid());
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  const int reader = ::open(pipe.c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC);
  ASSERT_TRUE(write_whole_file(pipe, "whole"));
  EXPECT_TRUE(std::filesystem::is_fifo(pipe));
  EXPECT_FALSE(std::filesystem::exists(pipe + ".part"));
  std::array<char, 8> there{};
  EXPECT_EQ(::read(reader, there.data(), there.size()), 5);
  EXPECT_STREQ(there.data(), "whole");
  ::close(reader);
  std::filesystem::remove(pipe);
}

/// A disk of 16 KiB.
class SmallDisk {
 public:
  explicit SmallDisk(std::string path)
      : path_(std::move(path)), mounted_(mount("tmpfs", path_.c_str(), "tmpfs", 0, "size=16k") == 0) {}
  ~SmallDisk() {
    if (mounted_) umount2(path_.c_str(), MNT_DETACH);
  }
  bool mounted() const { return mounted_; }

 private:
  const std::string path_;
  const bool mounted_;
};

TEST_F(RunFolderTest, AFullDiskLosesRecordsAndKeepsTheOldSummary) {
  const SmallDisk disk(root_);
  if (!disk.mounted()) GTEST_SKIP() << "needs the right to mount a small disk";
  const auto folder = RunFolder::create(root_);
  ASSERT_TRUE(folder.write_summary("{}"));
  const auto written = folder.write_summary(std::string(100'000, ' '));
  ASSERT_FALSE(written);
  EXPECT_THAT(written.error().message, HasSubstr("summary.json': No space left on device"));
  EXPECT_EQ(folder.read("summary.json").or_throw(), "{}");

  RecordWriter records(folder, 0);
  for (std::uint64_t step = 0; step < 1000; ++step) records.add({.step = step});
  records.flush();
  const auto kept = lines(folder.records_file(0));
  EXPECT_GT(kept.size(), 0u);
  EXPECT_EQ(kept.size() + records.lost(), 1000u);
  EXPECT_THAT(records.complete().error().message, HasSubstr("No space left on device"));
  EXPECT_EQ(std::distance(fs::directory_iterator(root_), {}), 2);
}

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
