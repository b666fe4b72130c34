#include "stretto/transport/hosts/ucx_library.h"

#include <dlfcn.h>

#include <array>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <vector>

#include "stretto/base/machine/library_function.h"

namespace stretto {
namespace {

namespace fs = std::filesystem;

constexpr const char* kLibrary = "libucp.so.0";
constexpr unsigned kMajor = 1, kLeastMinor = 13;
constexpr std::array kCaughtByUcx = {SIGILL, SIGSEGV, SIGBUS, SIGFPE};

/// Where it may be, in this order.
std::vector<std::string> ucx_candidates() {
  if (const char* given = std::getenv("STRETTO_UCX"); given != nullptr && *given != '\0') return {given};
  std::vector<std::string> out{kLibrary};
  Dl_info self{};
  if (::dladdr(reinterpret_cast<const void*>(&load_ucx), &self) == 0) return out;
  std::error_code error;
  for (fs::path folder = fs::canonical(self.dli_fname, error); folder.has_relative_path();) {
    folder = folder.parent_path();
    if (folder.filename() == "lib") out.push_back((folder / "openmpi" / kLibrary).string());
  }
  return out;
}

/// UCX catches signals of faults when it is loaded, which Python and sanitizers do already.
void* load_without_signals(const std::string& path) {
  std::array<struct sigaction, kCaughtByUcx.size()> before{};
  for (std::size_t i = 0; i < before.size(); ++i) ::sigaction(kCaughtByUcx[i], nullptr, &before[i]);
  void* const library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  for (std::size_t i = 0; i < before.size(); ++i) ::sigaction(kCaughtByUcx[i], &before[i], nullptr);
  return library;
}

Result<UcxLibrary> load_first() {
  const auto none = [](const auto&... found) {
    return Error{Errc::unavailable,
                 text(found..., "; expected UCX ", kMajor, '.', kLeastMinor,
                      " or later with threads (Debian: libucx0, or STRETTO_UCX=", "/path/of/", kLibrary, ")")};
  };
  std::string tried;
  for (const std::string& path : ucx_candidates()) {
    void* const library = load_without_signals(path);
    if (library == nullptr) {
      const char* const why = ::dlerror();
      if (tried.empty()) tried = why != nullptr ? why : path;
      continue;
    }
    UcxLibrary ucx;
    if (!find_function(library, "ucp_get_version", ucx.get_version)) return none(path, " is no UCX");
    unsigned major = 0, minor = 0, release = 0;
    ucx.get_version(&major, &minor, &release);
    ucx.version = text(major, '.', minor, '.', release);
    if (major != kMajor || minor < kLeastMinor) return none(path, " is UCX ", ucx.version);
    const auto find = [library](const char* name, auto*& function) { return find_function(library, name, function); };
    const bool all = find("ucp_lib_query", ucx.lib_query) && find("ucp_config_read", ucx.config_read) &&
                     find("ucp_config_modify", ucx.config_modify) && find("ucp_config_release", ucx.config_release) &&
                     find("ucp_init_version", ucx.init_version) && find("ucp_cleanup", ucx.cleanup) &&
                     find("ucp_worker_create", ucx.worker_create) && find("ucp_worker_destroy", ucx.worker_destroy) &&
                     find("ucp_worker_get_address", ucx.worker_get_address) &&
                     find("ucp_worker_release_address", ucx.worker_release_address) &&
                     find("ucp_worker_get_efd", ucx.worker_get_efd) && find("ucp_worker_arm", ucx.worker_arm) &&
                     find("ucp_worker_progress", ucx.worker_progress) &&
                     find("ucp_worker_set_am_recv_handler", ucx.set_am_recv_handler) &&
                     find("ucp_ep_create", ucx.ep_create) && find("ucp_am_send_nbx", ucx.am_send_nbx) &&
                     find("ucp_request_free", ucx.request_free) && find("ucs_status_string", ucx.status_string);
    if (!all) return none(path, " is UCX ", ucx.version, ", but not whole");
    ucp_lib_attr_t can{};
    can.field_mask = UCP_LIB_ATTR_FIELD_MAX_THREAD_LEVEL;
    if (ucx.lib_query(&can) != UCS_OK || can.max_thread_level == UCS_THREAD_MODE_SINGLE) {
      return none(path, " is UCX ", ucx.version, " without threads");
    }
    return ucx;
  }
  return none("no UCX: ", tried);
}

}  // namespace

Result<const UcxLibrary*> load_ucx() {
  static const Result<UcxLibrary> loaded = load_first();
  if (!loaded) return loaded.error();
  return &*loaded;
}

}  // namespace stretto
