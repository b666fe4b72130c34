#include "stretto/membership/views/register.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "stretto/base/files/input_file.h"
#include "stretto/membership/views/testing/register_conformance.h"
#include "stretto/observe/temporary_folder.h"
#include "stretto/observe/whole_file.h"

namespace stretto {
namespace {

class RegisterLog : public testing::Test {
 protected:
  std::unique_ptr<LogRegister> opened(const std::string& job = "vowels") {
    return LogRegister::open(path_, job).or_throw();
  }
  std::string bytes() const { return read_whole_file(path_, FileContent::bytes).or_throw(); }
  void replace(const std::string& bytes) const { std::ofstream(path_, std::ios::binary) << bytes; }
  /// A log with views of epochs 1 to `epochs`; the last of them.
  View write_views(int epochs) {
    View last;
    const auto log = opened();
    for (int i = 0; i < epochs; ++i) {
      last = view_after(last);
      EXPECT_EQ(log->commit(last), Written::done);
    }
    return last;
  }

  /// The same, with a thousand bytes beside each.
  View write_long_views(int epochs) {
    View last;
    const auto log = opened();
    for (int i = 0; i < epochs; ++i) {
      last = view_after(last);
      EXPECT_EQ(log->commit(last, std::string(1000, 'x')), Written::done);
    }
    return last;
  }

  const TemporaryFolder folder_;
  const std::string path_ = folder_.path() + "/register";
};

TEST(RegisterConformance, Memory) {
  expect_register({"memory", [] { return std::make_unique<MemoryRegister>(); }});
}

TEST(RegisterConformance, Log) {
  const TemporaryFolder folder;
  int logs = 0;
  expect_register({"log", [&] { return LogRegister::open(text(folder.path(), "/", ++logs), "job").or_throw(); }});
}

TEST_F(RegisterLog, GoesOnWhereItWas) {
  const View last = write_views(4);
  {
    const auto log = opened();
    EXPECT_EQ(log->read().value(), (Registered{last, JobEnd::none}));
    EXPECT_EQ(log->damage(), "");
    EXPECT_EQ(log->commit(view_after(last)), Written::done);
    EXPECT_EQ(log->end(last.epoch + 1, JobEnd::done), Written::done);
  }
  EXPECT_EQ(opened()->read().value(), (Registered{view_after(last), JobEnd::done}));
}

TEST_F(RegisterLog, LosesAtMostTheEntryThatWasCutOff) {
  const View last = write_views(3);
  const std::string whole = bytes();
  const std::size_t before = whole.rfind('\n', whole.size() - 2) + 1;  // where the last entry begins
  View former;
  former = view_after(view_after(former));
  for (std::size_t cut = before + 1; cut < whole.size(); ++cut) {
    replace(whole.substr(0, cut));
    const auto log = opened();
    ASSERT_EQ(log->read().value().view, former) << "cut after " << cut - before << " bytes";
    EXPECT_NE(log->damage().find("epoch 2"), std::string::npos) << log->damage();
    ASSERT_EQ(log->commit(last), Written::done);
  }
  EXPECT_EQ(bytes(), whole) << "and the log is whole again";
  EXPECT_EQ(opened()->damage(), "");
}

TEST_F(RegisterLog, GoesOnFromTheLastWholeEntryWhereverABitIsWrong) {
  const View last = write_views(2);
  const std::string whole = bytes();
  const std::size_t first = whole.find('\n') + 1, second = whole.find('\n', first) + 1;
  for (std::size_t at = first; at < whole.size(); ++at) {
    std::string damaged = whole;
    damaged[at] = static_cast<char>(damaged[at] ^ 1);
    replace(damaged);
    const auto log = opened();
    const std::uint64_t expected = at + 1 < second ? 2 : at + 1 == second ? 0 : 1;  // an end of line joins two entries
    ASSERT_EQ(log->read().value().view.epoch, expected) << "byte " << at;
    EXPECT_NE(log->damage(), "");
  }
  replace(whole);
  EXPECT_EQ(opened()->read().value().view, last);
}

TEST_F(RegisterLog, KeepsWhatStandsBesideTheNewestViewAlone) {
  using Lines = std::vector<std::string>;
  const View first = view_after({}), second = view_after(first);
  {
    const auto log = opened();
    EXPECT_TRUE(log->note("before the first view"));
    EXPECT_EQ(log->commit(first, "a pool"), Written::done);
    EXPECT_TRUE(log->note("one"));
    EXPECT_TRUE(log->note("{\"two\": \"+\"}"));
    EXPECT_EQ(log->beside(), Lines()) << "of the log as it was opened";
  }
  EXPECT_EQ(opened()->beside(), (Lines{"a pool", "one", "{\"two\": \"+\"}"}));
  {
    const auto log = opened();
    EXPECT_TRUE(log->note("three"));
    EXPECT_EQ(log->read().value().view, first);
  }
  EXPECT_EQ(opened()->beside().size(), 4u);
  EXPECT_EQ(opened()->commit(second), Written::done);
  EXPECT_EQ(opened()->beside(), Lines());
  EXPECT_EQ(opened()->read().value().view, second);
}

TEST_F(RegisterLog, LeavesManyOldViewsOutWhenItIsOpened) {
  View last = write_long_views(20);
  const std::string few = bytes();
  EXPECT_EQ(opened()->read().value().view, last);
  EXPECT_EQ(bytes(), few) << "few stay";
  std::filesystem::remove(path_);
  last = write_long_views(100);
  ASSERT_TRUE(opened()->note("one"));
  const std::string all = bytes();
  {
    const auto log = opened();
    EXPECT_LT(bytes().size(), few.size());
    EXPECT_TRUE(all.ends_with(bytes().substr(bytes().find('\n') + 1))) << "the newest stays as it was";
    EXPECT_EQ(log->read().value().view, last);
    ASSERT_EQ(log->beside().size(), 2u);
    EXPECT_EQ(log->beside()[1], "one");
    EXPECT_EQ(log->damage(), "");
    EXPECT_FALSE(LogRegister::open(path_, "vowels")) << "it is locked as before";
    ASSERT_TRUE(log->note("two"));
    ASSERT_EQ(log->commit(view_after(last)), Written::done);
  }
  EXPECT_EQ(opened()->read().value().view, view_after(last));
  EXPECT_FALSE(std::filesystem::exists(path_ + ".new"));
}

TEST_F(RegisterLog, KeepsOldViewsWhereNoOtherFileCanBeWritten) {
  const View last = write_long_views(100);
  const std::string all = bytes();
  std::filesystem::create_directory(path_ + ".new");  // which is no file
  EXPECT_EQ(opened()->read().value().view, last);
  EXPECT_EQ(bytes(), all);
}

TEST_F(RegisterLog, LosesANoteThatWasCutOffAndNoneBefore) {
  {
    const auto log = opened();
    ASSERT_EQ(log->commit(view_after({}), "a pool"), Written::done);
    for (const char* note : {"one", "two"}) ASSERT_TRUE(log->note(note));
  }
  const std::string whole = bytes();
  const std::size_t before = whole.rfind('\n', whole.size() - 2) + 1;
  for (std::size_t cut = before + 1; cut < whole.size(); ++cut) {
    replace(whole.substr(0, cut));
    const auto log = opened();
    ASSERT_EQ(log->beside(), (std::vector<std::string>{"a pool", "one"})) << "cut after " << cut - before << " bytes";
    ASSERT_TRUE(log->note("two"));
    ASSERT_EQ(bytes(), whole);
  }
}

TEST_F(RegisterLog, TakesNoNoteBehindOneThatIsDamaged) {
  const View next = view_after(view_after({}));
  {
    const auto log = opened();
    ASSERT_EQ(log->commit(view_after({}), "a pool"), Written::done);
    for (const char* note : {"one", "two", "three"}) ASSERT_TRUE(log->note(note));
  }
  std::string damaged = bytes();
  damaged[damaged.find("two")] = 'T';
  replace(damaged);
  const auto log = opened();
  EXPECT_EQ(log->beside(), (std::vector<std::string>{"a pool", "one"}));
  EXPECT_NE(log->damage(), "");
  EXPECT_EQ(log->commit(next, "another"), Written::done);
}

TEST_F(RegisterLog, TakesNoFurtherNoteWhereOneDidNotFitUntilThereIsAView) {
  const View first = view_after({});
  const auto log = opened();
  ASSERT_EQ(log->commit(first, "a pool"), Written::done);
  const std::string whole = bytes();
  const auto before = std::signal(SIGXFSZ, SIG_IGN);
  rlimit usual{};
  ::getrlimit(RLIMIT_FSIZE, &usual);
  const rlimit full{whole.size() + 10, usual.rlim_max};
  ::setrlimit(RLIMIT_FSIZE, &full);
  const auto noted = log->note("one");
  ::setrlimit(RLIMIT_FSIZE, &usual);
  std::signal(SIGXFSZ, before);
  ASSERT_FALSE(noted);
  EXPECT_NE(noted.error().message.find("File too large"), std::string::npos) << noted.error().message;
  EXPECT_FALSE(log->note("two")) << "the first would be missing";
  EXPECT_EQ(bytes(), whole);
  EXPECT_EQ(log->commit(view_after(first), "another"), Written::done);
  EXPECT_TRUE(log->note("three"));
}

TEST_F(RegisterLog, BeginsAnewWhereEvenTheNameOfTheJobWasCutOff) {
  write_views(0);
  const std::string whole = bytes();
  for (std::size_t cut = 0; cut < whole.size(); ++cut) {
    replace(whole.substr(0, cut));
    EXPECT_EQ(opened()->read().value(), Registered());
    ASSERT_EQ(bytes(), whole);
  }
}

TEST_F(RegisterLog, RefusesWhatIsNotItsOwn) {
  write_views(2);
  const auto other = LogRegister::open(path_, "another job");
  ASSERT_FALSE(other);
  EXPECT_EQ(other.error().code, Errc::bad_input);
  for (const char* words : {"'vowels'", "'another job'", path_.c_str()}) {
    EXPECT_NE(other.error().message.find(words), std::string::npos) << other.error().message;
  }
  replace("a file of somebody else\n");
  const auto stranger = LogRegister::open(path_, "vowels");
  ASSERT_FALSE(stranger);
  EXPECT_EQ(stranger.error().code, Errc::bad_input);
  EXPECT_EQ(bytes(), "a file of somebody else\n") << "it stays as it is";
  EXPECT_EQ(LogRegister::open(folder_.path() + "/no/folder", "vowels").error().code, Errc::io);
}

TEST_F(RegisterLog, IsOpenOnce) {
  const auto log = opened();
  const auto again = LogRegister::open(path_, "vowels");
  ASSERT_FALSE(again);
  EXPECT_NE(again.error().message.find("another process"), std::string::npos) << again.error().message;
}

TEST_F(RegisterLog, SaysThatItsDiskIsFullAndGoesOnWhenItIsNot) {
  const View last = write_views(2);
  const std::string whole = bytes();
  const auto log = opened();
  const auto before = std::signal(SIGXFSZ, SIG_IGN);
  rlimit usual{};
  ::getrlimit(RLIMIT_FSIZE, &usual);
  const rlimit full{whole.size() + 10, usual.rlim_max};  // an entry fits in part
  ::setrlimit(RLIMIT_FSIZE, &full);
  const Written written = log->commit(view_after(last));
  ::setrlimit(RLIMIT_FSIZE, &usual);
  std::signal(SIGXFSZ, before);
  EXPECT_EQ(written, Written::unknown);
  EXPECT_NE(log->why().find("File too large"), std::string::npos) << log->why();
  EXPECT_NE(log->why().find(path_), std::string::npos) << log->why();
  EXPECT_EQ(bytes(), whole) << "no part of the entry stays";
  EXPECT_EQ(log->read().value().view, last);
  EXPECT_EQ(log->commit(view_after(last)), Written::done);
  EXPECT_EQ(log->read().value().view, view_after(last));
}

}  // namespace
}  // namespace stretto
