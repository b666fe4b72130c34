#pragma once

#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <variant>

#include "stretto/base/words.h"

namespace stretto {

/// The kind of a failure, for a program to act on. The Error says the details in words.
enum class Errc {
  timeout,          ///< a deadline passed; the operation may be resumed
  lost_peer,        ///< a rank has died or its link is gone
  aborted,          ///< some rank stopped the job and said why
  bad_input,        ///< a file or message that cannot be used as it is
  diverged,         ///< replicas that should be equal are not
  unavailable,      ///< not built in, or the machine does not offer it
  io,               ///< the operating system refused
  members_changed,  ///< the members of the job change: the operation may be made anew among those that go on
  excluded,         ///< this rank is no member of the job any more
};

/// "timeout", "lost_peer", …
const char* name_of(Errc code);

/// An expected failure, as a value.
struct Error {
  Errc code;            ///< for a program to act on
  std::string message;  ///< for a person: rank, peer, round, and the time waited, where there are such
  int rank = -1;        ///< the rank it is about; −1: none, or several
};

/// The caller's mistake: says what was wrong, with the values, and what would be right.
class UsageError : public std::invalid_argument {
 public:
  using std::invalid_argument::invalid_argument;  ///< from the text of what()
};

/// An expected failure where no caller can go on with a value: carries the Error up to the command.
class Failure : public std::runtime_error {
 public:
  /// what() is the error's message.
  explicit Failure(Error error) : std::runtime_error(error.message), error_(std::move(error)) {}
  const Error& error() const { return error_; }  ///< what went wrong

 private:
  Error error_;
};

/// A value or the Error that took its place. Not thread-safe.
template <class T>
class [[nodiscard]] Result {
 public:
  /// Success. Not explicit: a function returns its value.
  Result(T value) : state_(std::move(value)) {}  // NOLINT(google-explicit-constructor)
  /// No success. Not explicit: a function returns its Error.
  Result(Error error) : state_(std::move(error)) {}  // NOLINT(google-explicit-constructor)

  bool ok() const { return state_.index() == 0; }  ///< whether there is a value
  explicit operator bool() const { return ok(); }  ///< ok()

  /// The value. Requires: ok(), here and in the next six.
  T& value() & { return std::get<0>(state_); }
  const T& value() const& { return std::get<0>(state_); }    ///< the value, to read
  T&& value() && { return std::get<0>(std::move(state_)); }  ///< the value, to move from
  T& operator*() & { return value(); }                       ///< value()
  const T& operator*() const& { return value(); }            ///< value(), to read
  T* operator->() { return &value(); }                       ///< a member of the value
  const T* operator->() const { return &value(); }           ///< a member of the value, to read

  /// Requires: !ok().
  const Error& error() const { return std::get<1>(state_); }

  /// The value, to move from. Throws Failure where there is none.
  T&& or_throw() && {
    if (!ok()) throw Failure(error());
    return std::get<0>(std::move(state_));
  }

 private:
  std::variant<T, Error> state_;
};

/// Success, which has no value, or an Error.
template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;  ///< success
  /// No success. Not explicit: a function returns its Error.
  Result(Error error) : error_(std::move(error)) {}  // NOLINT(google-explicit-constructor)

  bool ok() const { return !error_.has_value(); }  ///< whether it succeeded
  explicit operator bool() const { return ok(); }  ///< ok()
  /// Requires: !ok().
  const Error& error() const { return *error_; }
  /// Throws Failure where it did not succeed.
  void or_throw() const {
    if (error_) throw Failure(*error_);
  }

 private:
  std::optional<Error> error_;
};

/// \cond inner
/// Thrown instead of stopping the process while a CheckFailuresThrow lives on this thread.
class CheckFailure : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

/// For searches that look for our own bugs: turns failing checks of this thread into exceptions.
class CheckFailuresThrow {
 public:
  CheckFailuresThrow();
  ~CheckFailuresThrow();
  CheckFailuresThrow(const CheckFailuresThrow&) = delete;
  CheckFailuresThrow& operator=(const CheckFailuresThrow&) = delete;
};

namespace internal {
[[noreturn]] void check_failed(const char* file, int line, const char* condition, const std::string& values);
}
/// \endcond

}  // namespace stretto

/// Our own bug: stops the process and prints the condition and the values given after it.
#define STRETTO_CHECK(condition, ...)                                                                  \
  do {                                                                                                 \
    if (__builtin_expect(!(condition), 0)) {                                                           \
      ::stretto::internal::check_failed(__FILE__, __LINE__, #condition, ::stretto::text(__VA_ARGS__)); \
    }                                                                                                  \
  } while (false)
