#include "stretto/membership/hosts/members/master_line.h"

#include <asio/co_spawn.hpp>
#include <asio/detached.hpp>
#include <asio/dispatch.hpp>
#include <asio/use_future.hpp>
#include <utility>
#include <vector>

#include "stretto/base/version.h"
#include "stretto/transport/hosts/door.h"

namespace stretto {

MasterLine::MasterLine(const std::string& host, std::uint16_t port, const Token& token, Hear hear,
                       std::function<void(const Error&)> ended)
    : hear_(std::move(hear)), ended_(std::move(ended)) {
  asio::ip::tcp::socket socket(network_.io());
  const std::vector<asio::ip::tcp::endpoint> at{{asio::ip::make_address(host), port}};
  const Hello hello{.use = Hello::Use::member, .version = text("stretto ", stretto_version())};
  const asio::error_code error =
      asio::co_spawn(network_.io(), say_hello(socket, at, hello, token), asio::use_future).get();
  if (error) {
    throw Failure({Errc::unavailable,
                   text("the master of the job at ", host, ':', port, " cannot be reached: ", error.message())});
  }
  line_ = std::make_shared<Line>(std::move(socket));
  asio::co_spawn(
      network_.io(), [this] { return listen(); }, asio::detached);
}

MasterLine::~MasterLine() {
  network_.run([this] { std::exchange(line_, nullptr)->close(); });  // its socket ends before the network does
}

void MasterLine::write(const ProcessWords& words) {
  asio::dispatch(network_.io(), [this, words] {
    if (line_ != nullptr) line_->write(words);
  });
}

asio::awaitable<void> MasterLine::listen() {
  const std::shared_ptr<Line> line = line_;
  auto words = co_await line->read<MasterWords>();
  for (; words; words = co_await line->read<MasterWords>()) hear_(*this, *words);
  ended_(words.error());
}

}  // namespace stretto
