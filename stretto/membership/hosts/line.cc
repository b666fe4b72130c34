#include "stretto/membership/hosts/line.h"

#include <algorithm>
#include <asio/co_spawn.hpp>
#include <asio/detached.hpp>
#include <asio/read_until.hpp>
#include <asio/redirect_error.hpp>
#include <asio/use_awaitable.hpp>
#include <asio/write.hpp>
#include <utility>

#include "stretto/base/words.h"
#include "stretto/transport/hosts/kernel_state.h"
#include "stretto/transport/hosts/network_thread.h"

namespace stretto {

Line::Line(asio::ip::tcp::socket socket) : socket_(std::move(socket)) {
  asio::error_code ignored;
  keep_from_children(socket_.native_handle());
  socket_.set_option(asio::ip::tcp::no_delay(true), ignored);
}

asio::awaitable<Result<std::string>> Line::read_line(const char* kind) {
  asio::error_code error;
  const std::size_t length = co_await asio::async_read_until(socket_, asio::dynamic_buffer(read_, kMostBytes), '\n',
                                                             asio::redirect_error(asio::use_awaitable, error));
  if (error == asio::error::not_found) {
    cancel();
    co_return Error{Errc::bad_input, text(kind, " cannot be read: it has more than ", kMostBytes, " bytes")};
  }
  closed_there_ = error == asio::error::eof && !was_reset_;
  if (error) co_return Error{Errc::lost_peer, "it has ended"};
  std::string line = read_.substr(0, length);
  read_.erase(0, length);
  co_return line;
}

void Line::write_line(std::string line) {
  to_send_.push_back(std::move(line) + '\n');
  if (std::exchange(sending_, true)) return;
  asio::co_spawn(
      socket_.get_executor(), [self = shared_from_this()] { return self->send(); }, asio::detached);
}

asio::awaitable<void> Line::send() {
  asio::error_code error;
  while (!to_send_.empty() && !error) {
    const std::string words = std::move(to_send_.front());
    to_send_.pop_front();
    co_await asio::async_write(socket_, asio::buffer(words), asio::redirect_error(asio::use_awaitable, error));
  }
  was_reset_ |= error == asio::error::connection_reset;
  sending_ = false;
  if (closes_) cancel();
}

Duration Line::since_heard() {
  const auto info = kernel_state_of(socket_.native_handle());
  if (!info) return Duration::max();
  return std::chrono::milliseconds(std::min(info->tcpi_last_ack_recv, info->tcpi_last_data_recv));
}

bool Line::is_silent(TimePoint now, Duration limit) {
  if (!repeats(socket_.native_handle())) {
    repeats_since_.reset();
  } else if (!repeats_since_) {
    repeats_since_ = now;
  }
  return since_heard() >= limit || (repeats_since_ && now - *repeats_since_ >= limit);
}

void Line::close() {
  closes_ = true;
  if (!sending_) cancel();
}

void Line::cancel() {
  asio::error_code ignored;
  socket_.shutdown(asio::ip::tcp::socket::shutdown_both, ignored);
  socket_.close(ignored);
}

}  // namespace stretto
