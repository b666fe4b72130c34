#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "stretto/base/error.h"

namespace stretto {

/// The secret of a job, which its ranks know from their launcher: connections without it are closed.
using Token = std::array<std::byte, 16>;

/// Draws one, by the kernel's random bits.
Token new_token();
/// 32 digits, and back. Errc::bad_input for anything else.
std::string digits_of(const Token& token);
Result<Token> token_of(const std::string& digits);
/// That of a secret that people have made up: its digits where it is 32 of them, else drawn from its text.
Token token_of_secret(const std::string& secret);

/// The first bytes of each connection between processes of a job: who comes, to whom, and what for.
struct Hello {
  static constexpr std::size_t kBytes = 128;
  using Bytes = std::array<std::byte, kBytes>;
  /// The purpose of a connection.
  enum class Use : std::uint32_t {
    messages = 1,  ///< envelopes, heads and bodies, both ways
    meeting = 2,   ///< words with rank 0
    beats = 3,     ///< beats and news between hosts
    member = 4,    ///< words with the master of a job whose members change
  };

  Use use = Use::messages;
  int from = 0;         ///< rank that comes
  int to = 0;           ///< rank that is meant
  int ranks = 1;        ///< of the job; 1 for `member`, whose job has no number of ranks
  std::string version;  ///< "stretto 1.0.0"; up to 63 characters

  /// As it travels, with the token.
  Bytes encoded(const Token& token) const;
  /// Errc::bad_input says what is wrong with what a stranger has sent: another program, byte order, or token.
  static Result<Hello> decoded(const Bytes& bytes, const Token& token);
};

}  // namespace stretto
