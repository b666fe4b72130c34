#include "stretto/transport/hosts/hello.h"

#include <sys/random.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "stretto/base/words.h"

namespace stretto {
namespace {

constexpr std::uint64_t kMagic = 0x6f74'7465'7274'7302;  // "stretto" and the layout's number

/// As it lies in the bytes: numbers of this machine's order, which kMagic tells.
struct Wire {
  std::uint64_t magic = kMagic;
  Token token{};
  std::uint32_t use = 0;
  std::int32_t from = 0, to = 0, ranks = 0;
  std::array<char, 64> version{};
  std::array<std::byte, 24> unused{};
};
static_assert(sizeof(Wire) == Hello::kBytes);

/// Takes as long for any two tokens, so that no one is found byte by byte.
bool equal(const Token& a, const Token& b) {
  std::byte differs{0};
  for (std::size_t i = 0; i < a.size(); ++i) differs |= a[i] ^ b[i];
  return differs == std::byte{0};
}

}  // namespace

Token new_token() {
  Token token;
  std::size_t drawn = 0;
  while (drawn < token.size()) {
    const ssize_t more = ::getrandom(token.data() + drawn, token.size() - drawn, 0);
    if (more > 0) drawn += static_cast<std::size_t>(more);
  }
  return token;
}

std::string digits_of(const Token& token) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string digits;
  for (const std::byte byte : token) {
    digits += kDigits[std::to_integer<std::size_t>(byte >> 4)];
    digits += kDigits[std::to_integer<std::size_t>(byte & std::byte{15})];
  }
  return digits;
}

Token token_of_secret(const std::string& secret) {
  if (const auto token = token_of(secret)) return *token;
  const XXH128_hash_t hash = XXH3_128bits(secret.data(), secret.size());
  Token token{};
  static_assert(sizeof(hash) == sizeof(token));
  std::memcpy(token.data(), &hash, token.size());
  return token;
}

Result<Token> token_of(const std::string& digits) {
  Token token{};
  const auto value = [](char c) { return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1; };
  bool fits = digits.size() == 2 * token.size();
  for (std::size_t i = 0; fits && i < digits.size(); ++i) {
    const int digit = value(digits[i]);
    fits = digit >= 0;
    if (fits) token[i / 2] = token[i / 2] << 4 | static_cast<std::byte>(digit);
  }
  if (!fits) return Error{Errc::bad_input, text("a token of ", 2 * token.size(), " hexadecimal digits was expected")};
  return token;
}

Hello::Bytes Hello::encoded(const Token& token) const {
  Wire wire{.token = token, .use = static_cast<std::uint32_t>(use), .from = from, .to = to, .ranks = ranks};
  version.copy(wire.version.data(), wire.version.size() - 1);
  return std::bit_cast<Bytes>(wire);
}

Result<Hello> Hello::decoded(const Bytes& bytes, const Token& token) {
  const auto wire = std::bit_cast<Wire>(bytes);
  const auto wrong = [](const std::string& what) { return Error{Errc::bad_input, what}; };
  if (wire.magic == __builtin_bswap64(kMagic)) return wrong("it has another byte order");
  if (wire.magic != kMagic) return wrong("it is no process of Stretto");
  if (!equal(wire.token, token)) return wrong("it is of another job: its token is another");
  const auto use = static_cast<Use>(wire.use);
  if (use < Use::messages || use > Use::member) return wrong(text("it comes for use ", wire.use));
  if (wire.ranks < 1 || wire.from < 0 || wire.from >= wire.ranks || wire.to < 0 || wire.to >= wire.ranks) {
    return wrong(text("it comes as rank ", wire.from, " of ", wire.ranks, " to rank ", wire.to));
  }
  const std::string version(wire.version.data(), ::strnlen(wire.version.data(), wire.version.size()));
  return Hello{.use = use, .from = wire.from, .to = wire.to, .ranks = wire.ranks, .version = version};
}

}  // namespace stretto
