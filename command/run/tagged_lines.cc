#include "command/run/tagged_lines.h"

namespace stretto::command {

void TaggedLines::let_out(std::string_view line, std::string& out) const {
  out += tag_;
  out += line;
}

void TaggedLines::add(std::string_view bytes, std::string& out) {
  rest_ += bytes;
  std::size_t begin = 0;
  while (true) {
    const std::size_t end = rest_.find_first_of("\r\n", searched_);
    if (end == std::string::npos) {
      searched_ = rest_.size();
      break;
    }
    if (rest_[end] == '\r' && end + 1 == rest_.size()) {  // a newline may follow
      searched_ = end;
      break;
    }
    searched_ = end + 1;
    if (rest_[end] == '\r' && rest_[end + 1] == '\n') continue;  // the newline ends it
    let_out(std::string_view(rest_).substr(begin, searched_ - begin), out);
    begin = searched_;
  }
  while (rest_.size() - begin > kLongestLine) {
    let_out(std::string_view(rest_).substr(begin, kLongestLine), out);
    out += '\n';
    begin += kLongestLine;
  }
  rest_.erase(0, begin);
  searched_ = searched_ > begin ? searched_ - begin : 0;
}

void TaggedLines::end(std::string& out) {
  if (rest_.empty()) return;
  let_out(rest_, out);
  if (rest_.back() != '\r') out += '\n';
  rest_.clear();
  searched_ = 0;
}

}  // namespace stretto::command
