#include "workloads/data_files.h"

#include <cstdlib>
#include <filesystem>
#include <vector>

namespace stretto {
namespace {

namespace fs = std::filesystem;

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string() : std::string(value);
}

// The site-packages directories of a virtual environment; none where there is no such environment.
void add_site_packages(const fs::path& environment, std::vector<fs::path>& out) {
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(environment / "lib", ignored)) {
    if (entry.path().filename().string().rfind("python3", 0) != 0) continue;
    const fs::path packages = entry.path() / "site-packages";
    if (fs::is_directory(packages, ignored)) out.push_back(packages);
  }
}

std::vector<fs::path> all_site_packages() {
  std::vector<fs::path> out;
  if (const std::string active = environment("VIRTUAL_ENV"); !active.empty()) add_site_packages(active, out);
  std::error_code ignored;
  for (fs::path start : {fs::read_symlink("/proc/self/exe", ignored).parent_path(), fs::current_path(ignored)}) {
    for (; !start.empty(); start = start.parent_path()) {
      add_site_packages(start / ".venv", out);
      if (start == start.root_path()) break;
    }
  }
  return out;
}

}  // namespace

Result<std::string> find_bundled(const BundledFile& file, const std::string& directory) {
  const std::string given = directory.empty() ? environment("STRETTO_DATA") : directory;
  std::error_code ignored;
  if (!given.empty()) {
    for (const fs::path& path : {fs::path(given) / file.path, fs::path(given) / fs::path(file.path).filename()}) {
      if (fs::is_regular_file(path, ignored)) return path.string();
    }
    return unusable(file, text((fs::path(given) / file.path).string(), ": no such file"));
  }
  const std::vector<fs::path> places = all_site_packages();
  for (const fs::path& place : places) {
    if (fs::is_regular_file(place / file.path, ignored)) return (place / file.path).string();
  }
  if (places.empty())
    return unusable(file, text(file.path, ": there is no .venv beside or above the working directory"));
  return unusable(file, text((places.front() / file.path).string(), ": no such file"));
}

Error unusable(const BundledFile& file, std::string_view problem) {
  return {Errc::bad_input, text(problem, "; expected ", file.expected, ", which `.venv/bin/pip install --no-deps ",
                                file.package, "` brings; or set STRETTO_DATA to a folder that has the file")};
}

}  // namespace stretto
