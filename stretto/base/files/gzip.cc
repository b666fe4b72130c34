#include "stretto/base/files/gzip.h"

#include <dlfcn.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace stretto {
namespace {

// Traces and tables of numbers have a tenth to a twentieth of their size; the most that the format can is 1,000 times.
constexpr std::uint64_t kMostTimes = 200, kAlwaysAllowed = 64 << 20;
constexpr int kCutCode = -5, kSystemCode = -1;  // Z_BUF_ERROR, Z_ERRNO

/// Of zlib.h. The functions of gzip files have no other types, and have not changed since 1995.
struct Zlib {
  void* (*gzdopen)(int, const char*) = nullptr;
  int (*gzread)(void*, void*, unsigned) = nullptr;
  int (*gzdirect)(void*) = nullptr;
  long (*gzoffset)(void*) = nullptr;
  const char* (*gzerror)(void*, int*) = nullptr;
  int (*gzclose)(void*) = nullptr;
};

template <class Function>
bool find(void* library, const char* name, Function*& function) {
  function = reinterpret_cast<Function*>(::dlsym(library, name));
  return function != nullptr;
}

/// None of its functions where the machine has none.
const Zlib& zlib() {
  static const Zlib loaded = [] {
    Zlib zlib;
    void* library = ::dlopen("libz.so.1", RTLD_NOW | RTLD_LOCAL);
    const bool all = library != nullptr && find(library, "gzdopen", zlib.gzdopen) &&
                     find(library, "gzread", zlib.gzread) && find(library, "gzdirect", zlib.gzdirect) &&
                     find(library, "gzoffset", zlib.gzoffset) && find(library, "gzerror", zlib.gzerror) &&
                     find(library, "gzclose", zlib.gzclose);
    return all ? zlib : Zlib();
  }();
  return loaded;
}

}  // namespace

void GzipReader::Closed::operator()(void* file) const {
  zlib().gzclose(file);
}

Result<GzipReader> GzipReader::open(int file) {
  if (zlib().gzdopen == nullptr) {
    return Error{Errc::unavailable,
                 "it is compressed, and this machine has no zlib (libz.so.1); expected what gunzip "
                 "makes of it"};
  }
  const int own = ::dup(file);
  void* opened = own >= 0 ? zlib().gzdopen(own, "rb") : nullptr;
  if (opened == nullptr) {
    const int reason = errno;
    if (own >= 0) ::close(own);
    return Error{Errc::io, std::strerror(reason != 0 ? reason : ENOMEM)};
  }
  return GzipReader(opened);
}

Result<std::size_t> GzipReader::read(std::span<char> out) {
  errno = 0;
  const int got = zlib().gzread(file_.get(), out.data(), static_cast<unsigned>(out.size()));
  int code = 0;
  if (got <= 0) {
    const int system = errno;
    (void)zlib().gzerror(file_.get(), &code);
    cut_ = code == kCutCode;
    if (code == kSystemCode) return Error{Errc::io, std::strerror(system != 0 ? system : EIO)};
    if (cut_) return Error{Errc::bad_input, "it is cut off: its compressed data ends too early"};
    if (got < 0 || code < 0) return Error{Errc::bad_input, "its compressed data is damaged"};
    return std::size_t{0};
  }
  unpacked_ += static_cast<std::uint64_t>(got);
  const auto packed = static_cast<std::uint64_t>(zlib().gzoffset(file_.get()));
  if (unpacked_ > kAlwaysAllowed && unpacked_ > kMostTimes * packed && zlib().gzdirect(file_.get()) == 0) {
    return Error{Errc::bad_input, text("more than ", kMostTimes,
                                       " times its size comes out of it; expected text that "
                                       "was compressed once")};
  }
  return static_cast<std::size_t>(got);
}

}  // namespace stretto
