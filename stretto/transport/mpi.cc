#include "stretto/transport/mpi.h"

#include <dlfcn.h>

#include <filesystem>

namespace stretto {
namespace {

namespace fs = std::filesystem;

constexpr const char* kModule = "libstretto_mpi.so";

/// Where the module may be: beside the program, beside the library this code is part of, or in ../lib from there.
std::vector<std::string> candidates() {
  std::vector<std::string> out;
  const auto add = [&](const fs::path& object) {
    std::error_code error;
    const fs::path file = fs::canonical(object, error);
    if (error) return;
    for (const fs::path& folder : {file.parent_path(), file.parent_path().parent_path() / "lib"}) {
      out.push_back((folder / kModule).string());
    }
  };
  add("/proc/self/exe");
  Dl_info self{};
  if (dladdr(reinterpret_cast<const void*>(&candidates), &self) != 0) add(self.dli_fname);
  return out;
}

Result<internal::StartMpiJob*> load() {
  std::string tried;
  auto paths = candidates();
  paths.emplace_back(kModule);
  for (const std::string& path : paths) {
    // Global, because Open MPI's own plugins look for its symbols.
    void* module = dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL);
    void* start = module != nullptr ? dlsym(module, internal::kStartMpiJob) : nullptr;
    if (start != nullptr) return reinterpret_cast<internal::StartMpiJob*>(start);
    const char* reason = dlerror();
    if (path == kModule || fs::exists(path)) tried = reason != nullptr ? reason : path;
    if (path != kModule && fs::exists(path)) break;
  }
#ifdef STRETTO_MPI_MODULE
  const char* advice =
      "it is installed in the folder lib below the prefix: put that into LD_LIBRARY_PATH or the RPATH of the program";
#else
  const char* advice = "this Stretto was built without MPI: install libopenmpi-dev and build again";
#endif
  return Error{Errc::unavailable, text("no MPI: ", tried, "; ", advice, ", or run all ranks on this host")};
}

}  // namespace

bool MpiJob::available() {
  return load().ok();
}

Result<std::unique_ptr<MpiJob>> MpiJob::start() {
  const auto start = load();
  if (!start) return start.error();
  Error error{Errc::unavailable, {}};
  std::unique_ptr<MpiJob> job((*start)(&error));
  if (job == nullptr) return error;
  return job;
}

}  // namespace stretto
