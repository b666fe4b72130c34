#include "workloads/data_files.h"

#include <gmock/gmock.h>

#include <cstdlib>
#include <optional>
#include <string>

#include "stretto/observe/temporary_folder.h"

namespace stretto {
namespace {

using testing::HasSubstr;

constexpr BundledFile kFile{"package/data/numbers.ts", "three numbers", "package==1.0"};

// Sets a variable of the environment for one test; nothing unsets it.
class Variable {
 public:
  Variable(const char* name, const std::optional<std::string>& value) : name_(name) {
    if (const char* before = std::getenv(name)) before_ = before;
    set(value);
  }
  ~Variable() { set(before_); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  void set(const std::optional<std::string>& value) {
    if (value) {
      setenv(name_, value->c_str(), 1);
    } else {
      unsetenv(name_);
    }
  }
  const char* name_;
  std::optional<std::string> before_;
};

TEST(FindBundled, LooksInTheGivenFolderAsInSitePackagesOrUnderTheBareName) {
  const TemporaryFolder packages, plain;
  const std::string in_packages = packages.write(kFile.path, "1 2 3");
  const std::string bare = plain.write("numbers.ts", "1 2 3");
  EXPECT_EQ(*find_bundled(kFile, packages.path()), in_packages);
  EXPECT_EQ(*find_bundled(kFile, plain.path()), bare);
  const Variable data("STRETTO_DATA", plain.path());
  EXPECT_EQ(*find_bundled(kFile), bare);
  EXPECT_EQ(*find_bundled(kFile, packages.path()), in_packages) << "what the caller names comes before the environment";
}

TEST(FindBundled, LooksInTheActiveVirtualEnvironment) {
  const TemporaryFolder environment;
  const std::string path = environment.write("lib/python3.11/site-packages/package/data/numbers.ts", "1 2 3");
  const Variable data("STRETTO_DATA", std::nullopt);
  const Variable active("VIRTUAL_ENV", environment.path());
  EXPECT_EQ(*find_bundled(kFile), path);
}

TEST(FindBundled, LooksInAnEnvironmentAboveTheWorkingDirectory) {
  const TemporaryFolder project;
  const std::string path = project.write(".venv/lib/python3.12/site-packages/package/data/numbers.ts", "1 2 3");
  project.write("build/release/here", "");
  const Variable data("STRETTO_DATA", std::nullopt);
  const Variable active("VIRTUAL_ENV", std::nullopt);
  const auto before = std::filesystem::current_path();
  std::filesystem::current_path(project.path() + "/build/release");
  const auto found = find_bundled(kFile);
  std::filesystem::current_path(before);
  ASSERT_TRUE(found.ok()) << found.error().message;
  EXPECT_EQ(std::filesystem::canonical(*found), std::filesystem::canonical(path));
}

TEST(FindBundled, OneLineSaysWhereItShouldBeAndWhatBringsIt) {
  const TemporaryFolder empty;
  const auto found = find_bundled(kFile, empty.path());
  ASSERT_FALSE(found.ok());
  EXPECT_EQ(found.error().code, Errc::bad_input);
  EXPECT_EQ(found.error().message,
            empty.path() +
                "/package/data/numbers.ts: no such file; expected three numbers, which "
                "`.venv/bin/pip install --no-deps package==1.0` brings; or set STRETTO_DATA to a folder that "
                "has the file");
  const Variable data("STRETTO_DATA", std::nullopt);
  EXPECT_THAT(find_bundled(kFile).error().message, HasSubstr("pip install --no-deps package==1.0"));
}

}  // namespace
}  // namespace stretto
