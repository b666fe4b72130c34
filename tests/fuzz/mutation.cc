#include "tests/fuzz/mutation.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace stretto::fuzz {
namespace {

constexpr std::size_t kLongest = 64 << 10;

// Where sizes, signs and types end.
constexpr std::uint64_t kNumbers[] = {
    0,          1,          7,          8,           63,         64,         127,
    128,        255,        256,        0x7fff,      0x8000,     0xffff,     0x10000,
    0x7fffffff, 0x80000000, 0xffffffff, 0x100000000, 1ull << 62, 1ull << 63, ~0ull,
    ~0ull - 1,  ~0ull - 7,  8192,       8193,        4096,       1000000000, 0x7ff0000000000000ull,
    0x7fc00000};
constexpr const char* kWords[] = {"-1",
                                  "0",
                                  "1e308",
                                  "1e-308",
                                  "nan",
                                  "inf",
                                  "-0.0",
                                  "18446744073709551616",
                                  "9223372036854775808",
                                  "4294967296",
                                  "0x10",
                                  "+1",
                                  "1.5",
                                  "",
                                  ",",
                                  "\n",
                                  ":",
                                  "\"",
                                  "{",
                                  "]",
                                  "null",
                                  "99999999",
                                  "\\u0000",
                                  "\xef\xbb\xbf",
                                  "\xff"};

std::size_t place_in(const std::string& input, Random& random) {
  return static_cast<std::size_t>(random.below(input.size() + 1));
}

std::string piece_of(const std::string& input, Random& random) {
  const std::size_t at = place_in(input, random);
  return input.substr(at, static_cast<std::size_t>(random.log_uniform(1, 64)));
}

/// Takes the place of what stands there.
void put_number(std::string& input, Random& random) {
  const std::uint64_t number = kNumbers[random.below(std::size(kNumbers))];
  const std::size_t bytes = std::size_t{1} << random.below(4);
  if (input.size() < bytes) return;
  std::memcpy(&input[static_cast<std::size_t>(random.below(input.size() - bytes + 1))], &number, bytes);
}

/// A decimal number in the text becomes another word.
void put_word(std::string& input, Random& random) {
  const std::size_t from = std::min(input.find_first_of("0123456789", place_in(input, random)), input.size());
  const std::size_t to = std::min(input.find_first_not_of("0123456789.", from), input.size());
  input.replace(from, to - from, kWords[random.below(std::size(kWords))]);
}

void change(std::string& input, std::span<const std::string> inputs, Random& random) {
  switch (random.below(8)) {
    case 0:
      if (!input.empty())
        input[static_cast<std::size_t>(random.below(input.size()))] ^= static_cast<char>(1u << random.below(8));
      return;
    case 1:
      if (!input.empty())
        input[static_cast<std::size_t>(random.below(input.size()))] = static_cast<char>(random.below(256));
      return;
    case 2: return put_number(input, random);
    case 3: return put_word(input, random);
    case 4: input.insert(place_in(input, random), piece_of(input, random)); return;
    case 5: input.erase(place_in(input, random), static_cast<std::size_t>(random.log_uniform(1, 64))); return;
    case 6: input.insert(place_in(input, random), piece_of(inputs[random.below(inputs.size())], random)); return;
    default: input.resize(place_in(input, random)); return;
  }
}

}  // namespace

std::string mutated(std::span<const std::string> inputs, Random& random) {
  std::string input = inputs[random.below(inputs.size())];
  for (std::uint64_t changes = random.log_uniform(1, 8); changes > 0; --changes) change(input, inputs, random);
  if (input.size() > kLongest) input.resize(kLongest);
  return input;
}

}  // namespace stretto::fuzz
