#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "stretto/base/error.h"

namespace stretto {

/// Reads a file that gzip has compressed. It is the machine's zlib that unpacks it, loaded when it is first needed:
/// whoever links the library, and a wheel for any machine, needs none to start.
class GzipReader {
 public:
  /// `file` stays the caller's, at its begin. Errc::unavailable where the machine has no zlib.
  static Result<GzipReader> open(int file);

  /// Fills as much of `out` as one call gives, and returns how much; 0 at the end. What is not compressed is read as it
  /// is. Errc::bad_input where the compressed data is damaged or ends too early, or where more comes out of it than of
  /// any text (a bomb of zeros); Errc::io where it cannot be read.
  Result<std::size_t> read(std::span<char> out);

  /// Whether read() has failed because the compressed data ends too early.
  bool is_cut() const { return cut_; }

 private:
  struct Closed {
    void operator()(void* file) const;
  };

  explicit GzipReader(void* file) : file_(file) {}

  std::unique_ptr<void, Closed> file_;  // zlib's gzFile
  std::uint64_t unpacked_ = 0;
  bool cut_ = false;
};

}  // namespace stretto
