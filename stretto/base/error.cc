#include "stretto/base/error.h"

#include <cstdio>
#include <cstdlib>

namespace stretto {

const char* name_of(Errc code) {
  switch (code) {
    case Errc::timeout: return "timeout";
    case Errc::lost_peer: return "lost_peer";
    case Errc::aborted: return "aborted";
    case Errc::bad_input: return "bad_input";
    case Errc::diverged: return "diverged";
    case Errc::unavailable: return "unavailable";
    case Errc::io: return "io";
    case Errc::members_changed: return "members_changed";
    case Errc::excluded: return "excluded";
  }
  return "unknown";
}

namespace {
thread_local int throwing = 0;
}

CheckFailuresThrow::CheckFailuresThrow() {
  ++throwing;
}
CheckFailuresThrow::~CheckFailuresThrow() {
  --throwing;
}

namespace internal {

void check_failed(const char* file, int line, const char* condition, const std::string& values) {
  if (throwing > 0) throw CheckFailure(text(condition, values.empty() ? "" : ": ", values));
  std::fprintf(stderr, "stretto: internal error at %s:%d: %s%s%s\n", file, line, condition, values.empty() ? "" : ": ",
               values.c_str());
  std::fflush(stderr);
  std::abort();
}

}  // namespace internal
}  // namespace stretto
