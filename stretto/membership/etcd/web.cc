#include "stretto/membership/etcd/web.h"

#include <dlfcn.h>

#include <chrono>
#include <cstddef>

#include "stretto/base/machine/library_function.h"

namespace stretto {
namespace {

// Of libcurl's interface, whose numbers stay as they are: no header of it is needed.
namespace option {
constexpr int kWriteData = 10001, kUrl = 10002, kPostFields = 10015, kPostFieldSize = 60, kNoSignal = 99,
              kTimeoutMs = 155, kConnectTimeoutMs = 156, kNoProxy = 10177, kWriteFunction = 20011;
}  // namespace option
constexpr int kStatus = 0x200002;  // of the answer
constexpr int kDone = 0, kNoProtocol = 1, kBadUrl = 3, kUnknownHost = 6,
              kRefused = 7;  // nothing was said but by the first

struct Curl {
  void* (*easy_init)() = nullptr;
  int (*easy_setopt)(void*, int, ...) = nullptr;
  int (*easy_perform)(void*) = nullptr;
  int (*easy_getinfo)(void*, int, ...) = nullptr;
  void (*easy_cleanup)(void*) = nullptr;
  const char* (*easy_strerror)(int) = nullptr;
};

const Curl& curl() {
  static const Curl loaded = [] {
    Curl curl;
    void* library = nullptr;
    for (const char* name : {"libcurl.so.4", "libcurl-gnutls.so.4"}) {
      if (library == nullptr) library = ::dlopen(name, RTLD_NOW | RTLD_LOCAL);
    }
    int (*global_init)(long) = nullptr;
    const bool all = library != nullptr && find_function(library, "curl_global_init", global_init) &&
                     find_function(library, "curl_easy_init", curl.easy_init) &&
                     find_function(library, "curl_easy_setopt", curl.easy_setopt) &&
                     find_function(library, "curl_easy_perform", curl.easy_perform) &&
                     find_function(library, "curl_easy_getinfo", curl.easy_getinfo) &&
                     find_function(library, "curl_easy_cleanup", curl.easy_cleanup) &&
                     find_function(library, "curl_easy_strerror", curl.easy_strerror);
    constexpr long kEverything = 3;
    return all && global_init(kEverything) == 0 ? curl : Curl();
  }();
  return loaded;
}

std::size_t take_bytes(const char* bytes, std::size_t size, std::size_t count, void* into) {
  static_cast<std::string*>(into)->append(bytes, size * count);
  return size * count;
}

long milliseconds(Duration time) {
  return static_cast<long>(std::chrono::ceil<std::chrono::milliseconds>(time).count());
}

}  // namespace

WebClient::WebClient() : handle_(curl().easy_init == nullptr ? nullptr : curl().easy_init()) {
  if (handle_ != nullptr) return;
  throw Failure({Errc::unavailable, "this machine has no libcurl (libcurl.so.4), by which etcd is asked"});
}

WebClient::~WebClient() {
  curl().easy_cleanup(handle_);
}

Result<WebAnswer> WebClient::post(const std::string& url, const std::string& body, Duration patience) {
  WebAnswer answer;
  const auto set = [this](int what, auto value) { curl().easy_setopt(handle_, what, value); };
  set(option::kUrl, url.c_str());
  set(option::kPostFields, body.c_str());
  set(option::kPostFieldSize, static_cast<long>(body.size()));
  set(option::kTimeoutMs, milliseconds(patience));
  set(option::kConnectTimeoutMs, milliseconds(patience));
  set(option::kNoSignal, 1L);
  set(option::kNoProxy, "*");
  set(option::kWriteFunction, &take_bytes);
  set(option::kWriteData, static_cast<void*>(&answer.body));
  const int outcome = curl().easy_perform(handle_);
  if (outcome == kDone) {
    long status = 0;
    curl().easy_getinfo(handle_, kStatus, &status);
    answer.status = static_cast<int>(status);
    return answer;
  }
  const bool is_unheard =
      outcome == kNoProtocol || outcome == kBadUrl || outcome == kUnknownHost || outcome == kRefused;
  return Error{is_unheard ? Errc::lost_peer : Errc::timeout, curl().easy_strerror(outcome)};
}

}  // namespace stretto
