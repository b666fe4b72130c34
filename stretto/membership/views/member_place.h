#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "stretto/base/error.h"
#include "stretto/membership/views/view.h"
#include "stretto/transport/hosts/hello.h"

namespace stretto {

/// As whom a process that `stretto run` has started comes to the job's master, where members change.
struct MemberPlace {
  /// The environment variable that says it: encoded().
  static constexpr const char* kVariable = "STRETTO_MEMBER";

  std::string host = "127.0.0.1";  ///< address of the master
  std::uint16_t port = 0;          ///< of the same
  MemberNumber number = 0;
  int place = 0;  ///< 0 … most − 1: no other process of the launcher's has it as long as this one lives
  int most = 1;   ///< members at a time
  /// So long another master may come to the address where there is none.
  std::chrono::milliseconds patience{0};
  Token token{};          ///< of the job
  std::string etcd = {};  ///< where the next master is found, EtcdAddress::to_string(); empty: at the same address

  /// "host:port/number/place/most/patience/token", and behind it a slash and the words of `etcd`, if there are any.
  std::string encoded() const;
  /// Errc::bad_input for anything else.
  static Result<MemberPlace> decoded(std::string_view words);
};

/// That of this process, by its environment; nothing where it is no such member. Throws UsageError where the variable
/// says nothing of the kind.
std::optional<MemberPlace> member_place();

}  // namespace stretto
