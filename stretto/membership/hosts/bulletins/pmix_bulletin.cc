#include "stretto/membership/hosts/bulletins/pmix_bulletin.h"

#include <dlfcn.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <thread>
#include <utility>

#include "stretto/base/machine/library_function.h"
#include "stretto/base/words.h"
#include "stretto/membership/hosts/bulletins/at_exit.h"

namespace stretto {
namespace {

constexpr char kPmixKey[] = "stretto.meeting";

// Of the PMIx standard, version 4, sections 3.2.2, 3.2.8 and 3.2.9, whose layout stays as it is: no header is needed.
struct Process {
  char name_space[256];
  std::uint32_t rank;
};
struct Value {
  std::uint16_t type;
  union {
    char* string;
    int integer;
    char* widest[3];
  } data;
};
struct Info {
  char key[512];
  std::uint32_t flags;
  Value value;
};
constexpr std::uint16_t kString = 3, kInteger = 6;
constexpr std::uint8_t kForAll = 3;
constexpr int kSuccess = 0, kTimeout = -24, kNotFound = -46;
constexpr char kTimeoutKey[] = "pmix.timeout";

/// Begins `call` on a thread that nobody waits for, and that may never end.
template <class Call>
auto aside(Call call) {
  std::packaged_task<decltype(call())()> task(std::move(call));
  auto answer = task.get_future();
  std::thread(std::move(task)).detach();
  return answer;
}

/// What has come within a second.
template <class T>
std::optional<T> taken(std::future<T>& answer) {
  if (answer.wait_for(Bulletin::kLongestCall) != std::future_status::ready) return std::nullopt;
  return answer.get();
}

}  // namespace

/// The library's functions, and who this process is to them. It stays loaded: threads of its own run in it.
struct PmixBulletin::Library {
  int (*init)(Process*, Info*, std::size_t) = nullptr;
  int (*put)(std::uint8_t, const char*, Value*) = nullptr;
  int (*commit)() = nullptr;
  int (*get)(const Process*, const char*, const Info*, std::size_t, Value**) = nullptr;
  int (*finalize)(const Info*, std::size_t) = nullptr;
  const char* (*error_string)(int) = nullptr;
  Process self{};
  std::string missing;  ///< why it cannot be used; empty: it can

  Library() {
    const char* given = std::getenv("STRETTO_PMIX");
    const char* const name = given != nullptr && *given != '\0' ? given : "libpmix.so.2";
    void* const library = ::dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
      missing = text(::dlerror(), "; STRETTO_PMIX names another file of it");
    } else if (!find_function(library, "PMIx_Init", init) || !find_function(library, "PMIx_Put", put) ||
               !find_function(library, "PMIx_Commit", commit) || !find_function(library, "PMIx_Get", get) ||
               !find_function(library, "PMIx_Finalize", finalize) ||
               !find_function(library, "PMIx_Error_string", error_string)) {
      missing = text(name, ": it is no library of PMIx");
    }
  }

  Error failed(const char* function, int status) const {
    return {Errc::io, text("PMIx, by which the ranks meet: ", function, ": ", error_string(status), " (", status, ')')};
  }
  Answer begin() {
    const int status = init(&self, nullptr, 0);
    if (status != kSuccess) return failed("PMIx_Init", status);
    return std::string();
  }
  Answer leave(std::string words) const {
    Value value{.type = kString, .data = {.string = words.data()}};
    if (const int status = put(kForAll, kPmixKey, &value); status != kSuccess) return failed("PMIx_Put", status);
    if (const int status = commit(); status != kSuccess) return failed("PMIx_Commit", status);
    return std::string();
  }
  Answer find() const {
    Process first = self;
    first.rank = 0;
    Info timeout{};
    std::memcpy(timeout.key, kTimeoutKey, sizeof kTimeoutKey);
    timeout.value.type = kInteger;
    timeout.value.data.integer = static_cast<int>(kLongestCall.count());
    Value* value = nullptr;
    const int status = get(&first, kPmixKey, &timeout, 1, &value);
    if (status == kTimeout || status == kNotFound) return std::string();
    if (status != kSuccess) return failed("PMIx_Get", status);
    if (value->type != kString)
      return Error{Errc::io, "PMIx, by which the ranks meet: what rank 0 has left is no words"};
    std::string words = value->data.string;
    std::free(value->data.string);
    std::free(value);
    return words;
  }
};

Result<std::shared_ptr<const PmixBulletin::Library>> PmixBulletin::begun() {
  if (library_) return library_;
  if (!beginning_.valid()) {
    auto library = std::make_shared<Library>();
    if (!library->missing.empty()) return Error{Errc::io, "PMIx, by which the ranks meet: " + library->missing};
    beginning_ = aside([library] { return library->begin(); });
    loading_ = library;
  }
  const auto answer = taken(beginning_);
  if (!answer) return Error{Errc::unavailable, "PMIx, by which the ranks meet: PMIx_Init does not return"};
  if (!*answer) return answer->error();
  library_ = std::exchange(loading_, nullptr);
  at_exit_of_process([library = library_] {  // mpirun takes a process that ends without for lost
    auto ended = aside([library] { return library->finalize(nullptr, 0); });
    (void)taken(ended);
  });
  return library_;
}

Result<void> PmixBulletin::publish(const std::string& words) {
  const auto library = begun();
  if (!library) return library.error();
  if (!asked_.valid()) asked_ = aside([library = *library, words] { return library->leave(words); });
  const auto answer = taken(asked_);
  if (!answer) return Error{Errc::unavailable, "PMIx, by which the ranks meet: it does not take rank 0's address"};
  if (!*answer) return answer->error();
  return {};
}

Result<std::string> PmixBulletin::look_up() {
  const auto library = begun();
  if (!library) return library.error();
  if (!asked_.valid()) asked_ = aside([library = *library] { return library->find(); });
  return taken(asked_).value_or(std::string());
}

}  // namespace stretto
