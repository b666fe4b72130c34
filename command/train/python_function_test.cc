#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "command/train/compare_program.h"
#include "stretto/base/error.h"
#include "stretto/observe/temporary_folder.h"
#include "stretto/observe/whole_file.h"

namespace stretto::command {
namespace {

using testing::HasSubstr;

template <class Call>
std::string complaint(Call call) {
  try {
    call();
  } catch (const UsageError& error) {
    return error.what();
  }
  return {};
}

TEST(PythonFunction, IsToldFromAWorkload) {
  for (const char* word : {"train.py:train", "a/b.py:c", "train.py", "train.py:", ".py:x"}) {
    EXPECT_TRUE(names_python_file(word)) << word;
  }
  for (const char* word : {"vowels", "--algorithms=x.py:y", "wagma:4", "x.python", ""}) {
    EXPECT_FALSE(names_python_file(word)) << word;
  }
}

TEST(PythonFunction, IsAFileAndAName) {
  const TemporaryFolder folder;
  const std::string file = folder.path() + "/a.py:b.py";
  ASSERT_TRUE(write_whole_file(file, "def train(): ..."));
  const PythonFunction parsed = parse_python_function(file + ":train");
  EXPECT_EQ(parsed.file, file);
  EXPECT_EQ(parsed.function, "train");
}

TEST(PythonFunction, WhatIsMissingIsSaid) {
  for (const char* written : {"train.py", "train.py:", ".py:train", "train.pyc:x"}) {
    EXPECT_EQ(complaint([&] { parse_python_function(written); }),
              std::string(written) + ": expected FILE.py:FUNCTION, as in train.py:train");
  }
  EXPECT_EQ(complaint([] { parse_python_function("/nowhere/train.py:train"); }),
            "/nowhere/train.py:train: there is no file /nowhere/train.py");
}

TEST(PythonFunction, TheInterpreterIsTheOneThatIsNamed) {
  ::setenv("STRETTO_PYTHON", "/bin/sh", 1);
  EXPECT_EQ(python_interpreter(""), "/bin/sh");
  EXPECT_EQ(python_interpreter("/bin/true"), "/bin/true");
  EXPECT_EQ(complaint([] { python_interpreter("/nowhere/python"); }),
            "--python /nowhere/python: there is no such program");
  ::setenv("STRETTO_PYTHON", "no-such-python", 1);
  EXPECT_EQ(complaint([] { python_interpreter(""); }), "STRETTO_PYTHON no-such-python: there is no such program");
  ::unsetenv("STRETTO_PYTHON");
}

TEST(PythonFunction, AnInterpreterWithoutThePackageIsNamed) {
  EXPECT_THAT(complaint([] {
                require_function("/bin/false", {"/a.py", "train"});
              }),
              HasSubstr("/bin/false cannot import stretto"));
}

}  // namespace
}  // namespace stretto::command
