#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

namespace stretto::command {

/// Puts a tag before each line of a stream of bytes, and lets no line out before it is whole. A line ends behind its
/// newline; behind a carriage return, as progress bars have it, unless a newline follows. The bytes between tags are
/// those that came.
class TaggedLines {
 public:
  /// A longer line comes in parts of this size, each with a tag and a newline, so that memory is bounded.
  static constexpr std::size_t kLongestLine = std::size_t{1} << 20;

  explicit TaggedLines(std::string tag) : tag_(std::move(tag)) {}

  /// Takes bytes that have come, and appends the lines that are whole now to `out`.
  void add(std::string_view bytes, std::string& out);
  /// At the stream's end: appends a line that has no end, with a newline.
  void end(std::string& out);

 private:
  void let_out(std::string_view line, std::string& out) const;

  std::string tag_;
  std::string rest_;          // the beginning of a line
  std::size_t searched_ = 0;  // bytes of it in which its end is not
};

}  // namespace stretto::command
